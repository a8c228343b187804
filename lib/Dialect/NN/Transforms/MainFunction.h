//===- MainFunction.h - The function that passes work on --------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_MAINFUNCTION_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_MAINFUNCTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace pp::nn {

/// The function @main, which has one block and takes and returns statically
/// shaped tensors only. Emits an error where there is no such function.
llvm::FailureOr<mlir::func::FuncOp> findMain(mlir::ModuleOp module);

/// The type of the trained parameters, which is that of the loss, of gradients
/// and of the optimizer's state: f32 or f64; f32 where nothing is trained.
/// Emits an error where parameters of both are trained.
llvm::FailureOr<mlir::FloatType> findTrainedType(mlir::ModuleOp module);

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_MAINFUNCTION_H
