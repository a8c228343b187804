//===- OperatorTable.h - What is imported of ONNX ---------------*- C++ -*-===//
//
// One entry per operator. What ONNX defines (operands, types, attributes) is in
// the generated definitions; an entry says what of it is taken, and a node that
// is not is refused before the handler sees it. docs/operators.md is printed
// from these entries.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_IMPORT_OPERATORTABLE_H
#define PP_LIB_IMPORT_OPERATORTABLE_H

#include "pp/Import/Onnx/OperatorDefinition.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/LogicalResult.h"

namespace pp {

class NodeImporter;

using Handler = llvm::LogicalResult (*)(NodeImporter &);

/// Bit n: elements of DataType n, as in the definitions.
enum TypeSet : uint64_t {
  boolType = 1 << static_cast<int>(onnx::DataType::Bool),
  indexTypes = 1 << static_cast<int>(onnx::DataType::Int32) |
               1 << static_cast<int>(onnx::DataType::Int64),
  floatTypes = 1 << static_cast<int>(onnx::DataType::Float) |
               1 << static_cast<int>(onnx::DataType::Double),
  integerTypes = indexTypes | 1 << static_cast<int>(onnx::DataType::UInt64),
  numberTypes = integerTypes | floatTypes,
  /// For storage: see getComputedType.
  shortTypes = 1 << static_cast<int>(onnx::DataType::Float16) |
               1 << static_cast<int>(onnx::DataType::BFloat16) |
               1 << static_cast<int>(onnx::DataType::Int8) |
               1 << static_cast<int>(onnx::DataType::Int16) |
               1 << static_cast<int>(onnx::DataType::UInt8) |
               1 << static_cast<int>(onnx::DataType::UInt16) |
               1 << static_cast<int>(onnx::DataType::UInt32),
  allTypes = numberTypes | boolType | shortTypes,
  /// For storage alone: see NarrowType.h.
  narrowTypes =
      ((uint64_t{1} << 27) - 1) &
      ~((uint64_t{1} << static_cast<int>(onnx::DataType::Float8E4M3FN)) - 1),
  movedTypes = allTypes | narrowTypes,
};

/// What arithmetic on a type is done in: the type itself, or a wider one whose
/// results, rounded or without the bits that the type does not have, are those
/// of the type.
onnx::DataType getComputedType(onnx::DataType type);

/// The types of `types` and those that are computed in them.
uint64_t withShortTypes(uint64_t types);

/// An input that must be known at import.
struct KnownInput {
  enum Form { List, Scalar, Tensor };
  llvm::StringLiteral name;
  /// A list has one axis at most, a scalar one element.
  Form form = List;
};

/// The words that an attribute may be.
struct Choice {
  llvm::StringLiteral attribute;
  std::vector<llvm::StringLiteral> words;
};

struct ImportedOperator {
  llvm::StringLiteral name;
  Handler handler;
  /// The elements of the inputs that have the type of the first output; where
  /// there is none, of the first input. Constants are folded whatever they are.
  /// A handler gets operands of a type that is not among them as what they are
  /// computed in, if that is, and its outputs are brought back.
  uint64_t types = allTypes;
  /// Whether a gradient passes from the output to an input.
  bool isDifferentiable = true;
  std::vector<KnownInput> known = {};
  std::vector<Choice> choices = {};
  /// The outputs from this one on must not be asked for.
  size_t outputs = ~size_t{0};
  /// An input that may have the types of the first one, too, against what the
  /// standard says.
  llvm::StringLiteral alsoLikeFirst = "";
  /// Whether all inputs must be known.
  bool needsKnownInputs = false;
  /// What else the handler refuses, in words.
  llvm::StringLiteral note = "";
};

llvm::ArrayRef<ImportedOperator> elementwiseOperators();
llvm::ArrayRef<ImportedOperator> shapeOperators();
llvm::ArrayRef<ImportedOperator> linearOperators();
llvm::ArrayRef<ImportedOperator> normalizationOperators();
llvm::ArrayRef<ImportedOperator> resizeOperators();
llvm::ArrayRef<ImportedOperator> functionOperators();
llvm::ArrayRef<ImportedOperator> activationOperators();
llvm::ArrayRef<ImportedOperator> reductionOperators();
llvm::ArrayRef<ImportedOperator> indexOperators();
llvm::ArrayRef<ImportedOperator> layoutOperators();
llvm::ArrayRef<ImportedOperator> einsumOperators();
llvm::ArrayRef<ImportedOperator> lossOperators();
llvm::ArrayRef<ImportedOperator> attentionOperators();
llvm::ArrayRef<ImportedOperator> randomOperators();
llvm::ArrayRef<ImportedOperator> recurrentOperators();
llvm::ArrayRef<ImportedOperator> bitOperators();
llvm::ArrayRef<ImportedOperator> quantizationOperators();
llvm::ArrayRef<ImportedOperator> sequenceOperators();
llvm::ArrayRef<ImportedOperator> controlFlowOperators();
llvm::ArrayRef<ImportedOperator> signalOperators();
llvm::ArrayRef<ImportedOperator> gridOperators();
llvm::ArrayRef<ImportedOperator> stateOperators();
llvm::ArrayRef<ImportedOperator> selectionOperators();
llvm::ArrayRef<ImportedOperator> patchOperators();
llvm::ArrayRef<ImportedOperator> poolOperators();
llvm::ArrayRef<ImportedOperator> regionOperators();
llvm::ArrayRef<ImportedOperator> determinantOperators();
llvm::ArrayRef<ImportedOperator> microsoftOperators();
llvm::ArrayRef<ImportedOperator> packedWeightOperators();
llvm::ArrayRef<ImportedOperator> fusedOperators();
llvm::ArrayRef<ImportedOperator> previewOperators();
llvm::ArrayRef<ImportedOperator> textOperators();

/// The entry of an operator; null if it is not imported. The name of one that
/// is not of ai.onnx has its domain in front, as onnx::operatorKey makes it.
const ImportedOperator *findImportedOperator(llvm::StringRef name);

/// Whether `types` restricts an operand.
bool isRestricted(const onnx::OperatorDefinition &definition, size_t input);

} // namespace pp

#endif // PP_LIB_IMPORT_OPERATORTABLE_H
