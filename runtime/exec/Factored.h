//===- Factored.h - Adafactor's means of squares ----------------*- C++ -*-===//
#ifndef PP_RUNTIME_EXEC_FACTORED_H
#define PP_RUNTIME_EXEC_FACTORED_H

#include "plan/DataType.h"

#include <cstdint>
#include <vector>

namespace pp::runtime {

/// Between `from` and `to`, computed as PyTorch's lerp.
template <typename T> T interpolate(T from, T to, double weight) {
  auto w = static_cast<T>(weight), rest = static_cast<T>(1 - weight);
  return weight < 0.5 ? from + w * (to - from) : to - (to - from) * rest;
}

/// The mean of squares of a parameter's gradients, kept for rows and columns of
/// its matrices (the last two axes), whose product over the mean of the rows is
/// that of a number; of one with less than two axes it is kept as it is.
/// Shazeer and Stern, "Adafactor", ICML 2018 (arXiv 1804.04235), as
/// torch.optim.Adafactor has it. `T` is float or double.
template <typename T> class Factored {
public:
  /// The states are those of the parameter that its shape has.
  Factored(const Shape &shape, T *rows, T *columns, T *whole)
      : rows(rows), columns(columns), whole(whole), shape(shape) {}

  /// Moves the means by `weight` towards the squares of `gradient` / `scale`.
  void follow(const T *gradient, double scale, double weight);

  /// After follow(): writes numbers `begin` to `end` of the gradient over the
  /// roots of the means, which are at least `least`; the mean of a matrix' rows
  /// is, too.
  void step(const T *gradient, double scale, double least, int64_t begin,
            int64_t end, T *into) const;

private:
  /// Of the last two axes; of none there are as many columns as numbers.
  int64_t rowCount() const;
  int64_t columnCount() const;

  T *rows, *columns, *whole;
  Shape shape;
  std::vector<double> rowMeans; // by matrix
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_FACTORED_H
