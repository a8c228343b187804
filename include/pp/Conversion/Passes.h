//===- Passes.h - Lowering to code ------------------------------*- C++ -*-===//

#ifndef PP_CONVERSION_PASSES_H
#define PP_CONVERSION_PASSES_H

#include "mlir/Pass/Pass.h"

namespace pp {

#define GEN_PASS_DECL
#include "pp/Conversion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "pp/Conversion/Passes.h.inc"

/// Name of the nested module that holds what becomes object code.
inline constexpr llvm::StringLiteral codeModuleName = "code";
/// Name of the nested module with the kernels of a GPU.
inline constexpr llvm::StringLiteral deviceModuleName = "device";
/// The function that a phase calls around each kernel, if asked to.
inline constexpr llvm::StringLiteral markFunctionName = "pp_mark_kernel";

/// The function in which the threads of a stage wait for each other.
inline constexpr llvm::StringLiteral joinPartsFunctionName = "pp_join_parts";
/// The function of @code with the optimizer's step on a block of parameters.
inline constexpr llvm::StringLiteral optimizerBlockFunctionName =
    "optimizer_block";

/// The upstream passes that turn the functions of nn-lower-kernels into the
/// LLVM dialect; `pm` runs on the code module.
void buildKernelPipeline(mlir::OpPassManager &pm);

/// The same for the kernels of pp-make-launches; `pm` runs on the program.
void buildDevicePipeline(mlir::OpPassManager &pm);

} // namespace pp

#endif // PP_CONVERSION_PASSES_H
