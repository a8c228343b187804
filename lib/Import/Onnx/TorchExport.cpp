//===- TorchExport.cpp - What PyTorch's exporter says of tensors ----------===//
#include "pp/Import/Onnx/TorchExport.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace pp::onnx;
using llvm::StringRef;

static StringRef find(const Metadata &metadata, StringRef key) {
  for (const auto &[name, value] : metadata)
    if (name == key)
      return value;
  return "";
}

static std::optional<TorchKind> parseKind(StringRef text) {
  if (text == "PARAMETER")
    return TorchKind::Parameter;
  if (text == "BUFFER")
    return TorchKind::Buffer;
  if (text == "CONSTANT_TENSOR")
    return TorchKind::Constant;
  return std::nullopt;
}

/// The names in a Python list of strings: ['a', 'b'].
static llvm::SmallVector<StringRef> namesInList(StringRef list) {
  llvm::SmallVector<StringRef> names;
  while (true) {
    size_t begin = list.find('\'');
    if (begin == StringRef::npos)
      return names;
    size_t end = list.find('\'', begin + 1);
    if (end == StringRef::npos)
      return names;
    names.push_back(list.slice(begin + 1, end));
    list = list.drop_front(end + 1);
  }
}

/// The names behind a % in a call of a torch.fx graph.
static llvm::SmallVector<StringRef> namesInCall(StringRef text) {
  llvm::SmallVector<StringRef> names;
  while (true) {
    text = text.drop_front(std::min(text.find('%'), text.size()));
    if (text.empty())
      return names;
    text = text.drop_front();
    names.push_back(
        text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }));
  }
}

/// A name of a torch.fx graph without the number that makes it unique.
static StringRef withoutNumber(StringRef name) {
  auto [stem, number] = name.rsplit('_');
  return !number.empty() && llvm::all_of(number, llvm::isDigit) ? stem : name;
}

TorchSignature::TorchSignature(const Graph &graph) {
  auto [inputs, outputs] =
      find(graph.metadata, "pkg.torch.export.ExportedProgram.graph_signature")
          .split("# outputs");
  llvm::SmallVector<StringRef> lines;
  // Lines such as: add_1: BUFFER_MUTATION target='center'
  outputs.split(lines, '\n');
  for (StringRef line : lines)
    if (line.contains("_MUTATION target="))
      for (StringRef name : namesInList(line.split("target=").second))
        mutated.push_back(name.str());
  // Lines such as: p_fc_weight: PARAMETER target='fc.weight'
  lines.clear();
  inputs.split(lines, '\n');
  for (StringRef line : lines) {
    auto [placeholder, rest] = line.split(": ");
    auto kind = parseKind(rest.split(' ').first);
    auto names = namesInList(rest.split("target=").second);
    if (!kind || names.empty())
      continue;
    kinds[names.front()] = *kind;
    tensors[placeholder] = names.front().str();
  }
  for (const ValueInfo &value : graph.values)
    if (auto kind = parseKind(find(
            value.metadata, "pkg.torch.export.graph_signature.InputSpec.kind")))
      kinds.try_emplace(value.name, *kind);
}

std::vector<std::string> TorchSignature::parameters() const {
  std::vector<std::string> names;
  for (const auto &entry : kinds)
    if (entry.second == TorchKind::Parameter)
      names.push_back(entry.first().str());
  llvm::sort(names);
  return names;
}

std::optional<TorchKind> TorchSignature::kindOf(StringRef tensor) const {
  auto found = kinds.find(tensor);
  if (found == kinds.end())
    return std::nullopt;
  return found->second;
}

StringRef TorchSignature::tensorOf(StringRef placeholder) const {
  auto found = tensors.find(placeholder);
  return found == tensors.end() ? StringRef() : StringRef(found->second);
}

namespace {

class Restorer {
public:
  explicit Restorer(Model &model) : model(model), signature(model.graph) {
    for (const Tensor &tensor : model.graph.initializers)
      initializers.insert(tensor.name);
    for (const ValueInfo &value : model.graph.values) {
      StringRef sources =
          find(value.metadata, "pkg.onnxscript.optimizer.folded_from");
      if (!sources.empty() && initializers.contains(value.name))
        foldedFrom[value.name] = namesInList(sources);
    }
  }

