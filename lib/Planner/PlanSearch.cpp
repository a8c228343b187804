//===- PlanSearch.cpp - Find the best plan --------------------------------===//
#include "pp/Planner/PlanSearch.h"
#include "pp/Planner/Partition/GraphPartitioner.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Search.h"
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

using namespace pp::planner;

namespace {

/// A shape of the pipeline.
struct Shape {
  size_t graph;
  int replicas, ranks, stagesPerRank;
  /// Seconds. No plan of this shape takes less, whatever the partition; and
  /// what a flush of equal stages would take.
  double bound = 0, estimate = 0;

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
  /// 0: too many to count.
  size_t ideals = 0;
};

/// An order that may be worth a search.
struct OrderSearch {
  Shape shape;
  Cut cut;
  ScheduleChoice schedule;
  double bound = 0;
};

/// What a graph takes at least.
struct GraphWork {
  /// Seconds per micro-batch on a device of speed 1 or, if times are measured,
  /// on the fastest device; and of the longest path there and back, on the
  /// fastest device.
  double total = 0, path = 0;
  bool isMeasured = false;
};

class Searcher {
public:
  explicit Searcher(const PlanSpace &space)
      : space(space), devices(space.cluster->devices.size()) {}

  Result<PlanSearchResult> run() {
    if (auto fault = check())
      return Failure{*fault};
    for (const MicrobatchGraph &entry : space.graphs)
      work.push_back(workOf(entry.graph));
    result.lowerBound = lowerBound();
    searchShapes();
    searchOrders();
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
    int64_t budget = refinedActions;
    for (size_t i = 0; i < result.candidates.size(); ++i)
      if (schedules.insert(result.candidates[i].plan.scheduleName).second ||
          i < space.refined)
        refine(result.candidates[i], budget);
    sortCandidates();
  }

