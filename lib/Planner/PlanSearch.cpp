//===- PlanSearch.cpp - Find the best plan --------------------------------===//
#include "pp/Planner/PlanSearch.h"
#include "pp/Planner/Partition/GraphPartitioner.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Search.h"
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

using namespace pp::planner;

namespace {

/// A shape of the pipeline.
struct Shape {
  size_t graph;
  int replicas, ranks, stagesPerRank;

  int stages() const { return ranks * stagesPerRank; }
};

struct ScheduleChoice {
  std::string name;
  Placement placement;
};

/// A partition with the devices of its stages.
struct Cut {
  std::vector<int> stageOf;
  std::vector<std::vector<size_t>> devices;
  double gap = 0;
  bool exact = false;
};

class Searcher {
public:
  explicit Searcher(const PlanSpace &space)
      : space(space), devices(space.cluster->devices.size()) {}

  Result<PlanSearchResult> run() {
    if (auto fault = check())
      return Failure{*fault};
    result.lowerBound = lowerBound();
    for (size_t graph = 0; graph < space.graphs.size(); ++graph)
      for (int replicas : replicaCounts(space.graphs[graph].microbatches))
        for (int ranks : rankCounts(static_cast<int>(devices) / replicas))
          for (int chunks = 1; chunks <= space.maxStagesPerRank; ++chunks)
            searchShape({graph, replicas, ranks, chunks});
    if (result.candidates.empty())
      return Failure{result.failures.empty()
                         ? "no schedule fits any shape of the search"
                         : "no plan was found: " + result.failures.front()};
    sortCandidates();
    if (space.refined > 0)
      refineBest();
    return std::move(result);
  }

private:
  void refineBest() {
    std::set<std::string> schedules;
    for (size_t i = 0; i < result.candidates.size(); ++i)
      if (schedules.insert(result.candidates[i].plan.scheduleName).second ||
          i < space.refined)
        refine(result.candidates[i]);
    sortCandidates();
  }

  void refine(PlanCandidate &candidate) const {
    constexpr int maxRounds = 20;
    for (int round = 0; round < maxRounds && !candidate.overflow; ++round) {
      const CutAlternative *best = nullptr;
      std::vector<CutAlternative> alternatives = explainCuts(candidate);
      // A millionth is rounding.
      double limit = candidate.plan.predicted.step * (1 - 1e-6);
      for (const CutAlternative &alternative : alternatives)
        if (!alternative.overflow &&
            alternative.step < (best ? best->step : limit))
          best = &alternative;
      if (!best)
        return;
      for (size_t kernel : best->kernels)
        candidate.draft.stageOf[kernel] = best->to;
      auto evaluation = evaluatePlan(candidate.draft);
      candidate.movedKernels += best->kernels.size();
      candidate.plan = makePlan(candidate.draft, *evaluation, space.batch,
                                candidate.plan.scheduleName);
    }
  }

