//===- TensorTypes.h - Types of values that are tensors ---------*- C++ -*-===//
#ifndef PP_DIALECT_NN_IR_TENSORTYPES_H
#define PP_DIALECT_NN_IR_TENSORTYPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace pp::nn {

/// Type of a value that is a ranked tensor, as every value of `nn` is.
inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}

} // namespace pp::nn

#endif // PP_DIALECT_NN_IR_TENSORTYPES_H
