//===- ConstantElements.h - Elements of what constants make -----*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_CONSTANTELEMENTS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_CONSTANTELEMENTS_H

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/BuiltinOps.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "llvm/Support/MemoryBuffer.h"

namespace pp::nn {

/// Computes single elements of values that are made of constants, and of
/// parameters that are neither trained nor changed: masks, which exporters
/// write as files, tables or arithmetic. Nothing is computed as a whole, since
/// a mask that is repeated for each head may be large.
class ConstantElements {
public:
  explicit ConstantElements(mlir::ModuleOp module) : symbols(module) {}

  /// In an index: the element must be the same wherever it is on this axis.
  static constexpr int64_t any = -1;

  /// The element at `index`, which has a number or `any` for each axis; none
  /// where it is not constant, differs along an axis with `any`, or is the work
  /// of an operation that is not known here, or of very many. i1 is 0 or 1;
  /// arithmetic is that of double.
  std::optional<double> read(mlir::Value value, llvm::ArrayRef<int64_t> index);

  /// The bytes of a parameter that is neither trained nor changed, row-major;
  /// none where they are not stored so, cannot be read, or are very many. A
  /// tensor whose elements are all the same may have one.
  std::optional<llvm::ArrayRef<char>> readBytes(ParameterOp op);

  /// Whether an element that was read so far came from a parameter, and from
  /// one of floats.
  bool hasReadParameter() const { return readParameter; }
  bool hasReadFloatParameter() const { return readFloatParameter; }
  void forgetParameters() { readParameter = readFloatParameter = false; }

private:
  std::optional<double> compute(mlir::Value value,
                                llvm::ArrayRef<int64_t> index);
  std::optional<double> readParameterElement(ParameterOp op,
                                             llvm::ArrayRef<int64_t> index);
  std::optional<double> readReshaped(ReshapeOp op,
                                     llvm::ArrayRef<int64_t> index);
  std::optional<double> readBinary(mlir::Operation *op,
                                   llvm::ArrayRef<int64_t> index);
  /// What a parameter that is neither trained nor changed starts as; null for
  /// another.
  mlir::Attribute fixedValueOf(ParameterOp op);
  /// The bytes of a parameter in a file; null where it cannot be read.
  const llvm::MemoryBuffer *bytesOf(ExternalAttr external);

  mlir::SymbolTable symbols;
  llvm::DenseMap<mlir::Attribute, std::unique_ptr<llvm::MemoryBuffer>> files;
  unsigned steps = 0;
  bool readParameter = false, readFloatParameter = false;
};

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_CONSTANTELEMENTS_H
