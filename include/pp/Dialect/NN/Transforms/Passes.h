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

/// Name of the function that holds the model, and later the whole step.
inline constexpr llvm::StringLiteral mainFunctionName = "main";
/// Name of the function that nn-attach-optimizer adds.
inline constexpr llvm::StringLiteral optimizerFunctionName = "optimizer";
/// Marks the globals that are trained.
inline constexpr llvm::StringLiteral trainedAttrName = "nn.trained";
/// On globals of a training program: why it is trained, or why not, in words.
inline constexpr llvm::StringLiteral trainingReasonAttrName = "nn.reason";

/// Whether a text is a number that losses can be multiplied by: positive and a
/// normal number of f32.
bool isLossScale(llvm::StringRef text);

/// Parameters in one call of the optimizer function.
inline constexpr int64_t optimizerBlock = 16;

} // namespace pp::nn

#endif // PP_DIALECT_NN_TRANSFORMS_PASSES_H
