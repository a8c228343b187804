//===- CheckNode.cpp - A node beside the definition of its operator -------===//
//
// Handlers may rely on it: required inputs are there, all inputs have types
// that the operator takes, attributes have the kind that the operator states;
// and what the operator's entry says is taken is there, of these types, and
// known where it has to be.
//
//===----------------------------------------------------------------------===//

#include "NodeImporter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace pp;
using onnx::OperandDefinition;

onnx::DataType NodeImporter::dataType(Type elementType) {
  if (elementType.isF32())
    return onnx::DataType::Float;
  if (elementType.isF64())
    return onnx::DataType::Double;
  if (elementType.isF16())
    return onnx::DataType::Float16;
  if (elementType.isBF16())
    return onnx::DataType::BFloat16;
  bool isUnsigned = elementType.isUnsignedInteger();
  switch (elementType.getIntOrFloatBitWidth()) {
  case 64:
    return isUnsigned ? onnx::DataType::UInt64 : onnx::DataType::Int64;
  case 32:
    return isUnsigned ? onnx::DataType::UInt32 : onnx::DataType::Int32;
  case 16:
    return isUnsigned ? onnx::DataType::UInt16 : onnx::DataType::Int16;
  case 8:
    return isUnsigned ? onnx::DataType::UInt8 : onnx::DataType::Int8;
  case 1:
    return onnx::DataType::Bool;
  default:
    return onnx::DataType::Undefined;
  }
}

/// The definition of operand `index`: the last one if that is variadic.
static const OperandDefinition *operandAt(ArrayRef<OperandDefinition> operands,
                                          size_t index) {
  if (index < operands.size())
    return &operands[index];
  bool repeats = !operands.empty() &&
                 operands.back().option == OperandDefinition::Variadic;
  return repeats ? &operands.back() : nullptr;
}

/// Whether a list of names has too many or too few; "" if not.
static std::string countFault(ArrayRef<OperandDefinition> operands,
                              ArrayRef<std::string> names, StringRef what) {
  size_t least = 0;
  for (auto [index, operand] : llvm::enumerate(operands)) {
    if (operand.option == OperandDefinition::Required)
      least = index + 1;
    if (operand.option == OperandDefinition::Variadic)
      least = std::max<size_t>(least, index + operand.least);
  }
  if (names.size() < least)
    return ("has " + llvm::Twine(names.size()) + " " + what +
            "s; the operator "
            "takes " +
            llvm::Twine(least) + " or more")
        .str();
  if (!operandAt(operands, names.size() - 1) && !names.empty())
    return ("has " + llvm::Twine(names.size()) + " " + what +
            "s; the operator "
            "takes at most " +
            llvm::Twine(operands.size()))
        .str();
  return "";
}

LogicalResult
NodeImporter::checkOperands(const onnx::OperatorDefinition &definition,
                            const ImportedOperator &imported) {
  LogicalResult result = success();
  if (std::string fault = countFault(definition.inputs, node->inputs, "input");
      !fault.empty())
    return error(fault);
  if (std::string fault =
          countFault(definition.outputs, node->outputs, "output");
      !fault.empty())
    return error(fault);
  typeVariables.clear();
  for (size_t index = 0; index < node->inputs.size(); ++index) {
    const OperandDefinition &operand = *operandAt(definition.inputs, index);
    std::string what =
        ("input #" + llvm::Twine(index) + " (" + operand.name + ")").str();
    if (node->inputs[index].empty()) {
      if (operand.option != OperandDefinition::Optional)
        result = error(what + " is missing; the operator requires it");
      continue;
    }
    Entry &entry = input(index);
    const auto *known =
        llvm::find_if(ArrayRef(imported.known), [&](const KnownInput &wanted) {
          return wanted.name == operand.name;
        });
    bool isListed = known != ArrayRef(imported.known).end();
    if (isListed || imported.needsKnownInputs) {
      if (failed(checkKnown(operand.name,
                            isListed ? known->form : KnownInput::Tensor,
                            index))) {
        result = failure();
        continue;
      }
    } else if (auto pending = parameters.find(node->inputs[index]);
               pending != parameters.end()) {
      entry.value = parameter(*pending->second);
    }
    if (entry.isSequence) {
      if (!operand.takesSequences())
        result = error(what + " is a sequence; the operator takes a tensor");
      continue;
    }
    if (entry.isAbsent) {
      if (!operand.takesOptionals())
        result = error(what + " is optional and not there");
      continue;
    }
    if (!entry.constant && !entry.value) {
      result = error(what + " has no value");
      continue;
    }
    onnx::DataType actual = dataType(entry);
    if (actual == onnx::DataType::Undefined)
      continue;
    if (operand.name == imported.alsoLikeFirst && hasInput(0) &&
        actual == dataType(input(0)))
      continue;
    if (!operand.takes(actual)) {
      result = error(what + " has elements of type " +
                     onnx::dataTypeName(actual) + ", which " + definition.name +
                     " of opset " + llvm::Twine(opset()) + " does not take");
      continue;
    }
    if (operand.typeVariable < 0)
      continue;
    auto [first, isNew] =
        typeVariables.try_emplace(operand.typeVariable, index, actual);
    if (!isNew && first->second.second != actual)
      result =
          error(what + " has elements of type " + onnx::dataTypeName(actual) +
                " and input #" + llvm::Twine(first->second.first) +
                " of type " + onnx::dataTypeName(first->second.second) +
                "; both must have the same");
  }
  return result;
}