  void refine(PlanCandidate &candidate, int64_t &budget) const {
    constexpr int maxRounds = 20;
    int64_t actions = 0;
    for (const std::vector<Action> &rank : candidate.draft.schedule.ranks)
      actions += static_cast<int64_t>(rank.size());
    int64_t round = actions * candidate.draft.schedule.stages;
    for (int i = 0; i < maxRounds && !candidate.overflow && budget >= round;
         ++i) {
      budget -= round;
      const CutAlternative *best = nullptr;
      // A millionth is rounding.
      double limit = candidate.plan.predicted.step * (1 - 1e-6);
      std::vector<CutAlternative> alternatives =
          explainCuts(candidate, /*reach=*/2, limit);
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

  GraphWork workOf(const Graph &graph) const {
    GraphWork result;
    size_t n = graph.kernels.size();
    std::vector<double> forward(n), back(n), before(n, 0), after(n, 0);
    bool hasPasses = false;
    for (size_t k = 0; k < n; ++k) {
      const Kernel &kernel = graph.kernels[k];
      // Of each phase: another device may be faster for each.
      KernelTimes least;
      bool isFirst = true;
      for (const Device &device : space.cluster->devices) {
        KernelTimes times = timesOn(kernel, device);
        if (isFirst || times.forward < least.forward)
          least.forward = times.forward;
        if (isFirst || times.backwardInput < least.backwardInput)
          least.backwardInput = times.backwardInput;
        if (isFirst || times.backwardWeight < least.backwardWeight)
          least.backwardWeight = times.backwardWeight;
        isFirst = false;
      }
      forward[k] = least.forward;
      back[k] = space.training ? least.backwardInput : 0;
      result.total += least.total();
      result.isMeasured |= !kernel.measured.empty();
      hasPasses |= kernel.backward;
    }
    if (!result.isMeasured)
      result.total = graph.totalTime();
    if (hasPasses)
      return result;
    // From the first F to F of a kernel, from there to the end of its I.
    std::vector<std::vector<size_t>> values(n);
    for (size_t v = 0; v < graph.values.size(); ++v)
      values[graph.values[v].producer].push_back(v);
    for (size_t k = 0; k < n; ++k)
      for (size_t v : values[k])
        for (size_t consumer : graph.values[v].consumers)
          before[consumer] = std::max(before[consumer], before[k] + forward[k]);
    for (size_t k = n; k-- > 0;) {
      for (size_t v : values[k])
        if (graph.values[v].gradientBytes > 0)
          for (size_t consumer : graph.values[v].consumers)
            after[k] = std::max(after[k], after[consumer]);
      after[k] += forward[k] + back[k];
      result.path = std::max(result.path, before[k] + after[k]);
    }
    return result;
  }

  /// Seconds of all micro-batches if the fastest `used` devices always work.
  double workBound(size_t graph, size_t used) const {
    std::vector<double> speeds;
    for (const Device &device : space.cluster->devices)
      speeds.push_back(device.speed);
    std::sort(speeds.begin(), speeds.end(), std::greater<>());
    double capacity =
        work[graph].isMeasured
            ? static_cast<double>(used)
            : std::accumulate(speeds.begin(), speeds.begin() + used, 0.);
    return space.graphs[graph].microbatches * work[graph].total / capacity;
  }

  /// All devices at work all the time.
  double lowerBound() const {
    double best = 0;
    for (size_t graph = 0; graph < space.graphs.size(); ++graph) {
      double bound = workBound(graph, devices);
      if (best == 0 || bound < best)
        best = bound;
    }
    return best;
  }

  /// All shapes, the most promising first: the sooner a good plan is known, the
  /// more is pruned.
  std::vector<Shape> shapes() const {
    std::vector<Shape> list;
    for (size_t graph = 0; graph < space.graphs.size(); ++graph)
      for (int replicas : replicaCounts(space.graphs[graph].microbatches))
        for (int ranks : rankCounts(static_cast<int>(devices) / replicas))
          for (int chunks = 1; chunks <= space.maxStagesPerRank; ++chunks) {
            Shape shape{graph, replicas, ranks, chunks};
            double busy =
                workBound(graph, static_cast<size_t>(ranks) * replicas);
            shape.bound = std::max(busy, work[graph].path);
            shape.estimate = busy * (1 + (ranks - 1.) * replicas /
                                             space.graphs[graph].microbatches);
            list.push_back(shape);
          }
    std::vector<size_t> order(list.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::tuple(list[a].estimate, a) < std::tuple(list[b].estimate, b);
    });
    std::vector<Shape> sorted;
    for (size_t i : order)
      sorted.push_back(list[i]);
    return sorted;
  }

  /// The parameters alone are more than all devices hold.
  bool isTooLarge(const Shape &shape) const {
    double parameters = 0;
    for (const Kernel &kernel : space.graphs[shape.graph].graph.kernels)
      parameters += static_cast<double>(kernel.parameterBytes);
    std::vector<double> memory;
    for (const Device &device : space.cluster->devices)
      memory.push_back(static_cast<double>(device.memoryBytes));
    std::sort(memory.begin(), memory.end(), std::greater<>());
    return space.parameterCopies * parameters >
           std::accumulate(memory.begin(), memory.begin() + shape.ranks, 0.);
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

  void searchShapes() {
    std::vector<std::pair<double, Shape>> tried;
    for (const Shape &shape : shapes()) {
      size_t before = result.candidates.size();
      searchShape(shape, Objective::Time);
      double best = 0;
      for (size_t i = before; i < result.candidates.size(); ++i) {
        double step = result.candidates[i].plan.predicted.step;
        best = best == 0 ? step : std::min(best, step);
      }
      if (best > 0)
        tried.push_back({best, shape});
    }
    // The other objective takes longer, and helps by a few percent.
    std::vector<size_t> order(tried.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::tuple(tried[a].first, a) < std::tuple(tried[b].first, b);
    });
    size_t left = flushedShapes;
    for (size_t i : order) {
      const Shape &shape = tried[i].second;
      const Result<Cut> &cut =
          partition(shape, Objective::Time, {}, Placement::OnePerRank);
      if (cut && cut->ideals > 0 &&
          cut->ideals * shape.stages() <= flushedSize && left > 0) {
        --left;
        searchShape(shape, Objective::FlushLatency);
      }
    }
  }

  void searchShape(const Shape &shape, Objective objective) {
    const Graph &graph = space.graphs[shape.graph].graph;
    if (shape.stages() > static_cast<int>(graph.kernels.size()))
      return;
    bool plain = shape.stagesPerRank == 1 && shape.replicas == 1;
    if (!plain && !areAlike(static_cast<size_t>(shape.ranks) * shape.replicas))
      return;
    std::vector<ScheduleChoice> schedules = schedulesFor(shape);
    if (schedules.empty())
      return;
    size_t plans = schedules.size() * space.checkpoints.size();
    if ((fastest > 0 && shape.bound >= fastest) ||
        (!result.candidates.empty() && isTooLarge(shape))) {
      result.pruned += plans;
      return;
    }
    auto cut = partition(shape, objective, {}, Placement::OnePerRank);
    if (!cut) {
      result.failures.push_back(cut.error());
      return;
    }
    if (objective != Objective::Time &&
        cut->stageOf ==
            partition(shape, Objective::Time, {}, Placement::OnePerRank)
                ->stageOf)
      return;
    for (const ScheduleChoice &schedule : schedules) {
      // A pipeline of one stage has nothing to choose.
      if (shape.stages() == 1 && schedule.name != "gpipe" &&
          schedule.name != "1f1b" && schedule.name != "inference")
        continue;
      Cut placed = *cut;
      if (schedule.placement == Placement::V)
        for (int stage = 0; stage < shape.stages(); ++stage)
          placed.devices[stage] =
              cut->devices[stage < shape.ranks ? stage
                                               : shape.stages() - 1 - stage];
      if (schedule.name == "auto") {
        double bound = boundOf(shape, placed, schedule.placement);
        orders.push_back({shape, std::move(placed), schedule, bound});
      } else {
        tryPlans(shape, placed, schedule);
      }
    }
  }

  /// Searches orders for the cuts with the smallest bounds.
  void searchOrders() {
    std::vector<size_t> sequence(orders.size());
    std::iota(sequence.begin(), sequence.end(), 0);
    std::sort(sequence.begin(), sequence.end(), [&](size_t a, size_t b) {
      return std::tuple(orders[a].bound, a) < std::tuple(orders[b].bound, b);
    });
    size_t searched = 0;
    for (size_t i : sequence) {
      const OrderSearch &order = orders[i];
      if (fastest > 0 && order.bound >= fastest)
        result.pruned += space.checkpoints.size();
      else if (searched++ < space.searches)
        tryPlans(order.shape, order.cut, order.schedule);
      else
        ++result.unsearched;
    }
  }

  /// With the least recomputation that fits into the memory: more only adds
  /// work.
  void tryPlans(const Shape &shape, const Cut &cut,
                const ScheduleChoice &schedule) {
    searchedSchedule.reset();
    size_t left = space.checkpoints.size();
    for (CheckpointMode mode :
         {CheckpointMode::Never, CheckpointMode::ExceptLast,
          CheckpointMode::Always}) {
      if (std::find(space.checkpoints.begin(), space.checkpoints.end(), mode) ==
          space.checkpoints.end())
        continue;
      --left;
      if (tryPlan(shape, cut, schedule, mode))
        continue;
      result.pruned += left;
      return;
    }
  }

  /// With `slots`, the memory is limited, and stage s keeps slots[s]
  /// micro-batches.
  const Result<Cut> &partition(const Shape &shape, Objective objective,
                               const std::vector<int> &slots,
                               Placement placement) {
    auto key = std::tuple(shape.graph, shape.replicas, shape.ranks,
                          shape.stagesPerRank, objective, slots, placement);
    auto found = cuts.find(key);
    if (found == cuts.end())
      found =
          cuts.emplace(key, makeCut(shape, objective, slots, placement)).first;
    return found->second;
  }

  Result<Cut> makeCut(const Shape &shape, Objective objective,
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
    cut.ideals = solution->ideals;
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

  /// True if more recomputation could still help.
  bool tryPlan(const Shape &shape, const Cut &cut,
               const ScheduleChoice &schedule, CheckpointMode checkpoint) {
    auto candidate = evaluate(shape, cut, schedule, checkpoint);
    if (!candidate)
      return false;
    bool overflows = candidate->overflow.has_value();
    if (overflows && shape.stages() > 1 && !isTooLarge(shape)) {
      // The slots of the plan that is too large are a good guess.
      const Result<Cut> &smaller =
          partition(shape, Objective::Time, lastSlots, schedule.placement);
      if (smaller && smaller->stageOf != cut.stageOf) {
        searchedSchedule.reset();
        if (auto other = evaluate(shape, *smaller, schedule, checkpoint);
            other && !other->overflow)
          candidate = std::move(other);
        searchedSchedule.reset();
      }
    }
    if (!candidate->overflow)
      fastest = fastest == 0
                    ? candidate->plan.predicted.step
                    : std::min(fastest, candidate->plan.predicted.step);
    result.candidates.push_back(std::move(*candidate));
    return overflows;
  }

  std::optional<PlanCandidate> evaluate(const Shape &shape, const Cut &cut,
                                        const ScheduleChoice &choice,
                                        CheckpointMode checkpoint) {
    PlanDraft draft = draftOf(shape, cut, checkpoint);
    auto outlined = outline(shape, choice.placement);
    if (!outlined)
      return std::nullopt;
    draft.schedule = std::move(*outlined);
    if (fastest > 0 && space.training && stepLowerBound(draft) >= fastest) {
      ++result.pruned;
      return std::nullopt;
    }
    PipelineShape pipeline{shape.stages(), draft.schedule.microbatches,
                           shape.ranks};
    std::string name = choice.name;
    if (choice.name == "auto" && !searchedSchedule)
      searchedSchedule = automaticSchedule(draft, pipeline, searchedName);
    if (choice.name == "auto")
      name = searchedName;
    auto schedule = choice.name == "auto" ? *searchedSchedule
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

  /// Ranks without actions.
  std::optional<Schedule> outline(const Shape &shape,
                                  Placement placement) const {
    int microbatches = space.graphs[shape.graph].microbatches / shape.replicas;
    auto rankOfStage =
        placeStages({shape.stages(), microbatches, shape.ranks}, placement);
    if (!rankOfStage)
      return std::nullopt;
    Schedule schedule;
    schedule.stages = shape.stages();
    schedule.microbatches = microbatches;
    schedule.rankOfStage = *rankOfStage;
    schedule.ranks.resize(shape.ranks);
    return schedule;
  }

  double boundOf(const Shape &shape, const Cut &cut,
                 Placement placement) const {
    PlanDraft draft = draftOf(shape, cut, CheckpointMode::Never);
    auto outlined = outline(shape, placement);
    if (!outlined || !space.training)
      return 0;
    draft.schedule = std::move(*outlined);
    return stepLowerBound(draft);
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
    int64_t actions = int64_t(3) * pipeline.stages * pipeline.microbatches;
    problem.simulations = static_cast<int>(
        std::clamp<int64_t>(searchedActions / actions, 100, 20000));
    auto found = searchSchedule(problem);
    if (!found)
      return Failure{found.error()};
    name = "auto (" + found->origin + ")";
    return found->schedule;
  }

  /// Shapes that are partitioned for FlushLatency too, and the most ideals
  /// times stages.
  static constexpr size_t flushedShapes = 4, flushedSize = 8'000;
  /// Limits on what is simulated, in actions: a second or two each.
  static constexpr int64_t searchedActions = 4'000'000;
  static constexpr int64_t refinedActions = 1'500'000;

  using CutKey =
      std::tuple<size_t, int, int, int, Objective, std::vector<int>, Placement>;

  const PlanSpace &space;
  size_t devices;
  PlanSearchResult result;
  std::vector<GraphWork> work;
  std::map<CutKey, Result<Cut>> cuts;
  std::vector<OrderSearch> orders;
  double fastest = 0;
  std::vector<int> lastSlots;
  /// What was found for the cut at hand: recomputation does not change it.
  std::optional<Result<Schedule>> searchedSchedule;
  std::string searchedName;
};

} // namespace

Result<PlanSearchResult> pp::planner::searchPlans(const PlanSpace &space) {
  return Searcher(space).run();
}
