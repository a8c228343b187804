//===- FunctionChecks.cpp - Which functions may be inlined ----------------===//
#include "Functions.h"
#include "llvm/Support/MathExtras.h"
#include <set>

using llvm::Twine;

namespace pp::onnx {
namespace {

/// Nodes and calls of one list of nodes; a callee is listed per call.
struct Calls {
  uint64_t nodes = 0;
  std::vector<size_t> callees;
};

class Checker {
public:
  Checker(const std::vector<Function> &functions, const Graph &graph,
          const ReaderOptions &options, DiagnosticSink &sink)
      : functions(functions), graph(graph), options(options), sink(sink) {}

  FunctionTable run() {
    FunctionTable table;
    if (functions.size() > options.maxFunctions)
      sink.error("the model has " + Twine(functions.size()) +
                 " functions, the limit is " + Twine(options.maxFunctions));
    for (size_t i = 0; i < functions.size(); ++i) {
      keys.push_back(functionKey(functions[i].domain, functions[i].name,
                                 functions[i].overload));
      if (functions[i].name.empty())
        sink.error("a function has no name");
      if (!table.emplace(keys.back(), &functions[i]).second)
        sink.error("function " + quoted(keys.back()) + " is defined twice");
      index.emplace(keys.back(), i);
    }
    if (sink.hasErrors())
      return table;
    for (const Function &function : functions)
      calls.push_back(collect(function.nodes));
    if (visitAll())
      checkSize();
    return table;
  }

private:
  Calls collect(const std::vector<Node> &nodes) {
    Calls result;
    forEachNode(nodes, [&](const Node &node) {
      auto callee =
          index.find(functionKey(node.domain, node.opType, node.overload));
      if (callee == index.end())
        ++result.nodes;
      else
        result.callees.push_back(callee->second);
    });
    return result;
  }

  /// Depth first without recursion; fills `finished` callees first. False if
  /// there is a cycle.
  bool visitAll() {
    enum class Color { White, Gray, Black };
    std::vector<Color> colors(functions.size(), Color::White);
    bool acyclic = true;
    for (size_t root = 0; root < functions.size(); ++root) {
      if (colors[root] != Color::White)
        continue;
      std::vector<std::pair<size_t, size_t>> path = {{root, 0}};
      colors[root] = Color::Gray;
      while (!path.empty()) {
        auto &[function, next] = path.back();
        if (next == calls[function].callees.size()) {
          colors[function] = Color::Black;
          finished.push_back(function);
          path.pop_back();
          continue;
        }
        size_t callee = calls[function].callees[next++];
        if (colors[callee] == Color::White) {
          colors[callee] = Color::Gray;
          path.push_back({callee, 0});
        } else if (colors[callee] == Color::Gray) {
          acyclic = false;
          reportCycle(path, callee);
        }
      }
    }
    return acyclic;
  }

  void reportCycle(const std::vector<std::pair<size_t, size_t>> &path,
                   size_t callee) {
    // A function that calls itself a thousand times is one mistake.
    if (!reported.emplace(path.back().first, callee).second)
      return;
    auto start = path.begin();
    while (start->first != callee)
      ++start;
    std::string cycle;
    for (; start != path.end(); ++start)
      cycle += quoted(keys[start->first]) + " -> ";
    sink.error("recursive function: " + cycle + quoted(keys[callee]));
  }

  void checkSize() {
    std::vector<uint64_t> nodes(functions.size());
    std::vector<unsigned> depth(functions.size());
    auto expand = [&](const Calls &list, unsigned &deepest) {
      uint64_t total = list.nodes;
      deepest = 0;
      for (size_t callee : list.callees) {
        total = llvm::SaturatingAdd(total, nodes[callee]);
        deepest = std::max(deepest, depth[callee] + 1);
      }
      return total;
    };
    for (size_t function : finished)
      nodes[function] = expand(calls[function], depth[function]);
    unsigned deepest = 0;
    uint64_t total = expand(collect(graph.nodes), deepest);
    if (total > options.maxNodes)
      sink.error("the model would expand to " + Twine(total) +
                 " nodes, the limit is " + Twine(options.maxNodes));
    if (deepest > options.maxCallDepth)
      sink.error("calls of functions nest " + Twine(deepest) +
                 " deep, the limit is " + Twine(options.maxCallDepth));
  }

  const std::vector<Function> &functions;
  const Graph &graph;
  const ReaderOptions &options;
  DiagnosticSink &sink;
  std::vector<std::string> keys;
  std::map<std::string, size_t> index;
  std::vector<Calls> calls;
  std::vector<size_t> finished;
  std::set<std::pair<size_t, size_t>> reported;
};

} // namespace

FunctionTable checkFunctions(const std::vector<Function> &functions,
                             const Graph &graph, const ReaderOptions &options,
                             DiagnosticSink &sink) {
  return Checker(functions, graph, options, sink).run();
}

} // namespace pp::onnx
