//===- StepGraph.h - The step as the planner sees it ------------*- C++ -*-===//
//
// What the passes of the pp dialect share: the function of the step, which of
// its operations are kernels, and where values come from.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_DIALECT_PP_TRANSFORMS_STEPGRAPH_H
#define PP_LIB_DIALECT_PP_TRANSFORMS_STEPGRAPH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Interfaces/KernelOpInterface.h"
#include "llvm/ADT/DenseSet.h"

namespace pp::pipeline {

/// The function that holds the step: the only one with fed arguments. Reports
/// an error on the module if there is none.
mlir::func::FuncOp findStep(mlir::ModuleOp module);

/// True for operations that are executed: not views.
bool isKernel(mlir::Operation *op);

/// True for operations that only name memory.
bool isView(mlir::Operation *op);

/// The value behind a chain of views with one operand; a leaf view (a
/// parameter or a constant) stays.
mlir::Value lookThroughViews(mlir::Value value);

/// Kernels that depend on no fed value and to which no later phase belongs, and
/// those of the phase prepare: they are copied where they are needed, not
/// placed.
llvm::DenseSet<mlir::Operation *>
findReplicatedKernels(mlir::func::FuncOp step);

/// The name to show for an operation: the first ONNX node in its location.
std::string getDisplayName(mlir::Operation *op);

} // namespace pp::pipeline

#endif // PP_LIB_DIALECT_PP_TRANSFORMS_STEPGRAPH_H
