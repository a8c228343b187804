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
/// On kernels: the function in the code module that runs it.
inline constexpr llvm::StringLiteral calleeAttrName = "pp.callee";

/// On functions of the code module that emulate a thread of a GPU's kernel:
/// {shared = bytes of shared memory, waits = whether threads wait}.
inline constexpr llvm::StringLiteral emulatedAttrName = "pp.emulated";

/// Name of the nested module with the kernels of a GPU.
inline constexpr llvm::StringLiteral deviceModuleName = "device";
/// The function that a phase calls around each kernel, if asked to, and the
/// number of a kernel in these calls.
inline constexpr llvm::StringLiteral markFunctionName = "pp_mark_kernel";
inline constexpr llvm::StringLiteral markAttrName = "pp.mark";

/// The upstream passes that turn the functions of nn-lower-kernels into the
/// LLVM dialect; `pm` runs on the code module.
void buildKernelPipeline(mlir::OpPassManager &pm);

/// The same for the kernels of pp-make-launches; `pm` runs on the program.
void buildDevicePipeline(mlir::OpPassManager &pm);

} // namespace pp

#endif // PP_CONVERSION_PASSES_H
