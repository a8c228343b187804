//===- LowerOptimizer.h - The function that updates parameters --*- C++ -*-===//

#ifndef PP_LIB_CONVERSION_LOWEROPTIMIZER_H
#define PP_LIB_CONVERSION_LOWEROPTIMIZER_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace pp {

/// Makes pp_optimizer_function in `code`: `block`, which updates
/// nn::optimizerBlockBytes of parameters, over a whole arena. New values go
/// through the stack, because `block` may read an old value after it wrote a
/// new one.
llvm::LogicalResult lowerOptimizer(mlir::ModuleOp module, mlir::ModuleOp code,
                                   mlir::LLVM::LLVMFuncOp block);

/// Makes pp_rounding_function in `code`, which rounds f32 to `element` as the
/// kernels of the phase prepare do.
void lowerRounding(mlir::Location loc, mlir::ModuleOp code,
                   mlir::FloatType element);

} // namespace pp

#endif // PP_LIB_CONVERSION_LOWEROPTIMIZER_H
