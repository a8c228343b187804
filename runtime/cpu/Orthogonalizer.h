//===- Orthogonalizer.h - Newton-Schulz iteration of a matrix ---*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_ORTHOGONALIZER_H
#define PP_RUNTIME_CPU_ORTHOGONALIZER_H

#include "cpu/LibraryKernel.h"

#include <cstdint>
#include <memory>

namespace pp::runtime {

/// Replaces a matrix U S V^T by nearly U V^T: Muon's step of a matrix (Jordan
/// et al., "Muon: An optimizer for hidden layers in neural networks", 2024).
/// With X = M / |M| of rows no longer than columns, else of columns, five times
///
///   A = X X^T        X <- a X + (b A + c A A) X
///
/// with a, b, c = 3.4445, -4.7750, 2.0315, which brings all singular values to
/// about 0.7 to 1.2. In f32; PyTorch's has factors of bf16.
///
/// An object may be used by one thread at a time.
class Orthogonalizer {
public:
  /// Throws Error where the library has no such products.
  Orthogonalizer(int64_t rows, int64_t columns);

  /// What run() wants as memory, a multiple of 64.
  uint64_t scratchBytes() const;

  /// `scratch` begins with the matrix, rows x columns numbers without gaps,
  /// which become those of the result.
  void run(char *scratch) const;

private:
  /// Where a matrix lies in the scratch memory.
  uint64_t offsetOf(unsigned number) const;

  int64_t rows, columns;
  std::unique_ptr<LibraryKernel> gram, square, product;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_ORTHOGONALIZER_H
