//===- GraphPartitioner.cpp - Cut a graph of kernels into stages ----------===//
#include "pp/Planner/Partition/GraphPartitioner.h"
#include "../Infinity.h"
#include "CommunicationBound.h"
#include "Evaluate.h"
#include "Heuristic.h"
#include "MinMaxChain.h"
#include "UnequalLinks.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

using namespace pp::planner;
using namespace pp::planner::partition;

namespace {

/// With more ideals than this, a bound from topological orders pays off.
constexpr size_t manyIdeals = 2000;
/// Ideals times states; 32 bytes each where nothing can be left out.
constexpr double mostCells = 1e8;

class Partitioner {
public:
  explicit Partitioner(const PartitionProblem &problem)
      : problem(problem), model(problem), chooser(model),
        reversed(countsFromLast()), budget(problem.limits) {}

  Result<PartitionSolution> run() {
    if (!problem.cuts.empty())
      return useCuts();
    bool demands = problem.exactStageCount || problem.useAllDevices;
    if (mayRemoveStages()) {
      // Counts are met in passing, as a rule. If not, what the kernels without
      // cost could fill must be searched too.
      GroupGraph simple =
          *GroupGraph::build(model, GroupGraph::Simplify::Lossless);
      if (std::optional<PartitionSolution> light = searchWithoutBytes(simple))
        return std::move(*light);
      search(simple, /*exactCounts=*/false);
      if (plan && (!demands || meetsDemands()))
        return finish(simple);
      if (!plan && isProved)
        return explain(simple);
    }
    GroupGraph whole = *GroupGraph::build(model, GroupGraph::Simplify::No);
    search(whole, demands);
    if (!plan)
      return explain(whole);
    return finish(whole);
  }

private:
  /// What is best if kernels that take no time keep no bytes is best if it fits
  /// with them, and there are far fewer ideals. Nothing if it does not fit.
  std::optional<PartitionSolution>
  searchWithoutBytes(const GroupGraph &simple) {
    if (!model.needsMemory || model.hasChoices ||
        problem.objective == Objective::Memory)
      return std::nullopt;
    GroupGraph light =
        *GroupGraph::build(model, GroupGraph::Simplify::WithoutBytes);
    if (light.groups.size() == simple.groups.size())
      return std::nullopt;
    search(light, /*exactCounts=*/false, /*exactOnly=*/true);
    bool demands = problem.exactStageCount || problem.useAllDevices;
    if (!plan || !isProved || (demands && !meetsDemands()))
      return std::nullopt;
    PartitionSolution solution = finish(light);
    for (size_t s = 0; s < solution.stages.size(); ++s)
      if (lacksMemory(solution, s))
        return std::nullopt;
    return solution;
  }

  bool isPositional() const {
    const std::vector<int> &table = problem.memory.inFlight;
    return model.needsMemory &&
           std::adjacent_find(table.begin(), table.end(),
                              std::not_equal_to<>()) != table.end();
  }

  /// Stages must be placed from the last one where their memory depends on
  /// what comes after.
  bool countsFromLast() const {
    return model.needsMemory &&
           (problem.memory.rule == InFlightRule::Replicas ||
            (problem.memory.rule == InFlightRule::FromLast && isPositional()));
  }

  /// True if no other stage gets worse when one is taken out.
  bool mayRemoveStages() const {
    for (const Kernel &kernel : problem.graph->kernels)
      if (kernel.stageHint)
        return false;
    return !isPositional() || (problem.memory.rule == InFlightRule::FromLast &&
                               std::is_sorted(problem.memory.inFlight.begin(),
                                              problem.memory.inFlight.end()));
  }

  bool meetsDemands() const {
    size_t devices = 0;
    for (const StagePlan &stage : plan->stages)
      devices +=
          static_cast<size_t>(model.modes[stage.mode].degree) * stage.replicas;
    return (!problem.exactStageCount ||
            plan->stages.size() == model.maxStages) &&
           (!problem.useAllDevices ||
            devices == problem.cluster->devices.size());
  }

