//===- PlanSearch.cpp - Find the best plan --------------------------------===//
#include "AutomaticSchedule.h"
#include "CandidateRanking.h"
#include "CutImprovement.h"
#include "ShapeCuts.h"
#include "pp/Planner/Schedule/Replicas.h"
#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

using namespace pp::planner;

static std::optional<std::string> checkSpace(const PlanSpace &space) {
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

namespace {

/// An order that may be worth a search.
struct OrderSearch {
  PlanShape shape;
  Cut cut;
  ScheduleChoice schedule;
  double bound = 0;
};

class Searcher {
public:
  explicit Searcher(const PlanSpace &space)
      : space(space), shapes(space), cuts(space) {}

  Result<PlanSearchResult> run() {
    result.lowerBound = shapes.lowerBound();
    searchShapes();
    searchOrders();
    searchStageReplicas();
    if (result.candidates.empty())
      return Failure{result.failures.empty()
                         ? "no schedule fits any shape of the search"
                         : "no plan was found: " + result.failures.front()};
    result.duplicates = rankCandidates(result.candidates);
    if (space.refined > 0 && !isOutOfTime()) {
      improveCuts(space, result.candidates);
      result.duplicates += rankCandidates(result.candidates);
    }
    return std::move(result);
  }

private:
  bool isOutOfTime() {
    if (space.deadline && std::chrono::steady_clock::now() >= *space.deadline)
      result.outOfTime = true;
    if (space.report)
      space.report({});
    return result.outOfTime;
  }

  void searchShapes() {
    std::vector<std::pair<double, PlanShape>> tried;
    for (const PlanShape &shape : shapes.list()) {
      if (!result.candidates.empty() && isOutOfTime()) {
        ++result.skipped;
        continue;
      }
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
      if (isOutOfTime())
        return;
      const PlanShape &shape = tried[i].second;
      auto cut = cuts.find(shape, Placement::OnePerRank, Objective::Time);
      if (cut && cut->ideals > 0 &&
          cut->ideals * shape.stages() <= flushedSize && left > 0) {
        --left;
        searchShape(shape, Objective::FlushLatency);
      }
    }
  }

  void searchShape(const PlanShape &shape, Objective objective) {
    const Graph &graph = space.graphs[shape.graph].graph;
    if (shape.stages() > static_cast<int>(graph.kernels.size()))
      return;
    // Several stages per rank or replicas need devices that are alike.
    if (!shape.isPlain() &&
        !areAlike(*space.cluster,
                  static_cast<size_t>(shape.ranks) * shape.replicas))
      return;
    std::vector<ScheduleChoice> schedules = shapes.schedulesFor(shape);
    if (schedules.empty())
      return;
    size_t plans = schedules.size() * space.checkpoints.size();
    if (cannotHelp(shape, shape.bound) ||
        (!result.candidates.empty() && shapes.isTooLarge(shape))) {
      result.pruned += plans;
      return;
    }
    auto cut = cuts.find(shape, Placement::OnePerRank, objective);
    if (!cut) {
      result.failures.push_back(cut.error());
      return;
    }
    if (objective != Objective::Time &&
        cut->stageOf ==
            cuts.find(shape, Placement::OnePerRank, Objective::Time)->stageOf)
      return;
    for (const ScheduleChoice &schedule : schedules) {
      // A pipeline of one stage has nothing to choose.
      if (shape.stages() == 1 && schedule.name != "gpipe" &&
          schedule.name != "1f1b" && schedule.name != "inference")
        continue;
      Cut placed = *cuts.find(shape, schedule.placement, objective);
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
      else if (searched++ < space.searches && !isOutOfTime())
        tryPlans(order.shape, order.cut, order.schedule);
      else
        ++result.unsearched;
    }
  }

  /// Stages with replicas of unequal numbers on all devices, as the partition
  /// finds them for each number of stages.
  void searchStageReplicas() {
    constexpr int mostStages = 8;
    int devices = static_cast<int>(space.cluster->devices.size());
    bool isWanted = space.schedules.empty() ||
                    std::find(space.schedules.begin(), space.schedules.end(),
                              "1f1b") != space.schedules.end();
    if (!space.replicate || !space.training || !isWanted ||
        space.maxRanks > 0 || space.minRanks > devices ||
        !areAlike(*space.cluster, space.cluster->devices.size()))
      return;
    for (size_t graph = 0; graph < space.graphs.size(); ++graph)
      for (int stages = 2; stages < std::min(devices, mostStages); ++stages) {
        if (isOutOfTime())
          return;
        if (auto cut = cuts.findReplicated(graph, stages))
          tryStageReplicas(graph, *cut);
      }
  }

  void tryStageReplicas(size_t graph, const Cut &cut) {
    std::vector<int> counts;
    for (const std::vector<size_t> &list : cut.devices)
      counts.push_back(static_cast<int>(list.size()));
    auto schedule =
        dealtSchedule("1f1b", counts, space.graphs[graph].microbatches);
    bool areEqual =
        std::equal(counts.begin() + 1, counts.end(), counts.begin());
    if (areEqual || !schedule)
      return;
    for (CheckpointMode mode :
         {CheckpointMode::Never, CheckpointMode::Always}) {
      if (std::find(space.checkpoints.begin(), space.checkpoints.end(), mode) ==
          space.checkpoints.end())
        continue;
      PlanShape shape;
      shape.graph = graph;
      PlanDraft draft = draftOf(shape, cut, mode);
      draft.schedule = *schedule;
      auto evaluation = evaluatePlan(draft);
      if (!evaluation) {
        result.failures.push_back("1f1b: " + evaluation.error());
        return;
      }
      add(std::move(draft), *evaluation, graph, cut, "1f1b");
      if (!evaluation->overflow)
        return;
    }
  }

  void add(PlanDraft draft, const PlanEvaluation &evaluation, size_t graph,
           const Cut &cut, std::string name) {
    PlanCandidate &candidate = result.candidates.emplace_back();
    candidate.plan = makePlan(draft, evaluation, space.batch, std::move(name));
    candidate.graph = graph;
    candidate.draft = std::move(draft);
    candidate.overflow = evaluation.overflow;
    candidate.partitionGap = cut.gap;
    candidate.partitionExact = cut.exact;
  }

  /// With the least recomputation that fits into the memory: more only adds
  /// work.
  void tryPlans(const PlanShape &shape, const Cut &cut,
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

  PlanDraft draftOf(const PlanShape &shape, const Cut &cut,
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
  bool tryPlan(const PlanShape &shape, const Cut &cut,
               const ScheduleChoice &schedule, CheckpointMode checkpoint) {
    auto candidate = evaluate(shape, cut, schedule, checkpoint);
    if (!candidate)
      return false;
    bool overflows = candidate->overflow.has_value();
    if (overflows && shape.stages() > 1 && !shapes.isTooLarge(shape)) {
      // The slots of the plan that is too large are a good guess.
      auto smaller =
          cuts.find(shape, schedule.placement, Objective::Time, lastSlots);
      if (smaller && smaller->stageOf != cut.stageOf) {
        searchedSchedule.reset();
        if (auto other = evaluate(shape, *smaller, schedule, checkpoint);
            other && !other->overflow)
          candidate = std::move(other);
        searchedSchedule.reset();
      }
    }
    if (!candidate->overflow)
      for (double *best : {&fastest, &fastestOfKind[kindOf(shape)]})
        *best = *best == 0 ? candidate->plan.predicted.step
                           : std::min(*best, candidate->plan.predicted.step);
    result.candidates.push_back(std::move(*candidate));
    return overflows;
  }

  std::optional<PlanCandidate> evaluate(const PlanShape &shape, const Cut &cut,
                                        const ScheduleChoice &choice,
                                        CheckpointMode checkpoint) {
    PlanDraft draft = draftOf(shape, cut, checkpoint);
    auto outlined = outline(shape, choice.placement);
    if (!outlined)
      return std::nullopt;
    draft.schedule = std::move(*outlined);
    if (space.training && cannotHelp(shape, stepLowerBound(draft))) {
      ++result.pruned;
      return std::nullopt;
    }
    PipelineShape pipeline{shape.stages(), draft.schedule.microbatches,
                           shape.ranks};
    std::string name = choice.name;
    if (choice.name == "auto") {
      if (!searchedSchedule)
        searchedSchedule = searchAutomatically(draft, pipeline);
      if (!*searchedSchedule)
        return std::nullopt;
      draft.schedule = (*searchedSchedule)->schedule;
      name = (*searchedSchedule)->name;
    } else {
      auto schedule = makeSchedule(choice.name, pipeline);
      if (!schedule)
        return std::nullopt;
      draft.schedule = *schedule;
    }
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
    candidate.assumesAlikeLinks = cut.assumesAlikeLinks;
    return candidate;
  }

  /// Ranks without actions.
  std::optional<Schedule> outline(const PlanShape &shape,
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

  double boundOf(const PlanShape &shape, const Cut &cut,
                 Placement placement) const {
    PlanDraft draft = draftOf(shape, cut, CheckpointMode::Never);
    auto outlined = outline(shape, placement);
    if (!outlined || !space.training)
      return 0;
    draft.schedule = std::move(*outlined);
    return stepLowerBound(draft);
  }

  /// Shapes that are partitioned for FlushLatency too, and the most ideals
  /// times stages.
  static constexpr size_t flushedShapes = 4, flushedSize = 8'000;

  /// One device, replicas, a pipeline, replicas of it. Users are told the best
  /// of each.
  static size_t kindOf(const PlanShape &shape) {
    return 2 * (shape.ranks > 1) + (shape.replicas > 1);
  }
  /// Whether a plan that takes `bound` or more is not the best of its kind.
  bool cannotHelp(const PlanShape &shape, double bound) const {
    double best = fastestOfKind[kindOf(shape)];
    return best > 0 && bound >= best;
  }

  const PlanSpace &space;
  PlanShapes shapes;
  ShapeCuts cuts;
  PlanSearchResult result;
  std::vector<OrderSearch> orders;
  /// Steps of the best plans that fit; 0: none is known.
  double fastest = 0;
  std::array<double, 4> fastestOfKind = {};
  std::vector<int> lastSlots;
  /// What was found for the cut at hand: recomputation does not change it.
  std::optional<Result<AutomaticSchedule>> searchedSchedule;
};

} // namespace

Result<PlanSearchResult> pp::planner::searchPlans(const PlanSpace &space) {
  if (auto fault = checkSpace(space))
    return Failure{*fault};
  return Searcher(space).run();
}
