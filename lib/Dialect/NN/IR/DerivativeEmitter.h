//===- DerivativeEmitter.h - What derivatives are made of -------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_IR_DERIVATIVEEMITTER_H
#define PP_LIB_DIALECT_NN_IR_DERIVATIVEEMITTER_H

#include "pp/Dialect/NN/IR/NN.h"

#include "llvm/ADT/STLExtras.h"
#include <numbers>

namespace pp::nn {

/// Short names for the operations that derivatives are made of.
struct Emitter {
  mlir::OpBuilder &builder;
  mlir::Location loc;

  template <typename Op> mlir::Value make(mlir::Value x) {
    return Op::create(builder, loc, x);
  }

  mlir::Value splat(mlir::Value like, double value) {
    auto type = llvm::cast<mlir::RankedTensorType>(like.getType());
    return ConstantOp::create(
        builder, loc,
        mlir::DenseElementsAttr::get(
            type, builder.getFloatAttr(type.getElementType(), value)));
  }
  mlir::Value neg(mlir::Value x) { return NegOp::create(builder, loc, x); }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return AddOp::create(builder, loc, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return SubOp::create(builder, loc, x, y);
  }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return MulOp::create(builder, loc, x, y);
  }
  mlir::Value div(mlir::Value x, mlir::Value y) {
    return DivOp::create(builder, loc, x, y);
  }
  mlir::Value scale(mlir::Value x, double factor) {
    return mul(x, splat(x, factor));
  }
  mlir::Value compare(Comparison comparison, mlir::Value x, mlir::Value y) {
    return CompareOp::create(builder, loc, comparison, x, y);
  }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return SelectOp::create(builder, loc, condition, x, y);
  }
  mlir::Value reshape(mlir::Value x, mlir::Type type) {
    if (x.getType() == type)
      return x;
    return ReshapeOp::create(builder, loc, type, x);
  }
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation) {
    if (llvm::is_sorted(permutation))
      return x;
    return TransposeOp::create(builder, loc, x, permutation);
  }
  mlir::Value cast(mlir::Value x, mlir::Type elementType) {
    auto type = llvm::cast<mlir::RankedTensorType>(x.getType());
    if (type.getElementType() == elementType)
      return x;
    return CastOp::create(builder, loc, type.clone(elementType), x);
  }
  /// Elements of 16 bits, with which nothing is computed, in f32.
  mlir::Value widened(mlir::Value x) {
    mlir::Type type = mlir::getElementTypeOrSelf(x.getType());
    return type.isBF16() || type.isF16() ? cast(x, builder.getF32Type()) : x;
  }
  /// Sum over `axes`, which disappear.
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> axes) {
    if (axes.empty())
      return x;
    return cast(
        ReduceOp::create(builder, loc, Reduction::sum, widened(x), axes),
        mlir::getElementTypeOrSelf(x.getType()));
  }
  /// Repeats `x` along `axes` of `type`, the inverse of a reduction.
  mlir::Value broadcastOver(mlir::Value x, mlir::RankedTensorType type,
                            llvm::ArrayRef<int64_t> axes) {
    if (axes.empty())
      return x;
    llvm::SmallVector<int64_t> kept;
    for (int64_t axis = 0; axis < type.getRank(); ++axis)
      if (!llvm::is_contained(axes, axis))
        kept.push_back(axis);
    mlir::Type element =
        llvm::cast<mlir::RankedTensorType>(x.getType()).getElementType();
    return BroadcastOp::create(builder, loc, type.clone(element), x, kept);
  }
};

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_IR_DERIVATIVEEMITTER_H
