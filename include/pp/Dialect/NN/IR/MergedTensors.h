//===- MergedTensors.h - Where a merged tensor is read ----------*- C++ -*-===//

#ifndef PP_DIALECT_NN_IR_MERGEDTENSORS_H
#define PP_DIALECT_NN_IR_MERGEDTENSORS_H

#include "llvm/ADT/StringRef.h"

namespace pp::nn {

/// On a global of a training program that an exporter merged with another one:
/// where the ONNX file has the other one's name for it, as node, input, node,
/// input. Programs write it back there.
inline constexpr llvm::StringLiteral readersAttrName = "nn.readers";

} // namespace pp::nn

#endif // PP_DIALECT_NN_IR_MERGEDTENSORS_H
