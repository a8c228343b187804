//===- InputShapes.cpp - The sizes of a model's inputs --------------------===//

#include "InputShapes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>
#include <optional>

using namespace pp;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

static bool isOpen(const onnx::Dimension &dim) {
  return dim.kind != onnx::Dimension::Kind::Static;
}

InputShapes::InputShapes(const onnx::Graph &graph, const ImportOptions &options)
    : options(options), sizes(options.dims) {
  ArrayRef<onnx::ValueInfo> inputs = graph.inputs;
  checkDims(inputs);
  checkBatchAxes(graph);
  llvm::SmallVector<StringRef> names;
  for (const auto &entry : options.shapes)
    names.push_back(entry.getKey());
  llvm::sort(names);
  for (StringRef name : names)
    bind(inputs, name, options.shapes.find(name)->second);
  names.clear();
  for (const auto &entry : options.values)
    names.push_back(entry.getKey());
  llvm::sort(names);
  for (StringRef name : names)
    (void)find(inputs, "value", name);
}

/// A size for a symbol that no input has is a slip of the pen.
void InputShapes::checkDims(ArrayRef<onnx::ValueInfo> inputs) {
  llvm::StringSet<> known;
  llvm::SmallVector<std::string> names;
  for (const onnx::ValueInfo &input : inputs)
    for (auto [axis, dim] : llvm::enumerate(input.dims)) {
      if (!isOpen(dim) ||
          (int64_t(axis) == batchAxis(input.name) && dim.symbol.empty()))
        continue;
      std::string name = dim.symbol.empty() ? llvm::utostr(axis) : dim.symbol;
      if (known.insert(name).second)
        names.push_back(std::move(name));
    }
  llvm::SmallVector<StringRef> unknown;
  for (StringRef name : options.dims.keys())
    if (!known.contains(name))
      unknown.push_back(name);
  llvm::sort(unknown);
  for (StringRef name : unknown)
    flagFaults.push_back(
        {("--dim=" + name + ": no input has such a dimension").str(),
         names.empty() ? "all sizes of the model are fixed"
                       : "its dimensions are " + llvm::join(names, ", ")});
}

void InputShapes::checkBatchAxes(const onnx::Graph &graph) {
  std::vector<StringRef> names;
  for (const onnx::ValueInfo &input : graph.inputs) {
    names.push_back(input.name);
    if (int64_t axis = batchAxis(input.name);
        input.hasRank && axis > 0 && axis >= int64_t(input.dims.size()))
      flagFaults.push_back({"--batch-axis=" + input.name + ": it has " +
                                llvm::utostr(input.dims.size()) + " axes",
                            "axes are counted from 0"});
  }
  // What a file states of an output may be wrong.
  for (const onnx::ValueInfo &output : graph.outputs)
    names.push_back(output.name);
  llvm::SmallVector<StringRef> unknown;
  for (StringRef name : options.batchAxes.keys())
    if (!llvm::is_contained(names, name))
      unknown.push_back(name);
  llvm::sort(unknown);
  for (StringRef name : unknown)
    flagFaults.push_back(
        {("--batch-axis=" + name + ": no input or output has this name").str(),
         "there are " + llvm::join(names, ", ")});
}

int64_t InputShapes::batchAxis(StringRef name) const {
  auto given = options.batchAxes.find(name);
  return given == options.batchAxes.end() ? 0 : given->second;
}

/// Whether the axis has as many samples as the user says.
bool InputShapes::isSamples(const onnx::ValueInfo &input, size_t axis) const {
  if (!input.hasRank || axis >= input.dims.size() ||
      !isOpen(input.dims[axis]) || options.shapes.contains(input.name))
    return false;
  const std::string &symbol = input.dims[axis].symbol;
  return symbol.empty() || !sizes.contains(symbol);
}

llvm::SmallVector<bool>
InputShapes::findBatched(ArrayRef<const onnx::ValueInfo *> inputs,
                         ArrayRef<llvm::SmallVector<int64_t>> shapes) const {
  llvm::SmallVector<bool> batched(inputs.size());
  bool isAnyOpen = false;
  std::optional<int64_t> given; // samples of an input whose axis is given
  // How many inputs have a size, by the size, in the order of the inputs.
  llvm::MapVector<int64_t, unsigned> counts;
  auto hasAxis = [&](size_t index) {
    int64_t axis = batchAxis(inputs[index]->name);
    return axis >= 0 && axis < int64_t(shapes[index].size());
  };
  auto samples = [&](size_t index) {
    return shapes[index][batchAxis(inputs[index]->name)];
  };
  for (auto [index, input] : llvm::enumerate(inputs)) {
    if (!hasAxis(index))
      continue;
    int64_t axis = batchAxis(input->name);
    bool isOpenAxis = isSamples(*input, axis);
    isAnyOpen |= isOpenAxis;
    if (axis > 0 && !given)
      given = samples(index);
    batched[index] = isOpenAxis || axis > 0;
    ++counts[samples(index)];
  }
  if (isAnyOpen || counts.empty())
    return batched;
  auto isRarer = [](const auto &a, const auto &b) {
    return a.second < b.second;
  };
  int64_t size = given.value_or(
      std::max_element(counts.begin(), counts.end(), isRarer)->first);
  for (size_t index = 0; index < inputs.size(); ++index)
    batched[index] =
        hasAxis(index) && (batched[index] || samples(index) == size);
  return batched;
}

