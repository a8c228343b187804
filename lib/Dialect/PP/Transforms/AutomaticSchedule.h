//===- AutomaticSchedule.h - Search a schedule for a step -------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_PP_TRANSFORMS_AUTOMATICSCHEDULE_H
#define PP_LIB_DIALECT_PP_TRANSFORMS_AUTOMATICSCHEDULE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Recompute.h"
#include "pp/Planner/Schedule/Search.h"

namespace pp::pipeline {

struct AutomaticScheduleOptions {
  /// Ranks are given. One stage per rank; with half as many ranks as stages
  /// there and back, else dealt out in turn.
  planner::PipelineShape shape;
  planner::CheckpointMode checkpoint = planner::CheckpointMode::Never;
  /// Bytes of residuals that a rank may keep; 0: no limit.
  int64_t memory = 0;
};

/// Searches the order of an outlined training step from the predicted times of
/// its kernels, the values that cross between its stages, and the residuals
/// that the memory plan will give slots. Ranks are taken to be cores that share
/// a memory bus. A recompute counts as part of the backward pass of inputs,
/// although its rank may run it while it waits for the gradient: the searched
/// times are an upper bound then.
///
/// The result, without R and without transfers, keeps to `memory` with the
/// slots that the whole schedule needs. Fails with an error on the step or a
/// kernel.
mlir::FailureOr<planner::SearchResult>
searchSchedule(mlir::func::FuncOp step,
               const AutomaticScheduleOptions &options);

} // namespace pp::pipeline

#endif // PP_LIB_DIALECT_PP_TRANSFORMS_AUTOMATICSCHEDULE_H