  std::vector<Diagnostic> run() {
    std::vector<Node> nodes;
    for (Node &node : model.graph.nodes) {
      StringRef rule = find(node.metadata, "pkg.onnxscript.rewriter.rule_name");
      if (rule.starts_with("FuseBatchNorm"))
        refuse(node, "batch norm was folded into this node (" + rule + ")");
      else
        restore(node, nodes);
      nodes.push_back(std::move(node));
    }
    model.graph.nodes = std::move(nodes);
    refuseMergedNodes();
    refuseLostStops();
    if (!errors.empty())
      errors.back().help =
          "export the model again with torch.onnx.export(..., dynamo=True, "
          "optimize=False)";
    return std::move(errors);
  }

private:
  /// The tensors that the call behind a node names, in its order, and as often
  /// as it does.
  llvm::SmallVector<StringRef> calledWith(const Node &node) const {
    llvm::SmallVector<StringRef> tensors;
    for (StringRef placeholder : namesInCall(arguments(node))) {
      StringRef tensor = signature.tensorOf(placeholder);
      if (!tensor.empty())
        tensors.push_back(tensor);
    }
    return tensors;
  }

  static StringRef arguments(const Node &node) {
    return find(node.metadata, "pkg.torch.onnx.fx_node")
        .split("args = ")
        .second;
  }

  /// What the call behind a node gives to others; "" if the node does not say.
  static StringRef resultOfCall(const Node &node) {
    auto names = namesInCall(
        find(node.metadata, "pkg.torch.onnx.fx_node").split(" :").first);
    return names.empty() ? StringRef() : names.front();
  }

  /// Layers whose parameters are equal when they are new, of the same input,
  /// are one node. The calls of its readers tell: one names %layer_norm_1,
  /// which no node gives, and reads %layer_norm.
  void refuseMergedNodes() {
    llvm::StringSet<> present;
    for (const Tensor &tensor : model.graph.initializers)
      present.insert(tensor.name);
    for (const auto &entry : foldedFrom)
      present.insert(entry.second.begin(), entry.second.end());
    std::vector<std::string> missing = signature.parameters();
    llvm::erase_if(missing,
                   [&](StringRef name) { return present.contains(name); });
    if (missing.empty())
      return;
    llvm::StringMap<const Node *> producers; // by value
    llvm::StringSet<> results;
    for (const Node &node : model.graph.nodes) {
      results.insert(resultOfCall(node));
      for (const std::string &output : node.outputs)
        producers[output] = &node;
    }
    std::vector<const Node *> merged;
    for (const Node &node : model.graph.nodes)
      for (StringRef argument : namesInCall(arguments(node))) {
        if (results.contains(argument))
          continue;
        for (const std::string &input : node.inputs) {
          const Node *producer = producers.lookup(input);
          StringRef result = producer ? resultOfCall(*producer) : StringRef();
          if (!result.empty() && !llvm::is_contained(merged, producer) &&
              withoutNumber(result) == withoutNumber(argument))
            merged.push_back(producer);
        }
      }
    for (const Node *node : merged)
      refuse(*node, "this node stands for several layers that had the same "
                    "values, and of the parameters " +
                        llvm::join(missing, ", ") + " nothing is left");
  }

  /// The optimizer removes what detach() became, and the calls of its readers
  /// still name %detach: where they name fewer values that are there than their
  /// nodes read, gradients would flow that the model stops.
  void refuseLostStops() {
    llvm::StringSet<> present, constants;
    for (const ValueInfo &input : model.graph.inputs)
      present.insert(input.name);
    llvm::MapVector<StringRef, std::vector<const Node *>> calls;
    for (const Node &node : model.graph.nodes) {
      present.insert(resultOfCall(node));
      if (node.opType == "Constant")
        constants.insert_range(node.outputs);
      StringRef call = find(node.metadata, "pkg.torch.onnx.fx_node");
      if (!call.empty())
        calls[call].push_back(&node);
    }
    for (const auto &[call, nodes] : calls) {
      auto names = namesInCall(arguments(*nodes.front()));
      bool isLost = llvm::any_of(names, [&](StringRef name) {
        return withoutNumber(name) == "detach" && !present.contains(name);
      });
      if (!isLost)
        continue;
      auto named = llvm::count_if(
          names, [&](StringRef name) { return present.contains(name); });
      llvm::StringSet<> own;
      for (const Node *node : nodes)
        own.insert_range(node->outputs);
      int64_t read = 0;
      for (const Node *node : nodes)
        read += llvm::count_if(node->inputs, [&](StringRef input) {
          return !input.empty() && !own.contains(input) &&
                 !constants.contains(input) && !initializers.contains(input);
        });
      if (read > named)
        refuse(*nodes.front(), "this node reads what the model detaches, and "
                               "the file does not say so");
    }
  }

