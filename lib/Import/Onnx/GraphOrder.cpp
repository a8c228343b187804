//===- GraphOrder.cpp - Topological order and cycles ----------------------===//
#include "GraphChecks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <functional>
#include <queue>

namespace pp::onnx {
namespace {

using Use = llvm::function_ref<void(const std::string &)>;

/// Visits what the nodes of a subgraph read from the graphs around it.
void forEachCapture(const Graph &graph, std::vector<llvm::StringSet<>> &scopes,
                    Use use) {
  llvm::StringSet<> &local = scopes.emplace_back();
  for (const ValueInfo &input : graph.inputs)
    local.insert(input.name);
  for (const Tensor &tensor : graph.initializers)
    local.insert(tensor.name);
  for (const Node &node : graph.nodes)
    for (const std::string &output : node.outputs)
      local.insert(output);
  auto captured = [&](const std::string &name) {
    if (llvm::none_of(scopes,
                      [&](auto &scope) { return scope.contains(name); }))
      use(name);
  };
  for (const Node &node : graph.nodes) {
    for (const std::string &input : node.inputs)
      captured(input);
    for (const Attribute &attribute : node.attributes)
      for (const Graph &subgraph : attribute.graphs)
        forEachCapture(subgraph, scopes, use);
  }
  for (const ValueInfo &output : graph.outputs)
    captured(output.name);
  scopes.pop_back();
}

/// Visits what a node reads, in its subgraphs too.
void forEachUse(const Node &node, Use use) {
  for (const std::string &input : node.inputs)
    use(input);
  std::vector<llvm::StringSet<>> scopes;
  for (const Attribute &attribute : node.attributes)
    for (const Graph &graph : attribute.graphs)
      forEachCapture(graph, scopes, use);
}

struct Dependencies {
  /// Per node, producers and consumers of its values, without repetition.
  std::vector<std::vector<size_t>> producers, consumers;
};

Dependencies dependencies(const Graph &graph) {
  llvm::StringMap<size_t> producer;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string &output : graph.nodes[i].outputs)
      if (!output.empty())
        producer[output] = i;
  Dependencies result;
  result.producers.resize(graph.nodes.size());
  result.consumers.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    std::vector<size_t> &producers = result.producers[i];
    forEachUse(graph.nodes[i], [&](const std::string &name) {
      auto found = producer.find(name);
      if (found != producer.end())
        producers.push_back(found->second);
    });
    llvm::sort(producers);
    producers.erase(llvm::unique(producers), producers.end());
    for (size_t p : producers)
      result.consumers[p].push_back(i);
  }
  return result;
}

std::string shortName(const Node &node) {
  return quoted(node.name.empty() && !node.outputs.empty()
                    ? node.outputs.front()
                    : node.name) +
         " (" + quoted(node.opType) + ", #" + std::to_string(node.index) + ")";
}

/// Every node that is left has a producer that is left: walking from producer
/// to producer must come round. A walk stops where an earlier one was, so that
/// no node is walked twice and the printed cycles are disjoint.
void reportCycles(const Graph &graph, const Dependencies &edges,
                  const std::vector<bool> &done, DiagnosticSink &sink) {
  std::vector<size_t> walk(graph.nodes.size(), 0);
  for (size_t start = 0; start < graph.nodes.size(); ++start) {
    if (done[start] || walk[start])
      continue;
    std::vector<size_t> path;
    size_t node = start;
    while (!walk[node]) {
      walk[node] = start + 1;
      path.push_back(node);
      node = *llvm::find_if(edges.producers[node],
                            [&](size_t p) { return !done[p]; });
    }
    if (walk[node] != start + 1)
      continue;
    // The walk went against the data; print it along the data.
    std::string text = shortName(graph.nodes[node]);
    constexpr size_t longest = 50;
    size_t printed = 0;
    for (size_t at : llvm::reverse(path)) {
      if (++printed > longest) {
        text += " -> ...";
        break;
      }
      text += " -> " + shortName(graph.nodes[at]);
      if (at == node)
        break;
    }
    sink.error("the graph has a cycle: " + text, &graph.nodes[node]);
  }
}

} // namespace

void sortNodes(Graph &graph, DiagnosticSink &sink) {
  for (Node &node : graph.nodes)
    for (Attribute &attribute : node.attributes)
      for (Graph &subgraph : attribute.graphs)
        sortNodes(subgraph, sink);
  Dependencies edges = dependencies(graph);
  size_t count = graph.nodes.size();
  std::vector<size_t> waiting(count), order;
  std::vector<bool> done(count, false);
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < count; ++i) {
    waiting[i] = edges.producers[i].size();
    if (waiting[i] == 0)
      ready.push(i);
  }
  while (!ready.empty()) {
    size_t node = ready.top();
    ready.pop();
    done[node] = true;
    order.push_back(node);
    for (size_t consumer : edges.consumers[node])
      if (--waiting[consumer] == 0)
        ready.push(consumer);
  }
  if (order.size() != count) {
    reportCycles(graph, edges, done, sink);
    return;
  }
  if (llvm::is_sorted(order))
    return;
  size_t first = 0;
  while (order[first] == first)
    ++first;
  sink.warning("the nodes are not in topological order; they were sorted",
               &graph.nodes[first]);
  std::vector<Node> sorted;
  sorted.reserve(count);
  for (size_t node : order)
    sorted.push_back(std::move(graph.nodes[node]));
  graph.nodes = std::move(sorted);
}

} // namespace pp::onnx
