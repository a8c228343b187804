//===- KernelMemory.h - Views of a kernel's memory --------------*- C++ -*-===//

#ifndef PP_LIB_CONVERSION_KERNELS_KERNELMEMORY_H
#define PP_LIB_CONVERSION_KERNELS_KERNELMEMORY_H

#include "mlir/IR/Builders.h"

namespace pp {

/// A dense memref as one of another shape with as many elements.
mlir::Value reshaped(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value memory, llvm::ArrayRef<int64_t> shape);

/// An integer that was read from a tensor as an index, forced into [0, size).
mlir::Value clampedIndex(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value number, int64_t size);

} // namespace pp

#endif // PP_LIB_CONVERSION_KERNELS_KERNELMEMORY_H