  /// The least value of all plans whose largest stage costs at least `least`.
  static double valueBound(const CostModel &model, const GroupGraph &graph,
                           double least = 0) {
    least = std::max(least,
                     graph.totalWeight / static_cast<double>(model.maxDevices));
    double sum = 0;
    for (const Group &group : graph.groups) {
      least = std::max(least, group.least);
      sum += group.least;
    }
    return model.value(least, sum);
  }

  /// Sets plan, method, ideals, lowerBound and isProved. isProved without a
  /// plan says that there is none. `exactOnly`: nothing if there are too many
  /// ideals.
  void search(const GroupGraph &graph, bool exactCounts,
              bool exactOnly = false) {
    plan.reset();
    isProved = false;
    lowerBound = std::max(lowerBound, valueBound(model, graph));
    budget.progress.lowerBound = lowerBound;
    std::optional<Lattice> lattice;
    if (problem.limits.ideals > 0) {
      if (graph.isChain()) {
        std::vector<uint32_t> order(graph.groups.size());
        std::iota(order.begin(), order.end(), 0);
        lattice = Lattice::chain(order, reversed);
        method = "chain";
      } else {
        lattice = Lattice::all(graph, reversed, problem.limits.ideals);
        method = "ideals";
        if (lattice &&
            countStates(model) * static_cast<double>(lattice->size()) >
                mostCells)
          lattice.reset();
      }
    }
    ideals = lattice ? lattice->size() : 0;
    if (!lattice && exactOnly)
      return;
    if (!lattice) {
      method = "heuristic";
      addCommunicationBound(graph);
      plan = searchHeuristically(model, chooser, graph, reversed, exactCounts,
                                 problem.limits.rounds, budget);
      if (budget.isOut())
        stopped = budget.stop();
      if (!plan && stopped != SearchStop::None)
        plan = searchCoarsely(model, chooser, graph, reversed, exactCounts);
      return;
    }
    double bound = std::numeric_limits<double>::infinity();
    std::optional<Plan> start;
    if (method == "ideals" && lattice->size() > manyIdeals) {
      // Rounds of improvement would take longer than the search that follows.
      start = searchHeuristically(model, chooser, graph, reversed, exactCounts,
                                  /*rounds=*/0, budget);
      if (start)
        bound = start->value;
    }
    if (method == "chain")
      bound = balancedChain(graph);
    // What is not proven in half of the time is better improved in the rest.
    PartitionLimits limits = budget.half();
    SearchBudget half(limits);
    half.progress = budget.progress;
    IdealSearch search(model, chooser, graph, *lattice, half);
    plan = search.run(exactCounts, bound);
    budget.spend(half.steps());
    if (half.stop() == SearchStop::None) {
      if (!plan)
        plan = std::move(start);
      isProved = search.isExact();
      if (isProved && plan)
        lowerBound = plan->value;
      return;
    }
    stopped = half.stop();
    method = "heuristic";
    addCommunicationBound(graph);
    auto keepBetter = [&](std::optional<Plan> other) {
      if (other && (!plan || other->value < plan->value))
        plan = std::move(other);
    };
    keepBetter(std::move(start));
    keepBetter(searchHeuristically(model, chooser, graph, reversed, exactCounts,
                                   problem.limits.rounds, budget));
    if (!plan)
      plan = searchCoarsely(model, chooser, graph, reversed, exactCounts);
  }

  void addCommunicationBound(const GroupGraph &graph) {
    lowerBound = std::max(
        lowerBound, valueBound(model, graph, communicationBound(model, graph)));
    budget.progress.lowerBound = lowerBound;
  }