  StringRef callee(const Node &node) const {
    return find(node.metadata, "pkg.torch.onnx.fx_node")
        .split("torch.ops.aten.")
        .second.split('.')
        .first;
  }

  void restore(Node &node, std::vector<Node> &before) {
    // Nodes that the optimizer made say nothing of themselves.
    bool isKnown = !find(node.metadata, "pkg.torch.onnx.fx_node").empty();
    llvm::SmallVector<StringRef> wanted = calledWith(node);
    llvm::SmallVector<size_t> positions;
    llvm::SmallVector<StringRef> found;
    for (auto [index, name] : llvm::enumerate(node.inputs)) {
      if (!initializers.contains(name) || llvm::is_contained(restored, name))
        continue;
      // What the call names is there as it was.
      if (auto *named = llvm::find(wanted, name); named != wanted.end()) {
        wanted.erase(named);
        found.push_back(name);
      } else if (foldedFrom.count(name) || (isKnown && signature.kindOf(name)))
        positions.push_back(index);
    }
    // Not all nodes of a call have all that it names; what is left is what the
    // file does not have, each once.
    llvm::SmallVector<StringRef> missing;
    for (StringRef tensor : wanted)
      if (!llvm::is_contained(found, tensor) &&
          !llvm::is_contained(missing, tensor))
        missing.push_back(tensor);
    for (size_t position : positions) {
      const std::string name = node.inputs[position];
      auto folded = foldedFrom.find(name);
      if (folded != foldedFrom.end()) {
        unfold(node, position, folded->second, before);
        continue;
      }
      StringRef tensor = tensorAt(node, position, positions, missing);
      if (tensor.empty()) {
        refuse(node, "'" + llvm::Twine(name) +
                         "' stands here for another tensor that had the same "
                         "value");
        continue;
      }
      split(name, tensor);
      for (Tensor &copy : model.graph.initializers)
        if (copy.name == tensor)
          copy.readers.emplace_back(node.index, position);
      node.inputs[position] = tensor.str();
    }
  }

  /// Which of the tensors that a call names and the file does not have is input
  /// `position` of its node; "" where that is not certain.
  StringRef tensorAt(const Node &node, size_t position,
                     llvm::ArrayRef<size_t> positions,
                     llvm::ArrayRef<StringRef> wanted) const {
    if (wanted.size() == 1 && positions.size() == 1)
      return wanted.front();
    // A linear layer on more than two axes: the product, then its bias.
    if (callee(node) == "linear" && node.opType == "Add" &&
        positions.size() == 1 && !wanted.empty())
      return wanted.back();
    // The calls of these name weight and bias in the order of the node.
    bool isOrdered =
        llvm::is_contained({"LayerNormalization", "BatchNormalization", "Conv",
                            "Gemm", "ConvTranspose", "GroupNormalization"},
                           StringRef(node.opType));
    if (!isOrdered || callee(node) == "addmm" ||
        wanted.size() != positions.size())
      return "";
    return wanted[llvm::find(positions, position) - positions.begin()];
  }

  /// Gives `tensor` a copy of initializer `name`, whose bytes it shares.
  void split(StringRef name, StringRef tensor) {
    if (!initializers.insert(tensor).second)
      return;
    for (const Tensor &candidate : model.graph.initializers)
      if (candidate.name == name) {
        Tensor copy = candidate;
        copy.name = tensor.str();
        model.graph.initializers.push_back(std::move(copy));
        return;
      }
  }

