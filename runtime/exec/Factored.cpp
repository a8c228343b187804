//===- Factored.cpp -------------------------------------------------------===//
#include "exec/Factored.h"

#include <algorithm>
#include <cmath>

using namespace pp::runtime;

namespace pp::runtime {

template <typename T> static void move(T &old, double next, double weight) {
  old = interpolate(old, static_cast<T>(next), weight);
}

template <typename T> int64_t Factored<T>::columnCount() const {
  return shape.empty() ? 1 : shape.back();
}

template <typename T> int64_t Factored<T>::rowCount() const {
  return shape.size() < 2 ? 1 : shape[shape.size() - 2];
}

template <typename T>
void Factored<T>::follow(const T *gradient, double scale, double weight) {
  const int64_t height = rowCount(), width = columnCount();
  int64_t matrices = 1;
  for (size_t axis = 0; axis + 2 < shape.size(); ++axis)
    matrices *= shape[axis];
  auto square = [&](int64_t at) {
    double value = gradient[at] / scale;
    return value * value;
  };
  if (shape.size() < 2) {
    for (int64_t i = 0; i < width; ++i)
      move(whole[i], square(i), weight);
    return;
  }
  std::vector<double> sums(width);
  rowMeans.clear();
  for (int64_t m = 0; m < matrices; ++m) {
    std::fill(sums.begin(), sums.end(), 0);
    double sumOfRows = 0;
    for (int64_t row = 0; row < height; ++row) {
      double sum = 0;
      for (int64_t column = 0; column < width; ++column) {
        double value = square((m * height + row) * width + column);
        sum += value;
        sums[column] += value;
      }
      T &own = rows[m * height + row];
      move(own, sum / static_cast<double>(width), weight);
      sumOfRows += own;
    }
    rowMeans.push_back(sumOfRows / static_cast<double>(height));
    for (int64_t column = 0; column < width; ++column)
      move(columns[m * width + column],
           sums[column] / static_cast<double>(height), weight);
  }
}

template <typename T>
void Factored<T>::step(const T *gradient, double scale, double least,
                       int64_t begin, int64_t end, T *into) const {
  const int64_t height = rowCount(), width = columnCount();
  const double smallest = least * least;
  auto stepOf = [&](int64_t at, double mean) {
    return static_cast<T>(gradient[at] / scale /
                          std::sqrt(std::max(mean, smallest)));
  };
  if (shape.size() < 2) {
    for (int64_t i = begin; i < end; ++i)
      into[i - begin] = stepOf(i, whole[i]);
    return;
  }
  for (int64_t at = begin; at < end;) {
    int64_t row = at / width, matrix = row / height;
    const double share = rows[row] / std::max(rowMeans[matrix], least);
    const T *ofMatrix = columns + matrix * width;
    const int64_t first = row * width, last = std::min(end, first + width);
    for (; at < last; ++at)
      into[at - begin] = stepOf(at, share * ofMatrix[at - first]);
  }
}

template class Factored<float>;
template class Factored<double>;

} // namespace pp::runtime