  /// The value of the cut of a chain that balances times alone; infinite if it
  /// is no answer to the problem. A bound above the optimum spares rounds.
  double balancedChain(const GroupGraph &graph) {
    size_t parts = std::min(model.maxStages, graph.groups.size());
    if (model.modes.size() != 1 || problem.replicate || model.hasChoices ||
        model.needsMemory ||
        (problem.exactStageCount && parts < model.maxStages))
      return infinity;
    std::vector<double> weights;
    for (const Group &group : graph.groups) {
      if (group.stageHint >= 0)
        return infinity;
      weights.push_back(group.weight);
    }
    std::vector<size_t> boundaries = cutMinMax(weights, parts);
    Plan cut;
    for (size_t s = 0; s < parts; ++s) {
      StagePlan stage;
      for (size_t g = boundaries[s]; g < boundaries[s + 1]; ++g)
        stage.groups.push_back(static_cast<uint32_t>(g));
      cut.stages.push_back(std::move(stage));
    }
    std::optional<Plan> kept = std::exchange(plan, std::move(cut));
    double value = finish(graph).value;
    plan = std::move(kept);
    return value;
  }

  Result<PartitionSolution> useCuts() {
    PartitionSolution solution;
    solution.method = "cuts";
    solution.stages.resize(problem.cuts.size() + 1);
    int stage = 0;
    for (size_t k = 0; k < problem.graph->kernels.size(); ++k) {
      if (static_cast<size_t>(stage) < problem.cuts.size() &&
          problem.cuts[stage] == k)
        ++stage;
      solution.stageOf.push_back(stage);
      solution.stages[stage].kernels.push_back(k);
      solution.stages[stage].devices = {static_cast<size_t>(stage)};
    }
    solution.variantOf.assign(solution.stageOf.size(), 0);
    std::vector<int> inFlight = inFlightPerStage(model, solution);
    for (size_t s = 0; s < solution.stages.size(); ++s)
      for (size_t mode = 0; mode < model.modes.size(); ++mode) {
        const std::vector<size_t> &members =
            model.classes[model.modes[mode].deviceClass].members;
        if (model.modes[mode].degree == 1 &&
            std::binary_search(members.begin(), members.end(), s))
          chooseVariants(solution, s, mode, inFlight[s]);
      }
    evaluate(model, solution);
    for (size_t s = 0; s < solution.stages.size(); ++s)
      if (std::optional<std::string> fault = lacksMemory(solution, s))
        return Failure{*fault};
    GroupGraph whole = *GroupGraph::build(model, GroupGraph::Simplify::No);
    solution.lowerBound = std::min(valueBound(model, whole), solution.value);
    return solution;
  }

  std::optional<std::string> lacksMemory(const PartitionSolution &solution,
                                         size_t s) const {
    const PlannedStage &stage = solution.stages[s];
    const Device &device = problem.cluster->devices[stage.devices.front()];
    if (!problem.limitMemory ||
        stage.memoryBytes <= static_cast<double>(device.memoryBytes))
      return std::nullopt;
    return "stage " + std::to_string(s) + " needs " +
           std::to_string(std::llround(stage.memoryBytes)) +
           " bytes; device '" + device.name + "' has " +
           std::to_string(device.memoryBytes);
  }

  /// The fastest variants, or the fastest that fit.
  void chooseVariants(PartitionSolution &solution, size_t s, size_t mode,
                      int inFlight) const {
    const std::vector<size_t> &kernels = solution.stages[s].kernels;
    Load load;
    for (size_t kernel : kernels) {
      std::vector<Choice> choices = model.choices(kernel, model.modes[mode]);
      solution.variantOf[kernel] = choices.front().variant;
      load.add(choices.front().load);
    }
    if (!model.hasChoices || problem.objective == Objective::Memory ||
        model.fits(model.modes[mode], model.memory(load, inFlight)))
      return;
    bool isExact = true;
    std::optional<VariantChooser::Fit> fit =
        chooser.fastest(kernels, mode, inFlight, isExact);
    if (!fit)
      return;
    for (size_t i = 0; i < kernels.size(); ++i)
      solution.variantOf[kernels[i]] = fit->variants[i];
  }