  /// Undoes the folding of input `position`, if that is the transpose of a
  /// linear layer's weight, or leaves it, if nothing that is trained is in it.
  void unfold(Node &node, size_t position, llvm::ArrayRef<StringRef> sources,
              std::vector<Node> &before) {
    const std::string name = node.inputs[position];
    bool isTrained = llvm::any_of(sources, [&](StringRef source) {
      return signature.kindOf(source) == TorchKind::Parameter;
    });
    if (!isTrained)
      return;
    auto tensor =
        llvm::find_if(model.graph.initializers, [&](const Tensor &candidate) {
          return candidate.name == name;
        });
    bool isLinear = callee(node) == "linear" && node.opType == "MatMul" &&
                    position == 1 && sources.size() == 1 &&
                    tensor->dims.size() == 2 && !tensor->isTransposed &&
                    !initializers.contains(sources.front());
    if (!isLinear)
      return refuse(node, "'" + llvm::Twine(name) + "' was computed from " +
                              llvm::join(sources, ", "));
    std::string original = sources.front().str();
    initializers.erase(name);
    initializers.insert(original);
    tensor->name = original;
    std::swap(tensor->dims[0], tensor->dims[1]);
    tensor->isTransposed = true;
    Node transpose;
    transpose.name = node.name;
    transpose.opType = "Transpose";
    transpose.version = node.version;
    transpose.index = node.index;
    transpose.pipelineStage = node.pipelineStage;
    transpose.inputs = {original};
    transpose.outputs = {name};
    before.push_back(std::move(transpose));
    restored.push_back(name);
  }

  void refuse(const Node &node, const llvm::Twine &what) {
    Diagnostic diagnostic;
    diagnostic.file = model.path;
    diagnostic.nodeName = node.name;
    diagnostic.nodeOp = node.opType;
    diagnostic.nodeIndex = node.index;
    diagnostic.message =
        ("PyTorch's exporter optimized the model for inference: " + what +
         ". Training it would train another model")
            .str();
    errors.push_back(std::move(diagnostic));
  }

  Model &model;
  TorchSignature signature;
  llvm::StringSet<> initializers;
  llvm::StringMap<llvm::SmallVector<StringRef>> foldedFrom;
  /// What transposes that were undone give.
  std::vector<std::string> restored;
  std::vector<Diagnostic> errors;
};

} // namespace

std::vector<Diagnostic> pp::onnx::undoOptimization(Model &model) {
  // Node metadata point into the model, which changes: it is read before.
  return Restorer(model).run();
}

bool pp::onnx::isTrainingNorm(const Node &node) {
  StringRef call = find(node.metadata, "pkg.torch.onnx.fx_node");
  if (!call.empty())
    return !call.contains("_no_training");
  const Attribute *mode = node.attribute("training_mode");
  // Before opset 14 it shows in the outputs.
  return mode ? mode->i != 0 : node.outputs.size() > 1;
}

bool pp::onnx::isInTrainingMode(const Model &model) {
  if (model.producerName != "pytorch")
    return false;
  llvm::StringSet<> initializers;
  for (const Tensor &tensor : model.graph.initializers)
    initializers.insert(tensor.name);
  return llvm::any_of(model.graph.nodes, [&](const Node &node) {
    // Layers without running statistics train in eval mode too.
    if (node.opType == "BatchNormalization")
      return node.inputs.size() == 5 && initializers.contains(node.inputs[3]) &&
             isTrainingNorm(node);
    // That of eval mode is not written.
    return node.opType == "Dropout" && node.inputs.size() == 3;
  });
}

/// What a module writes in its forward pass: buffers such as moving
/// averages and the vectors of spectral norm; but for what belongs to batch
/// norms.
static std::vector<std::string> findLostMutations(const Model &model) {
  llvm::StringSet<> statistics;
  for (const Node &node : model.graph.nodes)
    if (node.opType == "BatchNormalization")
      statistics.insert_range(llvm::drop_begin(node.inputs, 3));
  std::vector<std::string> lost = TorchSignature(model.graph).mutatedTensors();
  llvm::erase_if(lost, [&](StringRef name) {
    return statistics.contains(name) || name.ends_with("num_batches_tracked");
  });
  return lost;
}