LogicalResult
NodeImporter::checkAttributes(const onnx::OperatorDefinition &definition) {
  LogicalResult result = success();
  for (const onnx::Attribute &attribute : node->attributes) {
    const auto *expected = definition.attribute(attribute.name);
    std::string what = "attribute " + onnx::quoted(attribute.name);
    if (!expected) {
      SmallVector<StringRef> names;
      for (const auto &known : definition.attributes)
        names.push_back(known.name);
      std::string known;
      llvm::raw_string_ostream(known) << llvm::interleaved(names);
      result = error(what + " is none of " + definition.name + " in opset " +
                         llvm::Twine(opset()),
                     names.empty() ? "the operator has no attributes"
                                   : "its attributes are " + known);
    } else if (attribute.kind != expected->kind) {
      result = error(
          what + " is of kind " + onnx::attributeKindName(attribute.kind) +
          "; the operator states " + onnx::attributeKindName(expected->kind));
    }
  }
  for (const auto &expected : definition.attributes)
    if (expected.required && !node->attribute(expected.name))
      result = error("attribute '" + llvm::Twine(expected.name) +
                     "' is missing; the operator requires it");
  return result;
}

LogicalResult NodeImporter::checkKnown(llvm::StringRef name,
                                       KnownInput::Form form, size_t index) {
  std::string what = "input '" + node->inputs[index] + "' (" + name.str() + ")";
  Constant &constant = input(index).constant;
  auto pending = parameters.find(node->inputs[index]);
  if (!constant && pending != parameters.end() &&
      pending->second->elements <= maxConstantElements) {
    auto read = readTensor(*pending->second);
    if (!read)
      return error(llvm::toString(read.takeError()));
    constant = *read;
  }
  if (!constant)
    return error(what + " depends on the data; it must be known at compile "
                        "time",
                 howToKnow());
  if (form == KnownInput::Scalar && constant.size() != 1)
    return error(what + " has " + llvm::Twine(constant.size()) +
                 " elements; it must have one");
  if (form == KnownInput::List && constant.getShape().size() > 1)
    return error(what + " has rank " + llvm::Twine(constant.getShape().size()) +
                 "; it must be a list");
  return success();
}

LogicalResult
NodeImporter::checkEntry(const ImportedOperator &entry,
                         const onnx::OperatorDefinition &definition) {
  LogicalResult result = success();
  bool isKnown = true;
  for (const std::string &name : node->inputs)
    isKnown &= name.empty() || entries[name].constant;
  for (size_t index = 0; index < node->inputs.size(); ++index) {
    if (!hasInput(index) || input(index).isSequence || input(index).isAbsent)
      continue;
    onnx::DataType actual = dataType(input(index));
    bool isTaken =
        withShortTypes(entry.types) >> static_cast<unsigned>(actual) & 1;
    // Constants are computed with whatever they are, but for those that are
    // kept as something else.
    bool isAsItIs = isKnown && input(index).narrow == onnx::DataType::Undefined;
    if (!isTaken && !isAsItIs && isRestricted(definition, index))
      result = error("input #" + llvm::Twine(index) + " (" +
                     operandAt(definition.inputs, index)->name +
                     ") has elements of type " + onnx::dataTypeName(actual) +
                     ", which are not supported here");
  }
  for (const Choice &choice : entry.choices) {
    const onnx::Attribute *given = findAttribute(choice.attribute);
    if (!given || llvm::is_contained(choice.words, StringRef(given->s)))
      continue;
    SmallVector<StringRef> words(choice.words.begin(), choice.words.end());
    result = error("attribute " + choice.attribute + " is '" + given->s +
                       "', which is not supported",
                   "it may be " + llvm::join(words, " or "));
  }
  for (size_t index = entry.outputs; index < node->outputs.size(); ++index)
    if (!node->outputs[index].empty())
      result = error("output #" + llvm::Twine(index) + " (" +
                     operandAt(definition.outputs, index)->name +
                     ") is not supported");
  return result;
}

