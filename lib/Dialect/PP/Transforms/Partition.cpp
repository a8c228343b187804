//===- Partition.cpp - Place every kernel on a stage ----------------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Dialect/PP/Transforms/PlannerGraph.h"
#include "pp/Planner/Partition/GraphPartitioner.h"
#include "pp/Planner/PlacementFaults.h"

#include "llvm/ADT/StringExtras.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_PARTITION
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct Partition : pipeline::impl::PartitionBase<Partition> {
  using PartitionBase::PartitionBase;

  void runOnOperation() override {
    func::FuncOp step = findStep(getOperation());
    if (!step || failed(partition(step)))
      signalPassFailure();
  }

  LogicalResult partition(func::FuncOp step) {
    if (stages < 0)
      return step.emitError()
             << "stages is " << stages.getValue() << ", must be 0 or more";
    auto planned =
        buildPlannerGraph(getOperation(), {ignoreHints, false, false});
    if (failed(planned))
      return failure();
    if (plan)
      return followPlan(step, *planned);
    if (stages == 0) {
      stages = 1;
      for (const planner::Kernel &kernel : planned->graph.kernels)
        stages = std::max<int64_t>(stages, kernel.stageHint.value_or(0) + 1);
    }
    if (stages > static_cast<int64_t>(planned->operations.size()))
      return step.emitError() << "cannot be cut into " << stages.getValue()
                              << " stages: it has only "
                              << planned->operations.size() << " kernels";
    return search(step, *planned);
  }

  LogicalResult search(func::FuncOp step, const PlannerGraph &planned) {
    planner::Cluster cluster = planner::Cluster::cpuCores(stages);
    planner::PartitionProblem problem;
    problem.graph = &planned.graph;
    problem.cluster = &cluster;
    problem.maxStages = stages;
    problem.exactStageCount = true;
    if (objective == PartitionObjective::Memory)
      problem.objective = planner::Objective::Memory;
    // Parameters, gradients and one or two optimizer states; 1F1B's in-flight
    // micro-batches.
    problem.memory.parameterCopies = 3;
    for (int64_t stage = 0; stage < stages; ++stage)
      problem.memory.inFlight.push_back(
          static_cast<int>(std::min<int64_t>(microbatches, stages - stage)));
    // Some ten seconds, and the same partition on every machine.
    problem.limits.steps = 300'000'000;
    if (!cuts.empty() && failed(findCuts(step, planned, problem.cuts)))
      return failure();

    auto solution = planner::partitionGraph(problem);
    if (!solution)
      return step.emitError() << "cannot be partitioned: " << solution.error();
    if (auto fault = planner::verify(problem, *solution))
      return step.emitError() << "partition is wrong: " << *fault;
    assign(step, planned, solution->stageOf);
    Builder builder(&getContext());
    getOperation()->setAttr(
        partitionAttrName,
        PartitionAttr::get(&getContext(),
                           builder.getF64FloatAttr(solution->value),
                           builder.getF64FloatAttr(solution->lowerBound)));
    return success();
  }

  /// Places the kernels as a plan says, which must be for this step.
  LogicalResult followPlan(func::FuncOp step, const PlannerGraph &planned) {
    const GivenPlan &read = plan;
    size_t count = planned.graph.kernels.size();
    std::vector<int> stageOf;
    for (size_t k = 0; k < std::min(count, read->kernels.size()); ++k) {
      const planner::PlacedKernel &placed = read->kernels[k];
      if (placed.name != planned.graph.kernels[k].name)
        return planned.operations[k]->emitError()
               << "is kernel " << k << " here, but '" << placed.name
               << "' in the plan '" << read.name
               << "': it was made for another model or other options";
      stageOf.push_back(placed.stage);
    }
    if (count != read->kernels.size())
      return step.emitError()
             << "has " << count << " kernels, but the plan '" << read.name
             << "' has " << read->kernels.size()
             << ": it was made for another model or other options";
    stages = read->schedule.parts();
    if (auto faults = planner::findPlacementFaults(planned.graph, stageOf,
                                                   static_cast<int>(stages));
        !faults.empty())
      return step.emitError() << "cannot follow the plan '" << read.name
                              << "': " << llvm::join(faults, "\n  ");
    assign(step, planned, stageOf);
    return success();
  }

  LogicalResult findCuts(func::FuncOp step, const PlannerGraph &planned,
                         std::vector<size_t> &result) {
    bool ok = true;
    if (static_cast<int64_t>(cuts.size()) != stages - 1)
      return step.emitError()
             << "has " << cuts.size() << " cuts for " << stages.getValue()
             << " stages; there must be one fewer than stages";
    for (const std::string &cut : cuts) {
      size_t found = planned.operations.size();
      for (auto [index, op] : llvm::enumerate(planned.operations)) {
        bool named = false;
        op->getLoc()->walk([&](Location loc) {
          if (auto name = dyn_cast<NameLoc>(loc))
            named |= name.getName() == cut;
          return WalkResult::advance();
        });
        if (named) {
          found = index;
          break;
        }
      }
      if (found == planned.operations.size()) {
        step.emitError() << "cut '" << cut
                         << "' is not the name of a node that "
                         << "computes something";
        ok = false;
      }
      result.push_back(found);
    }
    return success(ok);
  }

  void assign(func::FuncOp step, const PlannerGraph &planned,
              const std::vector<int> &stageOf) {
    Builder attributes(&getContext());
    getOperation()->setAttr(stagesAttrName,
                            attributes.getI64IntegerAttr(stages));
    for (Operation &op : step.getBody().front().without_terminator()) {
      op.removeAttr(stageAttrName);
      if (!isKernel(&op) || planned.replicated.contains(&op))
        continue;
      if (auto node = planned.kernelOf(&op))
        op.setAttr(stageAttrName, attributes.getI64IntegerAttr(stageOf[*node]));
    }
  }
};

} // namespace
