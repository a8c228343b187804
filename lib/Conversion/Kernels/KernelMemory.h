//===- KernelMemory.h - Views of a kernel's memory --------------*- C++ -*-===//

#ifndef PP_LIB_CONVERSION_KERNELS_KERNELMEMORY_H
#define PP_LIB_CONVERSION_KERNELS_KERNELMEMORY_H

#include "mlir/IR/Builders.h"

namespace pp {

/// A dense memref as one of another shape with as many elements.
mlir::Value reshaped(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value memory, llvm::ArrayRef<int64_t> shape);

/// An integer that was read from a tensor as an index into an axis; a negative
/// one counts from the end.
mlir::Value wrappedIndex(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value number, int64_t size);

/// An index forced into [0, size), so that no memory is touched that is not
/// there.
mlir::Value clampedIndex(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value index, int64_t size);

/// What was read at an index that may have been forced: NaN if it was, so that
/// nobody takes it for a result. The runtime checks all indices that it reads
/// from its user; this is for those that the model computes. Whole numbers have
/// no NaN and stay as they are.
mlir::Value ifInside(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value index, int64_t size, mlir::Value value);

} // namespace pp

#endif // PP_LIB_CONVERSION_KERNELS_KERNELMEMORY_H
