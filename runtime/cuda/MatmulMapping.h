//===- MatmulMapping.h - `matmul` as cuBLASLt wants it --------------------===//
//
// The descriptor multiplies matrices with any strides. cuBLASLt multiplies
// column-major ones, D = op(X) op(Y), where op may transpose. A row-major C is
// a column-major C^T = B^T A^T, so mostly X is b and Y is a.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CUDA_MATMULMAPPING_H
#define PP_RUNTIME_CUDA_MATMULMAPPING_H

#include "ElementTypes.h"
#include "cpu/MatmulEpilogue.h"

namespace pp::cuda {

/// A column-major matrix, and how it repeats in the batch.
struct ColumnMajor {
  int64_t rows, columns, leading; // as stored, before op
  bool isTransposed;              // what op does; never for D
  int64_t batchStride;            // in elements; 0 is the same matrix
  int64_t alignment;              // of its first elements in bytes, at most 64
  ElementType type;
};

/// d (rows x columns) = op(x) (rows x depth) * op(y) (depth x columns), `batch`
/// times for each entry of the lists of offsets.
struct MatmulMapping {
  int64_t rows, columns, depth, batch;
  ColumnMajor x, y, d;
  bool isSwapped; // x is the descriptor's b and y its a
  bool allowsTf32;
  /// Only with one call for one swapped product: a value of the bias belongs to
  /// a row of d, and the auxiliary result lies like d.
  runtime::MatmulEpilogue epilogue;
  /// In elements, from the beginning of x, y and d: the batch dimensions that
  /// one stride cannot express.
  struct Offsets {
    int64_t x, y, d;
  };
  std::vector<Offsets> outer;
};

/// Reads `matmul`. Throws DescriptorError for a descriptor that is wrong or
/// that cuBLASLt cannot express: no dimension of a matrix is contiguous, or
/// rows overlap.
MatmulMapping mapMatmul(runtime::Descriptor &descriptor);

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_MATMULMAPPING_H
