//===- GraphChecks.h - Names and order of a graph -------------------------===//
#ifndef PP_LIB_IMPORT_ONNX_GRAPHCHECKS_H
#define PP_LIB_IMPORT_ONNX_GRAPHCHECKS_H

#include "DiagnosticSink.h"

namespace pp::onnx {

/// Finds values defined twice, and uses and graph outputs that nothing
/// defines, in the graph and its subgraphs, which see the values around them.
void checkNames(const Graph &graph, DiagnosticSink &sink);

/// Sorts the nodes of the graph and of its subgraphs topologically, keeping
/// the order of the file where it can, and warns if something moved. Cycles are
/// errors, each printed node by node. Needs a graph with correct names.
void sortNodes(Graph &graph, DiagnosticSink &sink);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_GRAPHCHECKS_H
