//===- Passes.h - Passes on the pp dialect ----------------------*- C++ -*-===//

#ifndef PP_DIALECT_PP_TRANSFORMS_PASSES_H
#define PP_DIALECT_PP_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include "pp/Dialect/PP/Transforms/Options.h"

namespace pp::pipeline {

#define GEN_PASS_DECL
#include "pp/Dialect/PP/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "pp/Dialect/PP/Transforms/Passes.h.inc"

} // namespace pp::pipeline

#endif // PP_DIALECT_PP_TRANSFORMS_PASSES_H
