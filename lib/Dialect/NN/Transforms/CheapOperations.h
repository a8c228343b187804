//===- CheapOperations.h - What is computed where it is read ----*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H

#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

/// Whether each generated kernel that reads the operation has a copy of it: it
/// costs less than its result in memory.
inline bool isCheap(mlir::Operation *op) {
  if (auto constant = mlir::dyn_cast<ConstantOp>(op))
    return constant.getValue().isSplat();
  return mlir::isa<BroadcastOp, IotaOp>(op);
}

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_CHEAPOPERATIONS_H
