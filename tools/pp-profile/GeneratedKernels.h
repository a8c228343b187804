//===- GeneratedKernels.h - Times of generated kernels ----------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PROFILE_GENERATEDKERNELS_H
#define PP_TOOLS_PP_PROFILE_GENERATEDKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace pp {

/// Compiles the generated kernels of a program (after the phase `kernels`) as
/// pp-compile would, runs them in this process and adds their times by cost
/// key. Changes the program.
llvm::Error profileGenerated(mlir::ModuleOp program, const std::string &cpu,
                             unsigned repetitions, llvm::json::Object &times);

} // namespace pp

#endif // PP_TOOLS_PP_PROFILE_GENERATEDKERNELS_H
