//===- AutomaticSchedule.cpp - Search a schedule for a step ---------------===//

#include "AutomaticSchedule.h"
#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pprt/pprt.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

/// How often the limit is lowered for what the search does not count.
static constexpr int mostTightenings = 16;

namespace {

class Searcher {
public:
  Searcher(func::FuncOp step, const AutomaticScheduleOptions &options)
      : step(step), options(options) {
    recomputes = options.checkpoint == planner::CheckpointMode::Always ||
                 (options.checkpoint == planner::CheckpointMode::ExceptLast &&
                  options.shape.microbatches > 1);
  }

  FailureOr<planner::SearchResult> run() {
    if (failed(buildProblem()))
      return failure();
    std::string need;
    for (int attempt = 0; attempt < mostTightenings; ++attempt) {
      auto found = planner::searchSchedule(problem);
      if (!found && need.empty())
        return step.emitError()
               << "cannot be scheduled automatically: " << found.error();
      if (!found)
        break;
      if (options.memory == 0)
        return *found;
      auto bytes = residualsByRank(found->schedule);
      if (failed(bytes))
        return failure();
      bool fits = true, tightened = false;
      for (auto [rank, needed] : llvm::enumerate(*bytes)) {
        if (needed <= options.memory)
          continue;
        if (fits)
          need = "rank " + std::to_string(rank) + " would keep " +
                 std::to_string(needed);
        fits = false;
        // Slots belong to stages: those of a rank add up although their
        // largest numbers are not needed at one time.
        int64_t &capacity = problem.capacity[rank];
        int64_t less = std::max(capacity - (needed - options.memory),
                                leastCapacity(static_cast<int>(rank)));
        tightened |= less < capacity;
        capacity = std::min(less, capacity);
      }
      if (fits)
        return *found;
      if (tightened)
        continue;
      if (!recomputes || !problem.splitBackward)
        break;
      // An F between I and W needs a slot for what it does not keep. A B leaves
      // no such place: one slot per stage is enough.
      problem.splitBackward = false;
      problem.capacity.assign(problem.capacity.size(), options.memory);
    }
    return step.emitError()
           << "cannot be scheduled automatically: no order was found in which "
              "a rank keeps at most "
           << options.memory << " bytes of residuals (" << need
           << "); allow more memory, recompute, or use more stages";
  }

private:
  LogicalResult buildProblem() {
    problem.shape = options.shape;
    int stages = options.shape.stages, ranks = options.shape.rankCount();
    auto placement = ranks == stages       ? planner::Placement::OnePerRank
                     : stages == 2 * ranks ? planner::Placement::V
                                           : planner::Placement::Loop;
    auto rankOfStage = planner::placeStages(options.shape, placement);
    if (!rankOfStage)
      return step.emitError()
             << "cannot be scheduled automatically: " << rankOfStage.error();
    problem.rankOfStage = *rankOfStage;
    SmallVector<Crossing> crossings = findCrossings(step);
    problem.channels = toChannels(crossings);
    planner::Schedule outline;
    outline.stages = stages;
    outline.rankOfStage = problem.rankOfStage;
    outline.channels = problem.channels;
    problem.times.transfers =
        planner::transferTimes(outline, planner::Cluster::cpuCores(ranks));
    if (failed(readTimes()))
      return failure();
    readResiduals();
    // The slot that R fills holds until W.
    problem.weightBytes = residuals;
    problem.forwardBytes =
        recomputes ? std::vector<int64_t>(stages, 0) : residuals;
    if (options.memory > 0)
      problem.capacity.assign(ranks, options.memory);
    return success();
  }

  LogicalResult readTimes() {
    problem.times.stages.resize(options.shape.stages);
    bool ok = true;
    step.walk([&](StageOp stage) {
      planner::StageTimes &times = problem.times.stages[stage.getStage()];
      double ignored = 0;
      double &time =
          stage.getPhase() == Phase::Forward          ? times.forward
          : stage.getPhase() == Phase::BackwardInput  ? times.backwardInput
          : stage.getPhase() == Phase::BackwardWeight ? times.backwardWeight
                                                      : ignored;
      for (Operation &op : stage.getBody().front()) {
        if (!isKernel(&op))
          continue;
        auto cost = op.getAttrOfType<CostAttr>(costAttrName);
        if (!cost) {
          op.emitOpError("has no cost; run pp-annotate-costs first");
          ok = false;
          continue;
        }
        time += cost.getSeconds().getValueAsDouble();
      }
    });
    if (recomputes)
      for (planner::StageTimes &times : problem.times.stages)
        times.backwardInput += times.forward;
    return success(ok);
  }

  /// What pp-plan-memory puts into a residual slot.
  void readResiduals() {
    residuals.assign(options.shape.stages, 0);
    llvm::DenseSet<Value> seen;
    step.walk([&](StageOp reader) {
      for (Value input : reader.getInputs()) {
        auto producer = input.getDefiningOp<StageOp>();
        if (producer && producer.getStage() == reader.getStage() &&
            producer.getPhase() != Phase::Prepare && seen.insert(input).second)
          residuals[reader.getStage()] += static_cast<int64_t>(
              llvm::alignTo(getTensorBytes(input.getType()), PP_ALIGNMENT));
      }
    });
  }

  /// One micro-batch in all stages of the rank, or, if each is computed again
  /// just before it is needed, in one.
  int64_t leastCapacity(int rank) const {
    int64_t sum = 0, largest = 0;
    for (int stage = 0; stage < options.shape.stages; ++stage)
      if (problem.rankOfStage[stage] == rank) {
        sum += residuals[stage];
        largest = std::max(largest, residuals[stage]);
      }
    return recomputes ? largest : sum;
  }

  FailureOr<std::vector<int64_t>>
  residualsByRank(const planner::Schedule &computations) {
    planner::Schedule schedule = computations;
    planner::insertRecompute(schedule, options.checkpoint);
    auto complete = planner::insertTransfers(schedule, problem.channels);
    if (!complete)
      return step.emitError()
             << "cannot be scheduled automatically: " << complete.error();
    planner::SlotAssignment slots = planner::assignSlots(*complete);
    std::vector<int64_t> bytes(complete->ranks.size(), 0);
    for (int stage = 0; stage < complete->stages; ++stage)
      bytes[complete->rankOfStage[stage]] +=
          slots.stages[stage].count * residuals[stage];
    return bytes;
  }

  func::FuncOp step;
  const AutomaticScheduleOptions &options;
  bool recomputes = false;
  planner::SearchProblem problem;
  std::vector<int64_t> residuals; // Bytes of a slot, by stage.
};

} // namespace

FailureOr<planner::SearchResult>
pp::pipeline::searchSchedule(func::FuncOp step,
                             const AutomaticScheduleOptions &options) {
  return Searcher(step, options).run();
}
