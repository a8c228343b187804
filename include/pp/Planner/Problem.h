//===- Problem.h - Planning problems and answers as files -----------------===//
//
// docs/problem-format.md has the JSON forms. An answer names every kernel's
// stage and variant and every stage's devices, so that another program can
// compute its value from the problem alone.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_PROBLEM_H
#define PP_PLANNER_PROBLEM_H

#include "pp/Planner/Partition/GraphPartitioner.h"
#include <string_view>

namespace pp::planner {

struct PlanningProblem {
  Graph graph;
  Cluster cluster;
  /// Everything else; its graph and cluster are not set.
  PartitionProblem settings;

  /// The settings with this graph and cluster, which must outlive it.
  PartitionProblem problem() const;

  /// Kernels may stand in any order; they are sorted, stably. Errors name the
  /// JSON path. A graph with a cycle is an error that names the kernels of one.
  static Result<PlanningProblem> fromJson(std::string_view text);
  /// fromJson gives back an equal problem; names of values that repeat get
  /// numbers: `out`, `out#2`.
  std::string toJson() const;

  std::string answerToJson(const PartitionSolution &solution) const;
  /// Reads what answerToJson writes; verify() says whether it is right.
  Result<PartitionSolution> answerFromJson(std::string_view text) const;
};

} // namespace pp::planner

#endif // PP_PLANNER_PROBLEM_H