  /// Those that fit first, the fastest first, else as they were found.
  void sortCandidates() {
    std::vector<size_t> order(result.candidates.size());
    std::iota(order.begin(), order.end(), 0);
    auto keyOf = [&](size_t i) {
      const PlanCandidate &candidate = result.candidates[i];
      return std::tuple(candidate.overflow.has_value(),
                        candidate.plan.predicted.step, i);
    };
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return keyOf(a) < keyOf(b); });
    std::vector<PlanCandidate> sorted;
    for (size_t i : order)
      sorted.push_back(std::move(result.candidates[i]));
    result.candidates = std::move(sorted);
  }

  std::optional<std::string> check() const {
    if (space.graphs.empty())
      return "there is no graph to plan";
    if (auto fault = space.cluster->check())
      return fault;
    for (const MicrobatchGraph &graph : space.graphs) {
      if (auto fault = graph.graph.check())
        return fault;
      if (graph.graph.kernels.empty())
        return "the graph has no kernels";
      if (graph.microbatches < 1)
        return "a graph has less than one micro-batch";
    }
    if (space.minRanks < 1 || space.maxStagesPerRank < 1)
      return "ranks and stages per rank must be 1 or more";
    if (space.maxRanks > 0 && space.maxRanks < space.minRanks)
      return "at most " + std::to_string(space.maxRanks) +
             " ranks are less than at least " + std::to_string(space.minRanks);
    for (const std::string &name : space.schedules)
      if (name != "auto") {
        std::vector<std::string_view> known = scheduleNames();
        if (std::find(known.begin(), known.end(), name) == known.end())
          return makeSchedule(name, {}).error();
      }
    return std::nullopt;
  }

  /// All devices at work all the time.
  double lowerBound() const {
    double best = 0;
    for (const MicrobatchGraph &entry : space.graphs) {
      double speeds = 0, measured = 0;
      bool isMeasured = false;
      for (const Device &device : space.cluster->devices)
        speeds += device.speed;
      for (const Kernel &kernel : entry.graph.kernels) {
        double fastest = kernel.timeOn(space.cluster->devices[0].kind,
                                       space.cluster->devices[0].speed);
        for (const Device &device : space.cluster->devices)
          fastest = std::min(fastest, kernel.timeOn(device.kind, device.speed));
        measured += fastest;
        isMeasured |= !kernel.measured.empty();
      }
      double bound = entry.microbatches *
                     (isMeasured ? measured / static_cast<double>(devices)
                                 : entry.graph.totalTime() / speeds);
      if (best == 0 || bound < best)
        best = bound;
    }
    return best;
  }

  /// 1, 2, ... while few, then powers of two.
  static std::vector<int> counts(int least, int most) {
    std::vector<int> result;
    for (int n = least; n <= most; n = n < 8 ? n + 1 : 2 * n)
      result.push_back(n);
    if (!result.empty() && result.back() != most)
      result.push_back(most);
    return result;
  }

  std::vector<int> replicaCounts(int microbatches) const {
    std::vector<int> result;
    for (int n : counts(1, static_cast<int>(devices)))
      if (n == 1 ||
          (space.replicate && space.training && microbatches % n == 0))
        result.push_back(n);
    return result;
  }

  std::vector<int> rankCounts(int available) const {
    int most =
        space.maxRanks > 0 ? std::min(space.maxRanks, available) : available;
    return most < space.minRanks ? std::vector<int>()
                                 : counts(space.minRanks, most);
  }

  /// Several stages per rank or replicas need devices that are alike.
  bool areAlike(size_t count) const {
    const Device &first = space.cluster->devices.front();
    return std::all_of(space.cluster->devices.begin(),
                       space.cluster->devices.begin() + count,
                       [&](const Device &device) {
                         return device.kind == first.kind &&
                                device.speed == first.speed &&
                                device.memoryBytes == first.memoryBytes;
                       });
  }

  std::vector<ScheduleChoice> schedulesFor(const Shape &shape) const {
    std::vector<std::string> names = space.schedules;
    if (names.empty()) {
      for (std::string_view name : scheduleNames())
        names.emplace_back(name);
      names.push_back("auto");
    }
    std::vector<ScheduleChoice> result;
    for (const std::string &name : names) {
      if ((name == "inference") == space.training)
        continue;
      if (name == "auto") {
        if (shape.stagesPerRank == 1)
          result.push_back({name, Placement::OnePerRank});
        else if (shape.stagesPerRank == 2)
          result.push_back({name, Placement::V});
        continue;
      }
      Placement placement = *placementOf(name);
      if (shape.stagesPerRank == 1
              ? placement == Placement::OnePerRank
              : placement == Placement::Loop ||
                    (placement == Placement::V && shape.stagesPerRank == 2))
        result.push_back({name, placement});
    }
    return result;
  }

  void searchShape(const Shape &shape) {
    const Graph &graph = space.graphs[shape.graph].graph;
    if (shape.stages() > static_cast<int>(graph.kernels.size()))
      return;
    bool plain = shape.stagesPerRank == 1 && shape.replicas == 1;
    if (!plain && !areAlike(static_cast<size_t>(shape.ranks) * shape.replicas))
      return;
    std::vector<ScheduleChoice> schedules = schedulesFor(shape);
    if (schedules.empty())
      return;
    std::set<std::vector<int>> seen;
    for (Objective objective : {Objective::Time, Objective::FlushLatency}) {
      auto cut = partition(shape, objective, {}, Placement::OnePerRank);
      if (!cut) {
        result.failures.push_back(cut.error());
        continue;
      }
      if (!seen.insert(cut->stageOf).second)
        continue;
      for (const ScheduleChoice &schedule : schedules)
        for (CheckpointMode checkpoint : space.checkpoints)
          tryPlan(shape, *cut, schedule, checkpoint);
    }
  }

  /// With `slots`, the memory is limited, and stage s keeps slots[s]
  /// micro-batches.
  Result<Cut> partition(const Shape &shape, Objective objective,
                        const std::vector<int> &slots, Placement placement) {
    Cluster alike;
    PartitionProblem problem;
    problem.graph = &space.graphs[shape.graph].graph;
    problem.cluster = space.cluster;
    bool plain = shape.stagesPerRank == 1 && shape.replicas == 1;
    if (!plain) {
      // One device for each stage; a rank's memory is shared evenly.
      size_t used = static_cast<size_t>(shape.ranks) * shape.replicas;
      alike.defaultLink = space.cluster->slowestLink(used);
      for (int stage = 0; stage < shape.stages(); ++stage) {
        alike.devices.push_back(space.cluster->devices.front());
        alike.devices.back().name += "#" + std::to_string(stage);
        alike.devices.back().memoryBytes /= shape.stagesPerRank;
      }
      problem.cluster = &alike;
    }
    problem.maxStages = shape.stages();
    problem.exactStageCount = true;
    problem.objective = objective;
    problem.microbatches =
        space.graphs[shape.graph].microbatches / shape.replicas;
    problem.memory.parameterCopies = space.parameterCopies;
    problem.memory.inFlight = slots;
    problem.limitMemory = !slots.empty();
    auto solution = partitionGraph(problem);
    if (!solution)
      return Failure{solution.error()};
    Cut cut;
    cut.stageOf = solution->stageOf;
    cut.gap = solution->gap();
    cut.exact = solution->exact;
    for (int stage = 0; stage < shape.stages(); ++stage) {
      std::vector<size_t> &list = cut.devices.emplace_back();
      if (plain) {
        list.push_back(solution->stages[stage].devices.front());
        continue;
      }
      int rank = stage % shape.ranks;
      if (placement == Placement::V && stage >= shape.ranks)
        rank = shape.stages() - 1 - stage;
      for (int replica = 0; replica < shape.replicas; ++replica)
        list.push_back(static_cast<size_t>(rank) * shape.replicas + replica);
    }
    return cut;
  }

  PlanDraft draftOf(const Shape &shape, const Cut &cut,
                    CheckpointMode checkpoint) const {
    PlanDraft draft;
    draft.graph = &space.graphs[shape.graph].graph;
    draft.cluster = space.cluster;
    draft.stageOf = cut.stageOf;
    draft.devices = cut.devices;
    draft.checkpoint = checkpoint;
    draft.parameterCopies = space.parameterCopies;
    draft.updateSecondsPerByte = space.updateSecondsPerByte;
    return draft;
  }

  void tryPlan(const Shape &shape, const Cut &cut,
               const ScheduleChoice &schedule, CheckpointMode checkpoint) {
    // A pipeline of one stage has nothing to choose.
    if (shape.stages() == 1 && schedule.name != "gpipe" &&
        schedule.name != "1f1b" && schedule.name != "inference")
      return;
    Cut placed = cut;
    if (schedule.placement == Placement::V)
      for (int stage = 0; stage < shape.stages(); ++stage)
        placed.devices[stage] =
            cut.devices[stage < shape.ranks ? stage
                                            : shape.stages() - 1 - stage];
    auto candidate = evaluate(shape, placed, schedule, checkpoint);
    if (!candidate)
      return;
    if (candidate->overflow && shape.stages() > 1) {
      // The slots of the plan that is too large are a good guess.
      std::vector<int> slots = lastSlots;
      auto smaller =
          partition(shape, Objective::Time, slots, schedule.placement);
      if (smaller && smaller->stageOf != cut.stageOf)
        if (auto other = evaluate(shape, *smaller, schedule, checkpoint);
            other && !other->overflow)
          candidate = std::move(other);
    }
    if (!candidate->overflow)
      fastest = fastest == 0
                    ? candidate->plan.predicted.step
                    : std::min(fastest, candidate->plan.predicted.step);
    result.candidates.push_back(std::move(*candidate));
  }

  std::optional<PlanCandidate> evaluate(const Shape &shape, const Cut &cut,
                                        const ScheduleChoice &choice,
                                        CheckpointMode checkpoint) {
    PlanDraft draft = draftOf(shape, cut, checkpoint);
    int microbatches = space.graphs[shape.graph].microbatches / shape.replicas;
    PipelineShape pipeline{shape.stages(), microbatches, shape.ranks};
    auto rankOfStage = placeStages(pipeline, choice.placement);
    if (!rankOfStage)
      return std::nullopt;
    // The bound needs the ranks only.
    draft.schedule.stages = shape.stages();
    draft.schedule.microbatches = microbatches;
    draft.schedule.rankOfStage = *rankOfStage;
    draft.schedule.ranks.resize(shape.ranks);
    if (fastest > 0 && boundOf(draft) >= fastest) {
      ++result.pruned;
      return std::nullopt;
    }
    std::string name = choice.name;
    auto schedule = choice.name == "auto"
                        ? automaticSchedule(draft, pipeline, name)
                        : makeSchedule(choice.name, pipeline);
    if (!schedule)
      return std::nullopt;
    draft.schedule = *schedule;
    auto evaluation = evaluatePlan(draft);
    if (!evaluation) {
      result.failures.push_back(choice.name + ": " + evaluation.error());
      return std::nullopt;
    }
    lastSlots.clear();
    for (const StageLoad &load : evaluation->stages)
      lastSlots.push_back(load.slots);
    PlanCandidate candidate;
    candidate.plan = makePlan(draft, *evaluation, space.batch, name);
    candidate.graph = shape.graph;
    candidate.draft = std::move(draft);
    candidate.overflow = evaluation->overflow;
    candidate.partitionGap = cut.gap;
    candidate.partitionExact = cut.exact;
    return candidate;
  }

  /// A bound that needs no schedule: inference has one order only.
  double boundOf(const PlanDraft &draft) const {
    if (!space.training)
      return 0;
    SimulationInput input;
    for (const StageLoad &load : stageLoads(draft))
      input.stages.push_back(load.times);
    Schedule outline = draft.schedule;
    outline.channels = crossingChannels(*draft.graph, draft.stageOf, true);
    input.transfers = channelTimes(draft, outline.channels);
    // Reads whether the schedule trains from its actions.
    outline.ranks[outline.rankOfStage[0]].push_back(
        {ActionKind::Backward, 0, 0});
    return lowerBounds(outline, input).makespan;
  }

  Result<Schedule> automaticSchedule(const PlanDraft &draft,
                                     PipelineShape pipeline,
                                     std::string &name) const {
    SearchProblem problem;
    problem.shape = pipeline;
    problem.rankOfStage = draft.schedule.rankOfStage;
    problem.channels = crossingChannels(*draft.graph, draft.stageOf, true);
    std::vector<StageLoad> loads = stageLoads(draft);
    std::vector<int64_t> fixed(draft.schedule.ranks.size(), 0);
    for (size_t stage = 0; stage < loads.size(); ++stage) {
      problem.times.stages.push_back(loads[stage].times);
      // The runtime frees a residual when W has run.
      problem.forwardBytes.push_back(loads[stage].savedBytes);
      problem.weightBytes.push_back(loads[stage].savedBytes);
      fixed[draft.schedule.rankOfStage[stage]] +=
          static_cast<int64_t>(
              space.parameterCopies *
              static_cast<double>(loads[stage].parameterBytes)) +
          loads[stage].workspaceBytes;
    }
    problem.times.transfers = channelTimes(draft, problem.channels);
    std::vector<int64_t> memory(fixed.size(), INT64_MAX);
    for (size_t stage = 0; stage < loads.size(); ++stage)
      for (size_t device : draft.devices[stage]) {
        int rank = draft.schedule.rankOfStage[stage];
        memory[rank] =
            std::min(memory[rank], space.cluster->devices[device].memoryBytes);
      }
    for (size_t rank = 0; rank < fixed.size(); ++rank)
      problem.capacity.push_back(
          std::max<int64_t>(0, memory[rank] - fixed[rank]));
    auto found = searchSchedule(problem);
    if (!found)
      return Failure{found.error()};
    name = "auto (" + found->origin + ")";
    return found->schedule;
  }

  const PlanSpace &space;
  size_t devices;
  PlanSearchResult result;
  double fastest = 0;
  std::vector<int> lastSlots;
};

} // namespace

Result<PlanSearchResult> pp::planner::searchPlans(const PlanSpace &space) {
  return Searcher(space).run();
}