/// PyTorch's older exporter folds constants under names such as
/// onnx::Conv_12 and replaces equal initializers by Identity nodes.
std::vector<Diagnostic> pp::onnx::findEvalMode(const Model &model) {
  std::vector<Diagnostic> warnings;
  if (model.producerName != "pytorch")
    return warnings;
  auto warn = [&](const Node &node, const llvm::Twine &what) {
    Diagnostic diagnostic;
    diagnostic.severity = Severity::Warning;
    diagnostic.file = model.path;
    diagnostic.nodeName = node.name;
    diagnostic.nodeOp = node.opType;
    diagnostic.nodeIndex = node.index;
    diagnostic.message = what.str();
    warnings.push_back(std::move(diagnostic));
  };
  int64_t norms = 0;
  const Node *first = nullptr;
  std::vector<std::string> lost;
  for (const Node &node : model.graph.nodes)
    if (node.opType == "BatchNormalization" && !isTrainingNorm(node) &&
        norms++ == 0)
      first = &node;
  for (const std::string &name : findLostMutations(model))
    lost.push_back(quoted(name));
  if (!lost.empty()) {
    Diagnostic &warning = warnings.emplace_back();
    warning.severity = Severity::Warning;
    warning.file = model.path;
    warning.message = "the module changes " + llvm::join(lost, ", ") +
                      " when it runs in training, and the program does not";
  }
  if (first && !isInTrainingMode(model))
    warn(*first, "the model was exported in eval mode: " + llvm::Twine(norms) +
                     " batch norms are trained although the file says that "
                     "they are not, and dropout, if there was any, is gone. "
                     "Export it after model.train(), with training=TRAINING "
                     "if dynamo=False");
  llvm::StringSet<> initializers;
  for (const Tensor &tensor : model.graph.initializers)
    initializers.insert(tensor.name);
  // Of models whose names are lost, there may be hundreds.
  std::vector<std::string> merged, computed;
  const Node *firstMerged = nullptr, *firstComputed = nullptr;
  llvm::StringSet<> isListed;
  for (const Node &node : model.graph.nodes) {
    if (node.opType == "Identity" && node.inputs.size() == 1 &&
        initializers.contains(node.inputs[0]) &&
        find(node.metadata, "pkg.torch.onnx.fx_node").empty()) {
      firstMerged = firstMerged ? firstMerged : &node;
      merged.push_back(quoted(node.inputs[0]) + " for " +
                       quoted(node.outputs.empty() ? "" : node.outputs[0]));
    }
    for (const std::string &name : node.inputs)
      if (StringRef(name).starts_with("onnx::") &&
          initializers.contains(name) && isListed.insert(name).second) {
        firstComputed = firstComputed ? firstComputed : &node;
        computed.push_back(quoted(name));
      }
  }
  const std::string how = "export the model with training=TRAINING and "
                          "do_constant_folding=False";
  if (firstMerged)
    warn(*firstMerged, "initializers stand for others, too, " + listed(merged) +
                           ": they are trained as one. If they were several, " +
                           how);
  if (firstComputed)
    warn(*firstComputed, "initializers were computed by the exporter from "
                         "others, whose names are lost: " +
                             listed(computed) +
                             ". Batch norm may have been folded into them; " +
                             how);
  return warnings;
}

/// The arguments of the call behind a node, if it is of the given operation:
/// those of call_function[target=torch.ops.aten.NAME.OVERLOAD](args = (%x, 0),
/// kwargs = {}).
static llvm::SmallVector<StringRef> argumentsOfCall(const Node &node,
                                                    StringRef name) {
  auto [operation, call] = find(node.metadata, "pkg.torch.onnx.fx_node")
                               .split("torch.ops.aten.")
                               .second.split("](args = (");
  llvm::SmallVector<StringRef> arguments;
  if (operation.split('.').first == name)
    call.split(')').first.split(arguments, ',');
  for (StringRef &argument : arguments)
    argument = argument.trim();
  return arguments;
}

std::optional<int64_t> pp::onnx::findPaddingIndex(const Node &node) {
  auto arguments = argumentsOfCall(node, "embedding");
  int64_t index = -1;
  if (arguments.size() > 2)
    arguments[2].getAsInteger(10, index);
  return index < 0 ? std::nullopt : std::optional(index);
}

bool pp::onnx::scalesByFrequency(const Node &node) {
  auto arguments = argumentsOfCall(node, "embedding");
  return arguments.size() > 3 && arguments[3] == "True";
}

std::optional<bool> pp::onnx::isClampByNumbers(const Node &node) {
  for (StringRef name : {"clamp", "clamp_min", "clamp_max"}) {
    auto arguments = argumentsOfCall(node, name);
    // The exporter makes tensors, %scalar_tensor_default, of two numbers.
    if (!arguments.empty())
      return llvm::none_of(llvm::drop_begin(arguments), [](StringRef bound) {
        return bound.starts_with("%") && !bound.starts_with("%scalar_tensor");
      });
  }
  return std::nullopt;
}

bool pp::onnx::isDetach(const Node &node) {
  return !argumentsOfCall(node, "detach").empty();
}

double pp::onnx::findLabelSmoothing(const Node &node) {
  auto arguments = argumentsOfCall(node, "cross_entropy_loss");
  double smoothing = 0;
  if (arguments.size() > 5)
    arguments[5].getAsDouble(smoothing);
  return smoothing;
}
