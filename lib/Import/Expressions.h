//===- Expressions.h - Short names for arithmetic ---------------*- C++ -*-===//
//
// What handlers write formulas of ONNX's operators with. All operands of an
// operation have one shape and type; a number stands for a tensor of it.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_IMPORT_EXPRESSIONS_H
#define PP_LIB_IMPORT_EXPRESSIONS_H

#include "NodeImporter.h"

namespace pp {

/// Steps of a recurrence that are unrolled: longer ones make programs that
/// nobody waits for.
inline constexpr int64_t maxUnrolledSteps = 4096;

struct Expressions {
  NodeImporter &n;

  /// A tensor like `like`, all of whose elements are `value`.
  mlir::Value number(mlir::Value like, double value) {
    return n.splat(n.type(like), value);
  }
  template <typename Op> mlir::Value unary(mlir::Value x) {
    return n.make<Op>(x);
  }
  template <typename Op> mlir::Value binary(mlir::Value x, mlir::Value y) {
    return n.make<Op>(x, y);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return binary<nn::AddOp>(x, y);
  }
  mlir::Value add(mlir::Value x, double y) { return add(x, number(x, y)); }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return binary<nn::SubOp>(x, y);
  }
  mlir::Value sub(double x, mlir::Value y) { return sub(number(y, x), y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) {
    return binary<nn::MulOp>(x, y);
  }
  mlir::Value mul(mlir::Value x, double y) { return mul(x, number(x, y)); }
  mlir::Value div(mlir::Value x, mlir::Value y) {
    return binary<nn::DivOp>(x, y);
  }
  mlir::Value max(mlir::Value x, double y) {
    return binary<nn::MaximumOp>(x, number(x, y));
  }
  mlir::Value min(mlir::Value x, double y) {
    return binary<nn::MinimumOp>(x, number(x, y));
  }
  mlir::Value neg(mlir::Value x) { return unary<nn::NegOp>(x); }
  mlir::Value abs(mlir::Value x) { return unary<nn::AbsOp>(x); }
  mlir::Value sqrt(mlir::Value x) { return unary<nn::SqrtOp>(x); }
  mlir::Value exp(mlir::Value x) { return unary<nn::ExpOp>(x); }
  mlir::Value log(mlir::Value x) { return unary<nn::LogOp>(x); }
  mlir::Value compare(nn::Comparison comparison, mlir::Value x, mlir::Value y) {
    return n.make<nn::CompareOp>(comparison, x, y);
  }
  mlir::Value compare(nn::Comparison comparison, mlir::Value x, double y) {
    return compare(comparison, x, number(x, y));
  }
  mlir::Value isNaN(mlir::Value x) { return compare(nn::Comparison::ne, x, x); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return n.make<nn::SelectOp>(condition, x, y);
  }
  mlir::Value either(mlir::Value x, mlir::Value y) {
    return binary<nn::OrOp>(x, y);
  }
  mlir::Value both(mlir::Value x, mlir::Value y) {
    return binary<nn::AndOp>(x, y);
  }
  /// Counts along an axis, in a tensor of this shape.
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, int64_t axis) {
    return n.make<nn::IotaOp>(
        mlir::RankedTensorType::get(shape, n.getBuilder().getI64Type()), axis);
  }
  /// Repeats `x` along `axes` of a tensor of `shape`: undoes a reduction.
  mlir::Value spread(mlir::Value x, llvm::ArrayRef<int64_t> shape,
                     llvm::ArrayRef<int64_t> axes);
};

} // namespace pp

#endif // PP_LIB_IMPORT_EXPRESSIONS_H
