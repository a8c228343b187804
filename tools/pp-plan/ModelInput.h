//===- ModelInput.h - The best plan for a model -----------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_MODELINPUT_H
#define PP_TOOLS_PP_PLAN_MODELINPUT_H

#include "Flags.h"
#include "mlir/IR/MLIRContext.h"

namespace pp {

/// Plans the model of the command line, prints the best plans and writes what
/// the flags ask for.
llvm::Error planModel(const Flags &flags, mlir::MLIRContext &context);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_MODELINPUT_H
