//===- OperatorDefinition.cpp - What ONNX says of its operators -----------===//
#include "pp/Import/Onnx/OperatorDefinition.h"
#include "llvm/ADT/STLExtras.h"

using namespace pp::onnx;

namespace {

/// An operator's runs of rows in the pools.
struct OperatorRow {
  const char *name;
  int since;
  bool isDeprecated;
  unsigned firstInput, inputs, firstOutput, outputs, firstAttribute, attributes;
};

#include "OperatorDefinitions.inc"

/// All versions of an operator, oldest first.
llvm::ArrayRef<OperatorRow> versionsOf(llvm::StringRef name) {
  auto [begin, end] =
      std::equal_range(std::begin(operatorRows), std::end(operatorRows),
                       OperatorRow{name.data(), 0, false, 0, 0, 0, 0, 0, 0},
                       [](const OperatorRow &a, const OperatorRow &b) {
                         return llvm::StringRef(a.name) < b.name;
                       });
  return {begin, end};
}

} // namespace

bool AttributeDefinition::isDefault(const Attribute &attribute) const {
  if (!hasDefault || attribute.kind != kind)
    return false;
  switch (kind) {
  case Attribute::Kind::Int:
    return attribute.i == i;
  case Attribute::Kind::Float:
    return attribute.f == f;
  case Attribute::Kind::String:
    return attribute.s == s;
  default:
    return false;
  }
}

const AttributeDefinition *
OperatorDefinition::attribute(llvm::StringRef attributeName) const {
  const auto *found =
      llvm::find_if(attributes, [&](const AttributeDefinition &candidate) {
        return attributeName == candidate.name;
      });
  return found == attributes.end() ? nullptr : found;
}

std::string pp::onnx::operatorKey(const Node &node) {
  bool isStandard = node.domain.empty() || node.domain == "ai.onnx";
  return isStandard ? node.opType : node.domain + "." + node.opType;
}

std::optional<OperatorDefinition> pp::onnx::findOperator(llvm::StringRef name,
                                                         int64_t version) {
  std::string terminated = name.str();
  const OperatorRow *newest = nullptr;
  for (const OperatorRow &row : versionsOf(terminated))
    if (row.since <= version)
      newest = &row;
  if (!newest)
    return std::nullopt;
  OperatorDefinition definition;
  definition.name = newest->name;
  definition.since = newest->since;
  definition.isDeprecated = newest->isDeprecated;
  llvm::ArrayRef<OperandDefinition> operands(operandPool);
  definition.inputs = operands.slice(newest->firstInput, newest->inputs);
  definition.outputs = operands.slice(newest->firstOutput, newest->outputs);
  definition.attributes =
      llvm::ArrayRef<AttributeDefinition>(attributePool)
          .slice(newest->firstAttribute, newest->attributes);
  return definition;
}

std::optional<int64_t> pp::onnx::firstOpsetWith(llvm::StringRef name) {
  std::string terminated = name.str();
  llvm::ArrayRef<OperatorRow> versions = versionsOf(terminated);
  if (versions.empty())
    return std::nullopt;
  return versions.front().since;
}

llvm::StringRef pp::onnx::attributeKindName(Attribute::Kind kind) {
  static constexpr llvm::StringLiteral names[] = {
      "FLOAT", "INT",     "STRING",  "TENSOR", "GRAPH",       "FLOATS",
      "INTS",  "STRINGS", "TENSORS", "GRAPHS", "another kind"};
  return names[static_cast<int>(kind)];
}
