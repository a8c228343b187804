//===- Inline.cpp - Replace calls of functions by their bodies ------------===//
#include "Functions.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using llvm::Twine;

namespace pp::onnx {
namespace {

/// What inlining may add to the memory of a model: names and constants of a
/// function are copied at each call.
constexpr uint64_t maxBytes = uint64_t(64) << 20;

uint64_t approximateBytes(const Node &node) {
  uint64_t bytes = sizeof(Node) + node.name.size() + node.opType.size();
  for (const auto *names : {&node.inputs, &node.outputs})
    for (const std::string &name : *names)
      bytes += sizeof(std::string) + name.size();
  for (const auto &[key, value] : node.metadata)
    bytes += 2 * sizeof(std::string) + key.size() + value.size();
  for (const Attribute &attribute : node.attributes) {
    bytes += sizeof(Attribute) + attribute.name.size() + attribute.s.size() +
             4 * attribute.floats.size() + 8 * attribute.ints.size();
    for (const std::string &text : attribute.strings)
      bytes += sizeof(std::string) + text.size();
    for (const Tensor &tensor : attribute.tensors) {
      bytes += sizeof(Tensor) + tensor.bytes.size() + 8 * tensor.dims.size();
      for (const std::string &text : tensor.strings)
        bytes += sizeof(std::string) + text.size();
    }
    for (const Graph &graph : attribute.graphs) {
      bytes += sizeof(Graph);
      for (const Tensor &tensor : graph.initializers)
        bytes += sizeof(Tensor) + tensor.bytes.size();
      for (const Node &inner : graph.nodes)
        bytes += approximateBytes(inner);
    }
  }
  return bytes;
}

void forEachName(Graph &graph, llvm::function_ref<void(std::string &)> visit);

/// Visits every value name in the nodes and the subgraphs below them.
void forEachName(std::vector<Node> &nodes,
                 llvm::function_ref<void(std::string &)> visit) {
  for (Node &node : nodes) {
    for (auto *names : {&node.inputs, &node.outputs})
      for (std::string &name : *names)
        if (!name.empty())
          visit(name);
    for (Attribute &attribute : node.attributes)
      for (Graph &graph : attribute.graphs)
        forEachName(graph, visit);
  }
}

void forEachName(Graph &graph, llvm::function_ref<void(std::string &)> visit) {
  for (auto *values : {&graph.inputs, &graph.outputs, &graph.values})
    for (ValueInfo &value : *values)
      visit(value.name);
  for (Tensor &tensor : graph.initializers)
    visit(tensor.name);
  forEachName(graph.nodes, visit);
}

class Inliner {
public:
  Inliner(const FunctionTable &functions, DiagnosticSink &sink)
      : functions(functions), sink(sink) {}

  void run(Graph &graph) {
    forEachName(graph, [&](std::string &name) { names.insert(name); });
    inlineIn(graph.nodes);
  }

private:
  const Function *callee(const Node &node) const {
    auto found =
        functions.find(functionKey(node.domain, node.opType, node.overload));
    return found == functions.end() ? nullptr : found->second;
  }

  void inlineIn(std::vector<Node> &nodes) {
    std::vector<Node> result;
    result.reserve(nodes.size());
    for (Node &node : nodes) {
      const Function *function = callee(node);
      if (!function) {
        for (Attribute &attribute : node.attributes)
          for (Graph &graph : attribute.graphs)
            inlineIn(graph.nodes);
        result.push_back(std::move(node));
        continue;
      }
      std::vector<Node> body = instantiate(*function, node);
      inlineIn(body);
      for (Node &inner : body)
        result.push_back(std::move(inner));
    }
    nodes = std::move(result);
  }

  std::vector<Node> instantiate(const Function &function, const Node &call) {
    if (call.inputs.size() > function.inputs.size() ||
        call.outputs.size() > function.outputs.size()) {
      sink.error("the call has " + Twine(call.inputs.size()) + " inputs and " +
                     Twine(call.outputs.size()) +
                     " outputs, the function only " +
                     Twine(function.inputs.size()) + " and " +
                     Twine(function.outputs.size()),
                 &call);
      return {};
    }
    // Checked before the copy is made: the last one must not be too large.
    for (const Node &node : function.nodes)
      bytes +=
          approximateBytes(node) + (node.outputs.size() + 1) * call.name.size();
    if (bytes > maxBytes) {
      if (!outOfMemory)
        sink.error("the functions of the model expand to more than " +
                   Twine(maxBytes >> 20) + " MiB");
      outOfMemory = true;
      return {};
    }
    std::vector<Node> body = function.nodes;
    std::string prefix =
        (call.name.empty() ? call.opType + "_" + std::to_string(call.index)
                           : call.name) +
        "/";
    bindNames(function, call, prefix, body);
    forEachNode(body,
                [&](Node &node) { bindAttributes(function, call, node); });
    for (Node &node : body) {
      node.name = prefix + node.name;
      if (!node.pipelineStage)
        node.pipelineStage = call.pipelineStage;
    }
    forEachNode(body, [&](Node &node) { node.index = call.index; });
    return body;
  }

  std::string fresh(const std::string &wish) {
    std::string name = wish;
    for (unsigned i = 1; !names.insert(name).second; ++i)
      name = wish + "_" + std::to_string(i);
    return name;
  }

  void bindNames(const Function &function, const Node &call,
                 const std::string &prefix, std::vector<Node> &body) {
    llvm::StringMap<std::string> bound;
    for (size_t i = 0; i < function.inputs.size(); ++i)
      bound[function.inputs[i]] = i < call.inputs.size() ? call.inputs[i] : "";
    std::vector<Node> copies;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i].empty())
        continue;
      auto [entry, isNew] =
          bound.try_emplace(function.outputs[i], call.outputs[i]);
      if (isNew)
        continue;
      // An output that is an input, or a second name of another output.
      Node identity;
      identity.name = function.outputs[i];
      identity.opType = "Identity";
      identity.version = call.version;
      identity.inputs = {entry->second};
      identity.outputs = {call.outputs[i]};
      copies.push_back(std::move(identity));
    }
    forEachName(body, [&](std::string &name) {
      auto [entry, isNew] = bound.try_emplace(name);
      if (isNew)
        entry->second = fresh(prefix + name);
      name = entry->second;
    });
    for (Node &copy : copies)
      body.push_back(std::move(copy));
  }

  void bindAttributes(const Function &function, const Node &call, Node &node) {
    std::vector<Attribute> kept;
    for (Attribute &attribute : node.attributes) {
      if (attribute.reference.empty()) {
        kept.push_back(std::move(attribute));
        continue;
      }
      const Attribute *value = call.attribute(attribute.reference);
      for (const Attribute &candidate : function.defaults)
        if (!value && candidate.name == attribute.reference)
          value = &candidate;
      // Without a value the attribute is left out: the operator's own default.
      if (!value)
        continue;
      Attribute copy = *value;
      copy.name = attribute.name;
      kept.push_back(std::move(copy));
    }
    node.attributes = std::move(kept);
  }

  const FunctionTable &functions;
  DiagnosticSink &sink;
  llvm::StringSet<> names;
  uint64_t bytes = 0;
  bool outOfMemory = false;
};

} // namespace

void inlineFunctions(const FunctionTable &functions, Graph &graph,
                     DiagnosticSink &sink) {
  if (!functions.empty())
    Inliner(functions, sink).run(graph);
}

} // namespace pp::onnx