LogicalResult NodeImporter::checkDefinition(const ImportedOperator &entry) {
  auto definition = onnx::findOperator(onnx::operatorKey(*node), opset());
  if (!definition) {
    if (auto first = onnx::firstOpsetWith(onnx::operatorKey(*node)))
      return error("opset " + llvm::Twine(opset()) +
                   " has no such operator; it came with opset " +
                   llvm::Twine(*first));
    return error("ONNX has no such operator");
  }
  if (definition->isDeprecated)
    return error("opset " + llvm::Twine(definition->since) +
                     " removed this operator, and the model imports opset " +
                     llvm::Twine(opset()),
                 "export the model for one opset throughout");
  // Both, so that all faults of the node are told at once.
  LogicalResult attributes = checkAttributes(*definition);
  LogicalResult operands = checkOperands(*definition, entry);
  if (failed(attributes) || failed(operands))
    return failure();
  return checkEntry(entry, *definition);
}

LogicalResult NodeImporter::checkUnderstood() {
  auto definition = onnx::findOperator(onnx::operatorKey(*node), opset());
  LogicalResult result = success();
  for (const onnx::Attribute &attribute : node->attributes) {
    // A hint of the first opsets to reuse memory.
    if (understood.contains(&attribute) || attribute.name == "consumed_inputs")
      continue;
    const auto *expected =
        definition ? definition->attribute(attribute.name) : nullptr;
    if (expected && expected->isDefault(attribute))
      continue;
    result = error("attribute " + onnx::quoted(attribute.name) +
                   " with this value is not supported");
    diagnostics.back().category = onnx::Category::Unsupported;
  }
  return result;
}

const onnx::ValueInfo *NodeImporter::declared(llvm::StringRef name) {
  if (declarations.empty())
    for (const auto *list : {&model.graph.values, &model.graph.outputs})
      for (const onnx::ValueInfo &value : *list)
        declarations[value.name] = &value;
  return declarations.lookup(name);
}

bool pp::isTooLarge(ArrayRef<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    if (llvm::MulOverflow(elements, size, elements) || elements > maxElements)
      return true;
  return false;
}

LogicalResult NodeImporter::checkOperations(Operation *last) {
  std::string message;
  ScopedDiagnosticHandler handler(builder.getContext(),
                                  [&](Diagnostic &diagnostic) {
                                    if (message.empty())
                                      message = diagnostic.str();
                                    return success();
                                  });
  Block *block = builder.getInsertionBlock();
  Block::iterator next = last ? std::next(last->getIterator()) : block->begin();
  auto isEmpty = [](Type type) {
    return llvm::is_contained(cast<RankedTensorType>(type).getShape(), 0);
  };
  for (Operation &op : llvm::make_range(next, block->end())) {
    if (failed(op.getName().verifyInvariants(&op)))
      return error("is not supported for these inputs: " + message);
    if (llvm::any_of(op.getOperandTypes(), isEmpty))
      return error("computes with a tensor that has no elements, which is not "
                   "supported here");
  }
  return success();
}

LogicalResult NodeImporter::checkSizes() {
  for (const std::string &name : node->outputs) {
    auto entry = entries.find(name);
    if (entry == entries.end() || !entry->second.value)
      continue;
    if (isTooLarge(shape(entry->second.value)))
      return error("output " + onnx::quoted(name) + " has more than " +
                   llvm::Twine(maxElements) + " elements");
  }
  return success();
}

LogicalResult NodeImporter::checkDeclared() {
  LogicalResult result = success();
  for (const std::string &name : node->outputs) {
    const onnx::ValueInfo *stated = name.empty() ? nullptr : declared(name);
    const Entry &entry = entries[name];
    if (!stated || entry.isSequence || entry.isAbsent ||
        (!entry.constant && !entry.value) ||
        stated->kind != onnx::ValueKind::Tensor)
      continue;
    onnx::DataType actual = dataType(entry);
    if (stated->type != onnx::DataType::Undefined &&
        actual != onnx::DataType::Undefined && stated->type != actual)
      result = error("output " + onnx::quoted(name) + " has elements of type " +
                     onnx::dataTypeName(actual) + ", but the file states " +
                     onnx::dataTypeName(stated->type));
    if (!stated->hasRank)
      continue;
    ArrayRef<int64_t> computed = shape(entry);
    bool agrees = computed.size() == stated->dims.size();
    for (size_t axis = 0; agrees && axis < computed.size(); ++axis)
      agrees = stated->dims[axis].kind != onnx::Dimension::Kind::Static ||
               stated->dims[axis].size == computed[axis];
    if (agrees)
      continue;
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "output " << onnx::quoted(name) << " has shape ["
       << llvm::interleaved(computed) << "], but the file states [";
    llvm::interleaveComma(stated->dims, os, [&](const onnx::Dimension &dim) {
      if (dim.kind == onnx::Dimension::Kind::Static)
        os << dim.size;
      else
        os << (dim.symbol.empty() ? "?" : dim.symbol);
    });
    os << "]";
    if (contradictions++ == 0)
      firstContradiction = text;
  }
  return result;
}
