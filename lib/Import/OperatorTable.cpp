//===- OperatorTable.cpp - What is imported of ONNX -----------------------===//

#include "OperatorTable.h"
#include "pp/Import/Onnx/Reader.h"
#include "pp/Import/Operators.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace pp;
using onnx::DataType;
using onnx::OperandDefinition;
using onnx::OperatorDefinition;

/// All entries by name.
static const std::vector<const ImportedOperator *> &table() {
  static const std::vector<const ImportedOperator *> entries = [] {
    std::vector<const ImportedOperator *> all;
    for (llvm::ArrayRef<ImportedOperator> part :
         {elementwiseOperators(),  shapeOperators(),
          linearOperators(),       normalizationOperators(),
          resizeOperators(),       functionOperators(),
          activationOperators(),   reductionOperators(),
          indexOperators(),        layoutOperators(),
          einsumOperators(),       lossOperators(),
          attentionOperators(),    randomOperators(),
          recurrentOperators(),    bitOperators(),
          quantizationOperators(), sequenceOperators(),
          controlFlowOperators(),  signalOperators(),
          gridOperators(),         stateOperators(),
          selectionOperators(),    patchOperators(),
          poolOperators(),         regionOperators(),
          determinantOperators(),  microsoftOperators(),
          fusedOperators(),        previewOperators(),
          textOperators(),         packedWeightOperators()})
      for (const ImportedOperator &entry : part)
        all.push_back(&entry);
    llvm::sort(all, [](const ImportedOperator *a, const ImportedOperator *b) {
      return a->name < b->name;
    });
    return all;
  }();
  return entries;
}

const ImportedOperator *pp::findImportedOperator(llvm::StringRef name) {
  const auto *found = llvm::lower_bound(
      llvm::ArrayRef(table()), name,
      [](const ImportedOperator *entry, llvm::StringRef wanted) {
        return entry->name < wanted;
      });
  bool isThere =
      found != llvm::ArrayRef(table()).end() && (*found)->name == name;
  return isThere ? *found : nullptr;
}

bool pp::isRestricted(const OperatorDefinition &definition, size_t input) {
  auto variableOf = [](const OperandDefinition &operand) {
    return operand.typeVariable;
  };
  if (definition.outputs.empty() || input >= definition.inputs.size())
    return false;
  int8_t variable = variableOf(definition.outputs.front());
  bool isShared = variable >= 0 &&
                  llvm::is_contained(
                      llvm::map_range(definition.inputs, variableOf), variable);
  return isShared ? definition.inputs[input].typeVariable == variable
                  : input == 0;
}

DataType pp::getComputedType(DataType type) {
  switch (type) {
  case DataType::Float16:
  case DataType::BFloat16:
    return DataType::Float;
  case DataType::Int8:
  case DataType::Int16:
  case DataType::UInt8:
  case DataType::UInt16:
    return DataType::Int32;
  case DataType::UInt32:
    return DataType::Int64;
  default:
    return type;
  }
}

uint64_t pp::withShortTypes(uint64_t types) {
  uint64_t result = types;
  for (int type = 0; shortTypes >> type; ++type) {
    DataType computed = getComputedType(static_cast<DataType>(type));
    if (shortTypes >> type & 1 && types >> static_cast<int>(computed) & 1)
      result |= uint64_t{1} << type;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// The page
//===----------------------------------------------------------------------===//

/// "FLOAT, DOUBLE".
static std::string describeTypes(uint64_t types) {
  llvm::SmallVector<llvm::StringRef> names;
  // Floating point first.
  for (DataType type : {DataType::Float,          DataType::Double,
                        DataType::Float16,        DataType::BFloat16,
                        DataType::Int64,          DataType::Int32,
                        DataType::Int16,          DataType::Int8,
                        DataType::UInt64,         DataType::UInt32,
                        DataType::UInt16,         DataType::UInt8,
                        DataType::Bool,           DataType::Float8E4M3FN,
                        DataType::Float8E4M3FNUZ, DataType::Float8E5M2,
                        DataType::Float8E5M2FNUZ, DataType::Float8E8M0,
                        DataType::Float4E2M1,     DataType::Int4,
                        DataType::UInt4,          DataType::Int2,
                        DataType::UInt2})
    if (types >> static_cast<int>(type) & 1)
      names.push_back(onnx::dataTypeName(type));
  return llvm::join(names, ", ");
}

/// The types of the definition's data that are taken; 0 where it has none.
static uint64_t takenTypes(const ImportedOperator &entry,
                           const OperatorDefinition &definition) {
  uint64_t types = 0, taken = withShortTypes(entry.types);
  for (size_t index = 0; index < definition.inputs.size(); ++index)
    if (isRestricted(definition, index))
      types |= definition.inputs[index].types & taken;
  if (definition.inputs.empty() && !definition.outputs.empty())
    types = definition.outputs.front().types & taken;
  return types;
}

static std::string describeRestrictions(const ImportedOperator &entry,
                                        const OperatorDefinition &definition) {
  llvm::SmallVector<std::string> texts;
  if (entry.needsKnownInputs)
    texts.push_back("all inputs known at compile time");
  llvm::SmallVector<std::string> known;
  for (const KnownInput &input : entry.known)
    if (llvm::any_of(definition.inputs, [&](const OperandDefinition &operand) {
          return input.name == operand.name;
        }))
      known.push_back(("`" + input.name + "`").str());
  if (!known.empty() && !entry.needsKnownInputs)
    texts.push_back(llvm::join(known, ", ") + " known at compile time");
  for (const Choice &choice : entry.choices) {
    llvm::SmallVector<llvm::StringRef> words(choice.words.begin(),
                                             choice.words.end());
    texts.push_back(("`" + choice.attribute + "` is ").str() +
                    llvm::join(words, " or "));
  }
  if (entry.outputs < definition.outputs.size()) {
    llvm::SmallVector<std::string> names;
    for (const auto &output : definition.outputs.drop_front(entry.outputs))
      names.push_back(("`" + llvm::Twine(output.name) + "`").str());
    texts.push_back("without output " + llvm::join(names, ", "));
  }
  if (!entry.note.empty())
    texts.push_back(entry.note.str());
  return llvm::join(texts, "; ");
}

void pp::printOperators(llvm::raw_ostream &os) {
  os << "| operator | opsets | types | derivative | restrictions |\n"
        "|---|---|---|---|---|\n";
  for (const ImportedOperator *entry : table()) {
    // Of the newest opset that has the operator; the one after the newest that
    // is read may have it first.
    int64_t first = *onnx::firstOpsetWith(entry->name);
    bool isForeign = entry->name.contains('.');
    int64_t last = isForeign ? first : std::max(onnx::newestOpset, first);
    auto definition = onnx::findOperator(entry->name, last);
    while (definition->isDeprecated) {
      last = definition->since - 1;
      definition = onnx::findOperator(entry->name, last);
    }
    os << "| " << entry->name << " | " << first << "-" << last << " | "
       << describeTypes(takenTypes(*entry, *definition)) << " | "
       << (entry->isDifferentiable ? "yes" : "no") << " | "
       << describeRestrictions(*entry, *definition) << " |\n";
  }
}