const onnx::ValueInfo *InputShapes::find(ArrayRef<onnx::ValueInfo> inputs,
                                         StringRef flag, StringRef name) {
  const auto *input = llvm::find_if(
      inputs, [&](const onnx::ValueInfo &each) { return each.name == name; });
  if (input != inputs.end())
    return input;
  std::vector<StringRef> names;
  for (const onnx::ValueInfo &each : inputs)
    names.push_back(each.name);
  flagFaults.push_back(
      {("--" + flag + "=" + name + ": the model has no such input").str(),
       "its inputs are " + llvm::join(names, ", ")});
  return nullptr;
}

/// The sizes that --shape gives an input.
void InputShapes::bind(ArrayRef<onnx::ValueInfo> inputs, StringRef name,
                       ArrayRef<int64_t> given) {
  const onnx::ValueInfo *input = find(inputs, "shape", name);
  if (!input || !input->hasRank)
    return;
  if (input->dims.size() != given.size()) {
    flagFaults.push_back({("--shape=" + name + ": has " + Twine(given.size()) +
                           (given.size() == 1 ? " axis" : " axes") +
                           "; the input has " + Twine(input->dims.size()))
                              .str(),
                          ""});
    return;
  }
  for (auto [axis, size] : llvm::enumerate(given))
    bindAxis(*input, axis, size);
}

void InputShapes::bindAxis(const onnx::ValueInfo &input, size_t axis,
                           int64_t size) {
  const onnx::Dimension &dim = input.dims[axis];
  auto refuse = [&](int64_t other, const Twine &whose) {
    flagFaults.push_back(
        {("--shape=" + input.name + ": axis " + Twine(axis) + " has size " +
          Twine(size) + "; " + whose + " " + Twine(other))
             .str(),
         ""});
  };
  if (!isOpen(dim)) {
    if (dim.size != size)
      refuse(dim.size, "in the model it has");
    return;
  }
  if (dim.symbol.empty())
    return;
  // Whoever else has the symbol has its size.
  auto [known, isNew] = sizes.try_emplace(dim.symbol, size);
  if (!isNew && known->second != size)
    refuse(known->second, "elsewhere '" + dim.symbol + "' is");
}

llvm::SmallVector<int64_t>
InputShapes::resolve(const onnx::ValueInfo &input,
                     std::vector<Fault> &faults) const {
  auto given = options.shapes.find(input.name);
  bool isGiven = given != options.shapes.end();
  if (!input.hasRank) {
    if (isGiven)
      return llvm::to_vector(given->second);
    faults.push_back({"input '" + input.name + "' has no shape",
                      "give one with --shape " + input.name + "=SIZExSIZE"});
    return {};
  }
  llvm::SmallVector<int64_t> shape;
  bool isWhole = true;
  for (auto [axis, dim] : llvm::enumerate(input.dims)) {
    if (!isOpen(dim)) {
      shape.push_back(dim.size);
      continue;
    }
    std::string name = dim.symbol.empty() ? llvm::utostr(axis) : dim.symbol;
    auto known = sizes.find(name);
    if (isGiven && axis < given->second.size()) {
      shape.push_back(given->second[axis]);
      continue;
    }
    bool isBatch = int64_t(axis) == batchAxis(input.name);
    if (known != sizes.end() && (!isBatch || !dim.symbol.empty())) {
      shape.push_back(known->second);
      continue;
    }
    // As many as there are numbers for it.
    if (auto values = options.values.find(input.name);
        values != options.values.end() && input.dims.size() == 1 &&
        values->second.size() > 1) {
      shape.push_back(static_cast<int64_t>(values->second.size()));
      continue;
    }
    if (isBatch && !options.isBatchMissing) {
      shape.push_back(options.batch);
      continue;
    }
    isWhole = false;
    std::string said = dim.symbol.empty() ? "" : " ('" + dim.symbol + "')";
    if (isBatch)
      faults.push_back({"axis " + llvm::utostr(axis) + " of input '" +
                            input.name +
                            "', the samples of a step, has no size" + said,
                        "give one with --batch=SAMPLES"});
    else
      faults.push_back({"axis " + llvm::utostr(axis) + " of input '" +
                            input.name + "' has no size" + said,
                        "give one with --dim " + name + "=SIZE" +
                            (dim.symbol.empty() ? ", or all with --shape " +
                                                      input.name + "=SIZExSIZE"
                                                : "")});
  }
  if (!isWhole)
    shape.clear();
  return shape;
}
