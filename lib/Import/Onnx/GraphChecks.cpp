//===- GraphChecks.cpp - Every name has one definition --------------------===//
#include "GraphChecks.h"
#include "llvm/ADT/StringMap.h"

using llvm::Twine;

namespace pp::onnx {
namespace {

class NameChecker {
public:
  explicit NameChecker(DiagnosticSink &sink) : sink(sink) {}

  void check(const Graph &graph, const Node *owner) {
    scopes.emplace_back();
    for (const ValueInfo &input : graph.inputs)
      define(input.name, "a graph input", owner);
    for (const Tensor &tensor : graph.initializers)
      define(tensor.name, "an initializer", owner);
    for (const Node &node : graph.nodes)
      for (const std::string &output : node.outputs)
        if (!output.empty())
          define(output, describe(node), &node);
    for (const Node &node : graph.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (!node.inputs[i].empty() && !isDefined(node.inputs[i]))
          sink.error("input " + Twine(i) + " is " + quoted(node.inputs[i]) +
                         ", which nothing defines",
                     &node);
      for (const Attribute &attribute : node.attributes)
        for (const Graph &subgraph : attribute.graphs)
          check(subgraph, &node);
    }
    for (const ValueInfo &output : graph.outputs)
      if (!isDefined(output.name))
        sink.error("graph output " + quoted(output.name) +
                       ": nothing defines it",
                   owner);
    scopes.pop_back();
  }

private:
  static std::string describe(const Node &node) {
    return "node " + quoted(node.name) + " (" + quoted(node.opType) + ", #" +
           std::to_string(node.index) + ")";
  }

  void define(llvm::StringRef name, std::string definer, const Node *node) {
    if (name.empty()) {
      sink.error(definer + " has no name", node);
      return;
    }
    auto [entry, isNew] = scopes.back().try_emplace(name, definer);
    if (!isNew)
      sink.error("value " + quoted(name) + " is defined twice: by " +
                     entry->second + " and by " + definer,
                 node);
  }

  bool isDefined(llvm::StringRef name) const {
    for (const auto &scope : scopes)
      if (scope.contains(name))
        return true;
    return false;
  }

  DiagnosticSink &sink;
  std::vector<llvm::StringMap<std::string>> scopes;
};

} // namespace

void checkNames(const Graph &graph, DiagnosticSink &sink) {
  NameChecker(sink).check(graph, nullptr);
}

} // namespace pp::onnx
