//===- PlannerGraph.h - A step as a planning problem ------------*- C++ -*-===//

#ifndef PP_DIALECT_PP_TRANSFORMS_PLANNERGRAPH_H
#define PP_DIALECT_PP_TRANSFORMS_PLANNERGRAPH_H

#include "mlir/IR/BuiltinOps.h"
#include "pp/Planner/Graph.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

namespace pp::pipeline {

/// The step of a module with costs (pp-annotate-costs) as the planner sees it:
/// a kernel is a forward kernel with the backward kernels that belong to it, in
/// program order. Kernels that are copied where they are needed are not in it.
struct PlannerGraph {
  planner::Graph graph;
  /// The forward operation of each kernel.
  llvm::SmallVector<mlir::Operation *> operations;
  llvm::DenseSet<mlir::Operation *> replicated;

  /// The kernel that an operation of any phase belongs to.
  std::optional<size_t> kernelOf(mlir::Operation *op) const;

  /// Kernels by the origin that forward and backward operations share.
  llvm::DenseMap<int64_t, size_t> byOrigin;
};

struct PlannerGraphOptions {
  bool ignoreHints = false;
  /// Ask the library for the scratchpads of its kernels, which takes
  /// milliseconds for each: for plans that have to fit into memory.
  bool scratchpads = false;
  /// Kernels of one ONNX node go to one stage, as annotations need it.
  bool wholeNodes = false;
};

/// Fails, with an error on the operation, if there is no step, a kernel without
/// a cost, or a backward kernel that belongs to no forward kernel.
mlir::FailureOr<PlannerGraph>
buildPlannerGraph(mlir::ModuleOp module, PlannerGraphOptions options = {});

} // namespace pp::pipeline

#endif // PP_DIALECT_PP_TRANSFORMS_PLANNERGRAPH_H
