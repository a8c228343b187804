//===- WeightNodes.cpp - Weights that are written as Constant nodes -------===//

#include "pp/Import/Onnx/WeightNodes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace pp::onnx;
using llvm::StringRef;

/// A single number is one of a formula.
static bool mayBeWeight(const Tensor &tensor) {
  bool isFloat =
      tensor.type == DataType::Float || tensor.type == DataType::Double ||
      tensor.type == DataType::Float16 || tensor.type == DataType::BFloat16;
  return isFloat && tensor.elements > 1;
}

/// The tensor of a Constant node that may be a weight; null of others.
static const Tensor *weightOf(const Node &node) {
  const Attribute *value =
      node.opType == "Constant" && node.domain.empty() && !node.outputs.empty()
          ? node.attribute("value")
          : nullptr;
  return value && value->tensors.size() == 1 &&
                 mayBeWeight(value->tensors.front())
             ? &value->tensors.front()
             : nullptr;
}

/// Operators whose inputs are weights, unless they are computed.
static bool takesWeights(StringRef operation) {
  return llvm::is_contained(
      {"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"},
      operation);
}

/// Others whose inputs of floating-point numbers may be weights, or what
/// weights are computed from.
static bool mayTakeWeights(StringRef operation) {
  return takesWeights(operation) ||
         llvm::is_contained({"BatchNormalization", "InstanceNormalization",
                             "LayerNormalization", "GroupNormalization",
                             "PRelu", "Gather", "Add", "Mul", "Reshape",
                             "Transpose", "Unsqueeze", "Squeeze", "Identity",
                             "Slice", "Split", "Cast", "Concat"},
                            operation);
}

/// All names that a graph inside of a node reads.
static void findReads(const Graph &graph, llvm::StringSet<> &names) {
  for (const Node &node : graph.nodes) {
    names.insert_range(node.inputs);
    for (const Attribute &attribute : node.attributes)
      for (const Graph &inner : attribute.graphs)
        findReads(inner, names);
  }
  for (const ValueInfo &output : graph.outputs)
    names.insert(output.name);
}

int64_t pp::onnx::takeWeightsFromNodes(Model &model) {
  Graph &graph = model.graph;
  if (llvm::any_of(graph.initializers, mayBeWeight))
    return 0;
  llvm::StringSet<> weights, others;
  bool areTaken = false;
  for (const Node &node : graph.nodes)
    if (weightOf(node))
      weights.insert(node.outputs.front());
  for (const Node &node : graph.nodes) {
    if (!mayTakeWeights(node.opType))
      others.insert_range(node.inputs);
    for (const Attribute &attribute : node.attributes)
      for (const Graph &inner : attribute.graphs)
        findReads(inner, others);
    areTaken |= takesWeights(node.opType) &&
                llvm::any_of(node.inputs, [&](const std::string &input) {
                  return weights.contains(input);
                });
  }
  for (const ValueInfo &output : graph.outputs)
    others.insert(output.name);
  if (!areTaken)
    return 0;
  int64_t count = 0;
  llvm::erase_if(graph.nodes, [&](const Node &node) {
    const Tensor *tensor = weightOf(node);
    if (!tensor || others.contains(node.outputs.front()))
      return false;
    graph.initializers.push_back(*tensor);
    graph.initializers.back().name = node.outputs.front();
    ++count;
    return true;
  });
  return count;
}
