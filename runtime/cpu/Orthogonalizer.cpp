//===- Orthogonalizer.cpp -------------------------------------------------===//
#include "cpu/Orthogonalizer.h"
#include "kernel/Part.h"
#include "plan/DataType.h"
#include "support/Error.h"

#include <algorithm>
#include <cmath>

using namespace pp::runtime;

static std::unique_ptr<LibraryKernel> create(const std::string &descriptor) {
  std::string error;
  auto kernel = LibraryKernel::create(descriptor, error);
  if (!kernel)
    failInternal("'{}': {}", descriptor, error);
  return kernel;
}

/// `isTransposed`: of what is stored as columns x rows.
static std::string factor(const char *name, int64_t rows, int64_t columns,
                          bool isTransposed) {
  int64_t strides[] = {isTransposed ? 1 : columns, isTransposed ? rows : 1};
  return fmt::format(" {0}={1}x{2} {0}s={3}x{4}", name, rows, columns,
                     strides[0], strides[1]);
}

static std::unique_ptr<LibraryKernel> createProduct(const std::string &a,
                                                    const std::string &b,
                                                    int64_t rows,
                                                    int64_t columns) {
  return create("matmul" + a + b + factor("c", rows, columns, false));
}

Orthogonalizer::Orthogonalizer(int64_t rows, int64_t columns)
    : rows(rows), columns(columns) {
  int64_t side = std::min(rows, columns), longer = std::max(rows, columns);
  bool isHigh = rows > columns;
  // A matrix that is high has X^T X, and its own product on the other side.
  gram = createProduct(factor("a", side, longer, isHigh),
                       factor("b", longer, side, !isHigh), side, side);
  square = createProduct(factor("a", side, side, false),
                         factor("b", side, side, false), side, side);
  product =
      isHigh ? createProduct(factor("a", rows, columns, false),
                             factor("b", side, side, false), rows, columns)
             : createProduct(factor("a", side, side, false),
                             factor("b", rows, columns, false), rows, columns);
}

// | X | its product | A | A A | scratchpad |
uint64_t Orthogonalizer::offsetOf(unsigned number) const {
  uint64_t side = std::min(rows, columns);
  uint64_t whole = alignUp(rows * columns * sizeof(float));
  uint64_t small = alignUp(side * side * sizeof(float));
  return std::min(number, 2U) * whole + (number > 2 ? (number - 2) * small : 0);
}

uint64_t Orthogonalizer::scratchBytes() const {
  uint64_t pad = std::max({gram->scratchpadBytes(), square->scratchpadBytes(),
                           product->scratchpadBytes()});
  return offsetOf(4) + pad;
}

void Orthogonalizer::run(char *scratch) const {
  // Threads of a team have matrices of their own.
  AsPart whole;
  constexpr int iterations = 5;
  constexpr float a = 3.4445F, b = -4.7750F, c = 2.0315F;
  constexpr double smallest = 1e-7;
  auto matrix = [&](unsigned number) {
    return reinterpret_cast<float *>(scratch + offsetOf(number));
  };
  float *x = matrix(0), *next = matrix(1);
  float *grams = matrix(2), *squares = matrix(3);
  void *pad = scratch + offsetOf(4);
  int64_t side = std::min(rows, columns), count = rows * columns;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(x[i]) * x[i];
  auto scale = static_cast<float>(1 / std::max(std::sqrt(sum), smallest));
  for (int64_t i = 0; i < count; ++i)
    x[i] *= scale;
  auto execute = [&](LibraryKernel &kernel, float *l, float *r, float *to) {
    void *tensors[] = {l, r, to};
    if (!kernel.execute(tensors, pad))
      failInternal("Newton-Schulz iteration: {}", takeKernelError());
  };
  for (int i = 0; i < iterations; ++i) {
    execute(*gram, x, x, grams);
    execute(*square, grams, grams, squares);
    for (int64_t k = 0; k < side * side; ++k)
      squares[k] = b * grams[k] + c * squares[k];
    if (rows > columns)
      execute(*product, x, squares, next);
    else
      execute(*product, squares, x, next);
    for (int64_t k = 0; k < count; ++k)
      x[k] = a * x[k] + next[k];
  }
}
