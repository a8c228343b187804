//===- Constant.h - A tensor known at import --------------------*- C++ -*-===//

#ifndef PP_LIB_IMPORT_CONSTANT_H
#define PP_LIB_IMPORT_CONSTANT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace pp {

/// Constants up to this many elements are read from the file and computed with
/// at import.
inline constexpr int64_t maxConstantElements = 1 << 16;

/// Shapes, indices and numbers that the graph computes with. Null where a value
/// is not known. Reading an element fails where there is none, or where it is
/// no number of the kind asked for.
class Constant {
public:
  Constant() = default;
  explicit Constant(mlir::DenseElementsAttr elements) : elements(elements) {}
  /// A list of 64-bit integers.
  static Constant list(mlir::Builder &builder,
                       llvm::ArrayRef<int64_t> integers);

  explicit operator bool() const { return bool(elements); }
  mlir::DenseElementsAttr getElements() const { return elements; }
  mlir::Type getElementType() const { return elements.getElementType(); }
  llvm::ArrayRef<int64_t> getShape() const {
    return elements.getType().getShape();
  }
  int64_t size() const { return elements.getNumElements(); }
  bool isFloat() const { return llvm::isa<mlir::FloatType>(getElementType()); }

  /// An integer or boolean.
  mlir::FailureOr<int64_t> integer(int64_t index = 0) const;
  /// A number of any type.
  mlir::FailureOr<double> number(int64_t index = 0) const;
  /// All elements, which are integers or booleans.
  mlir::FailureOr<llvm::SmallVector<int64_t>> integers() const;
  /// All elements, of any type.
  llvm::SmallVector<double> numbers() const;

private:
  mlir::DenseElementsAttr elements;
};

/// The number without its fraction. Beyond the 64-bit integers it is the first
/// or last of them, and NaN is 0.
int64_t towardsZero(double value);

/// What an operation of nn computes from constants; null where it is not one
/// of those that shapes and masks are computed with, or too large.
Constant evaluate(mlir::Value value);

} // namespace pp

#endif // PP_LIB_IMPORT_CONSTANT_H
