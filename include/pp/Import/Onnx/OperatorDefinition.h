//===- OperatorDefinition.h - What ONNX says of its operators -------------===//
//
// Every version of every operator of ai.onnx, and what is imported of other
// domains, generated from the packages `onnx` and `onnxruntime` by
// scripts/generate-operators.
//
//===----------------------------------------------------------------------===//
#ifndef PP_IMPORT_ONNX_OPERATORDEFINITION_H
#define PP_IMPORT_ONNX_OPERATORDEFINITION_H

#include "pp/Import/Onnx/Model.h"

namespace pp::onnx {

/// An input or output of an operator.
struct OperandDefinition {
  enum Option : uint8_t { Required, Optional, Variadic };

  const char *name;
  /// Bit n: tensors of DataType n. Bit 31 + n: sequences of such tensors.
  /// Bit 62: optionals. Bit 63: anything else.
  uint64_t types;
  /// Operands of one operator with the same number, which is not negative,
  /// have the same type.
  int8_t typeVariable;
  /// Variadic operands come last and stand for `least` values or more.
  Option option;
  uint8_t least;

  bool takes(DataType type) const {
    return types >> static_cast<unsigned>(type) & 1;
  }
  bool takesSequences() const { return types >> 31 & 0x7fffffff; }
  bool takesOptionals() const { return types >> 62 & 1; }
};

struct AttributeDefinition {
  const char *name;
  Attribute::Kind kind;
  bool required;
  /// Whether the one of the three below that `kind` names is the value of a
  /// node without the attribute. Lists and tensors have no such value.
  bool hasDefault;
  int64_t i;
  float f;
  const char *s;

  bool isDefault(const Attribute &attribute) const;
};

struct OperatorDefinition {
  llvm::StringRef name;
  /// The first opset with this definition.
  int64_t since = 0;
  /// From that opset on the operator is no longer part of ONNX.
  bool isDeprecated = false;
  llvm::ArrayRef<OperandDefinition> inputs, outputs;
  llvm::ArrayRef<AttributeDefinition> attributes;

  const AttributeDefinition *attribute(llvm::StringRef attributeName) const;
};

/// What an operator is called here: its name, behind its domain and a dot where
/// that is not ai.onnx.
std::string operatorKey(const Node &node);

/// The definition that operator `name` has in opset `version` of its domain;
/// nothing if that opset has no such operator. Of other domains than ai.onnx
/// there are those that are imported.
std::optional<OperatorDefinition> findOperator(llvm::StringRef name,
                                               int64_t version);

/// The first opset with operator `name`; nothing if none has it.
std::optional<int64_t> firstOpsetWith(llvm::StringRef name);

/// The format's word for a kind of attribute, for example "INTS".
llvm::StringRef attributeKindName(Attribute::Kind kind);

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_OPERATORDEFINITION_H