  PartitionSolution finish(const GroupGraph &graph) const {
    PartitionSolution solution;
    solution.method = method;
    solution.ideals = ideals;
    solution.exact = isProved;
    solution.stopped = stopped;
    size_t n = problem.graph->kernels.size();
    solution.stageOf.assign(n, 0);
    solution.variantOf.assign(n, 0);
    for (size_t s = 0; s < plan->stages.size(); ++s)
      for (uint32_t group : plan->stages[s].groups)
        for (size_t kernel : graph.groups[group].kernels)
          solution.stageOf[kernel] = static_cast<int>(s);
    // What was freed last has its anchors in place.
    for (size_t i = graph.free.size(); i-- > 0;) {
      const FreeKernels &entry = graph.free[i];
      int stage = 0;
      for (size_t a = 0; a < entry.anchors.size(); ++a) {
        int other = solution.stageOf[entry.anchors[a]];
        stage = a == 0           ? other
                : entry.earliest ? std::min(stage, other)
                                 : std::max(stage, other);
      }
      for (size_t kernel : entry.kernels)
        solution.stageOf[kernel] = stage;
    }
    solution.stages.resize(plan->stages.size());
    for (size_t k = 0; k < n; ++k)
      solution.stages[solution.stageOf[k]].kernels.push_back(k);
    std::vector<size_t> used(model.classes.size(), 0);
    for (size_t s = 0; s < plan->stages.size(); ++s) {
      const StagePlan &source = plan->stages[s];
      const Mode &mode = model.modes[source.mode];
      PlannedStage &stage = solution.stages[s];
      stage.replicas = source.replicas;
      stage.degree = mode.degree;
      for (int d = 0; d < source.replicas * mode.degree; ++d)
        stage.devices.push_back(
            model.classes[mode.deviceClass].members[used[mode.deviceClass]++]);
      chooseVariants(solution, s, source.mode, source.inFlight);
    }
    evaluate(model, solution);
    // The search adds in another order.
    solution.lowerBound =
        isProved ? solution.value : std::min(lowerBound, solution.value);
    return solution;
  }

  Failure explain(const GroupGraph &graph) const {
    if (model.needsMemory && problem.limitMemory) {
      int64_t most = 0;
      for (const DeviceClass &candidate : model.classes)
        most = std::max(most, candidate.device.memoryBytes);
      for (const Group &group : graph.groups) {
        double least = std::numeric_limits<double>::infinity();
        for (const Load &load : group.leanest)
          least = std::min(least, model.memory(load, model.leastInFlight()));
        if (least > static_cast<double>(most))
          return {"not enough memory: kernel '" +
                  problem.graph->kernels[group.kernels.front()].name +
                  "' with all that must be in its stage needs " +
                  std::to_string(std::llround(least)) +
                  " bytes, the largest device has " + std::to_string(most)};
      }
    }
    std::string reason =
        problem.limitMemory ? "fits the memory of the devices" : "is possible";
    if (stopped != SearchStop::None)
      return {std::string("the limit of ") +
              (stopped == SearchStop::Time ? "time" : "steps") +
              " ended the search before it found a partition that " + reason +
              "; raise it"};
    if (!isProved)
      return {"the heuristic found no partition that " + reason +
              "; raise the limit on ideals to search all"};
    return {"no partition " + reason + " with " +
            (problem.exactStageCount ? "" : "at most ") +
            std::to_string(model.maxStages) + " stages on " +
            std::to_string(problem.cluster->devices.size()) +
            " devices and the stages that kernels want"};
  }

  const PartitionProblem &problem;
  CostModel model;
  VariantChooser chooser;
  bool reversed;
  SearchBudget budget;
  SearchStop stopped = SearchStop::None;

  std::optional<Plan> plan;
  std::string method;
  size_t ideals = 0;
  double lowerBound = 0;
  bool isProved = false;
};

} // namespace

Result<PartitionSolution>
pp::planner::partition::partitionAlike(const PartitionProblem &problem) {
  return Partitioner(problem).run();
}

Result<PartitionSolution>
pp::planner::partitionGraph(const PartitionProblem &problem) {
  if (std::optional<std::string> fault = check(problem))
    return Failure{*fault};
  // Cuts leave nothing to search: what they cost is known for any links.
  if (problem.cuts.empty() && CostModel(problem).linksDiffer)
    return partitionOnUnequalLinks(problem);
  return partitionAlike(problem);
}
