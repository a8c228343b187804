//===- Evaluate.h - What a placement of kernels costs ---------------------===//
#ifndef PP_LIB_PLANNER_PARTITION_EVALUATE_H
#define PP_LIB_PLANNER_PARTITION_EVALUATE_H

#include "CostModel.h"

namespace pp::planner::partition {

/// Fills in times, memory and cost of every stage and the value from stageOf,
/// variantOf and the stages' kernels, devices, replicas and degrees, kernel by
/// kernel. The placement must be well formed.
void evaluate(const CostModel &model, PartitionSolution &solution);

/// Micro-batches in flight in each stage.
std::vector<int> inFlightPerStage(const CostModel &model,
                                  const PartitionSolution &solution);

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_EVALUATE_H
