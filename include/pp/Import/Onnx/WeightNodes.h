//===- WeightNodes.h - Weights as Constant nodes ----------------*- C++ -*-===//

#ifndef PP_IMPORT_ONNX_WEIGHTNODES_H
#define PP_IMPORT_ONNX_WEIGHTNODES_H

#include "pp/Import/Onnx/Model.h"

namespace pp::onnx {

/// Makes initializers of weights that a converter, such as Paddle's, has
/// written as Constant nodes; they have the names of these nodes' outputs. Only
/// in files that have no initializers of floating-point numbers. Returns how
/// many there were.
int64_t takeWeightsFromNodes(Model &model);

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_WEIGHTNODES_H
