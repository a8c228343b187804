//===- Functions.h - Check and inline model-local functions ---------------===//
#ifndef PP_LIB_IMPORT_ONNX_FUNCTIONS_H
#define PP_LIB_IMPORT_ONNX_FUNCTIONS_H

#include "Convert.h"

namespace pp::onnx {

/// Calls `visit` for every node of the list and of the subgraphs in it.
template <typename Nodes, typename Visit>
void forEachNode(Nodes &nodes, const Visit &visit) {
  for (auto &node : nodes) {
    visit(node);
    for (auto &attribute : node.attributes)
      for (auto &graph : attribute.graphs)
        forEachNode(graph.nodes, visit);
  }
}

/// The functions of a model by key.
using FunctionTable = std::map<std::string, const Function *>;

/// Finds duplicate and recursive functions (the cycle of calls is printed),
/// too many of them, calls too deep, and expansions to too many nodes. Linear.
FunctionTable checkFunctions(const std::vector<Function> &functions,
                             const Graph &graph, const ReaderOptions &options,
                             DiagnosticSink &sink);

/// Replaces every call in `graph` by the body of its function: attributes are
/// bound, values get names that are unique in the model, nodes are named
/// call/node. Needs functions that checkFunctions found nothing wrong with.
void inlineFunctions(const FunctionTable &functions, Graph &graph,
                     DiagnosticSink &sink);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_FUNCTIONS_H
