//===- Passes.h - Passes on the nn dialect ----------------------*- C++ -*-===//

#ifndef PP_DIALECT_NN_TRANSFORMS_PASSES_H
#define PP_DIALECT_NN_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include "pp/Dialect/NN/Transforms/Options.h"

namespace pp::nn {

#define GEN_PASS_DECL
#include "pp/Dialect/NN/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "pp/Dialect/NN/Transforms/Passes.h.inc"

/// Whether a text is a number that losses can be multiplied by: positive and a
/// normal number of f32.
bool isLossScale(llvm::StringRef text);

} // namespace pp::nn

#endif // PP_DIALECT_NN_TRANSFORMS_PASSES_H
