//===- FunctionBodies.h - Operators that are functions of others -*- C++
//-*-===//
#ifndef PP_LIB_IMPORT_ONNX_FUNCTIONBODIES_H
#define PP_LIB_IMPORT_ONNX_FUNCTIONBODIES_H

#include "Convert.h"

namespace pp::onnx {

/// Finds the nodes of `graph` and `functions` that call no function of the
/// model, but an operator whose body scripts/generate-functions wrote down, and
/// appends these bodies to `functions`. Which body it is depends on the inputs
/// that the node has, which become its `overload`. A node with an attribute
/// that the body does not take is an error.
void addFunctionBodies(std::vector<Function> &functions, Graph &graph,
                       Converter &converter, DiagnosticSink &sink);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_FUNCTIONBODIES_H
