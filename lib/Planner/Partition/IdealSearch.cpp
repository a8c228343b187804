//===- IdealSearch.cpp - The best path through a lattice of ideals --------===//
#include "IdealSearch.h"
#include "../Infinity.h"
#include <algorithm>
#include <cmath>

using namespace pp::planner;
using namespace pp::planner::partition;

/// Sums are rounded; a bound must not exclude what equals it.
static constexpr double tolerance = 1 + 1e-9;

IdealSearch::IdealSearch(const CostModel &model, const VariantChooser &chooser,
                         const GroupGraph &graph, const Lattice &lattice,
                         SearchBudget &budget)
    : model(model), graph(graph), lattice(lattice), budget(budget),
      space(model), modes(model.modes.size()),
      flush(model.problem.objective == Objective::FlushLatency),
      hinted(model.hasHints), stage(model, chooser, graph) {
  // What adding and taking away transfers may leave of nothing.
  for (const Net &net : graph.nets)
    residue += 1e-14 * net.transfer;
  measureIdeals();
}

/// Every ideal but the empty one has a tree edge, its first step down.
void IdealSearch::measureIdeals() {
  size_t count = lattice.size();
  weight.assign(count, 0);
  leastSum.assign(count, 0);
  for (size_t i = 1; i < count; ++i) {
    const Lattice::Step &step = *lattice.down(i);
    weight[i] = weight[step.ideal] + graph.groups[step.group].weight;
    // In any stage a group adds at least this to the sum of all costs.
    leastSum[i] = leastSum[step.ideal] + graph.groups[step.group].least;
  }
  crossing.assign(count, 0);
  if (model.problem.objective != Objective::PipeDream)
    return;
  // Children of the tree, then a walk that counts pins inside.
  std::vector<std::vector<uint32_t>> children(count);
  for (uint32_t i = 1; i < count; ++i)
    children[lattice.down(i)->ideal].push_back(i);
  std::vector<std::pair<uint32_t, size_t>> stack = {{0, 0}};
  std::vector<uint32_t> inside(graph.nets.size(), 0);
  while (!stack.empty()) {
    auto &[ideal, next] = stack.back();
    if (next < children[ideal].size()) {
      uint32_t child = children[ideal][next++];
      double sum = crossing[ideal];
      for (uint32_t net : graph.groups[lattice.down(child)->group].nets) {
        ++inside[net];
        if (inside[net] == 1)
          sum += graph.nets[net].crossing;
        if (inside[net] == graph.nets[net].pins.size())
          sum -= graph.nets[net].crossing;
      }
      crossing[child] = std::max(sum, 0.0);
      stack.push_back({child, 0});
      continue;
    }
    if (ideal != 0)
      for (uint32_t net : graph.groups[lattice.down(ideal)->group].nets)
        --inside[net];
    stack.pop_back();
  }
  crossing.back() = 0;
}

double IdealSearch::lowestValue() const {
  double least = weight.back() / static_cast<double>(model.maxDevices);
  for (const Group &group : graph.groups)
    least = std::max(least, group.least);
  return least;
}

/// Which ideals can lie between two stages if no stage costs more than the
/// bound: the work on both sides needs devices.
void IdealSearch::findBorders(double bound) {
  size_t count = lattice.size();
  double total = weight.back();
  row.assign(count, -1);
  fewest.assign(count, 0);
  most.assign(count, static_cast<uint32_t>(model.maxDevices));
  most[0] = 0;
  int64_t cells = 0;
  for (size_t i = 0; i < count; ++i) {
    if (bound > 0 && bound < infinity) {
      double limit = static_cast<double>(model.maxDevices) + 1;
      double inside = std::min(std::ceil(weight[i] / bound - 1e-6), limit);
      double outside =
          std::min(std::ceil((total - weight[i]) / bound - 1e-6), limit);
      inside = std::max(inside, 0.0);
      outside = std::max(outside, 0.0);
      if (inside + outside > static_cast<double>(model.maxDevices))
        continue;
      fewest[i] = static_cast<uint32_t>(inside);
      most[i] = std::min(most[i], static_cast<uint32_t>(model.maxDevices) -
                                      static_cast<uint32_t>(outside));
    }
    row[i] = cells;
    cells += space.firstWith[most[i] + 1] - space.firstWith[fewest[i]];
  }
  reached.assign(count, {});
  if (keepsLabels) {
    labels.assign(cells, {});
    return;
  }
  best.assign(cells, infinity);
  from.assign(cells, {});
}

std::optional<Plan> IdealSearch::run(bool exactCounts, double bound) {
  wantsExactCounts = exactCounts;
  if (!flush)
    return runLargest(bound);
  if (bound == infinity) {
    // A plan with the least largest cost gives a bound for the sum as well.
    std::optional<Plan> plan = runLargest(infinity);
    if (!plan)
      return std::nullopt;
    std::optional<Plan> better = runFlush(plan->value);
    return better ? better : plan;
  }
  return runFlush(bound);
}

std::optional<Plan> IdealSearch::runLargest(double upper) {
  keepsLabels = false;
  double least = leastValue = lowestValue();
  double slack = 1.0 / 64;
  bool isFinal = upper < infinity && !flush;
  double limit = isFinal ? upper : least * (1 + slack);
  for (;;) {
    fill(limit);
    if (budget.stop() != SearchStop::None)
      return std::nullopt;
    double value = infinity;
    if (std::optional<size_t> state = bestFinalState(wantsExactCounts)) {
      value = best[cell(everything(), *state)];
      if (value <= limit * tolerance + residue || isFinal ||
          limit == infinity) {
        Plan plan = follow(*state, value);
        if (flush) {
          double sum = 0;
          for (const StagePlan &entry : plan.stages)
            sum += recompute(entry);
          plan.value = model.value(value, sum);
        }
        return plan;
      }
    }
    if (isFinal || limit == infinity)
      return std::nullopt;
    slack *= 2;
    // A value found above the limit is one that the optimum does not exceed.
    limit =
        least > 0 && slack < 1e6 ? std::min(least * (1 + slack), value) : value;
  }
}

std::optional<Plan> IdealSearch::runFlush(double upper) {
  keepsLabels = true;
  flushBound = upper * tolerance +
               residue * static_cast<double>(model.problem.microbatches +
                                             model.maxDevices);
  double m = model.problem.microbatches, sum = leastSum.back();
  // A stage of cost c makes a value of (m - 1) c + max(c, sum) at least.
  double limit = m > 1 ? (upper - sum) / (m - 1) : infinity;
  if (limit > sum)
    limit = std::max(sum, upper / m);
  fill(std::max(limit, 0.0));
  if (budget.stop() != SearchStop::None || row.back() < 0)
    return std::nullopt;
  const Label *wanted = nullptr, *any = nullptr;
  auto valueOf = [&](const Label *label) {
    return label ? model.value(label->largest, label->sum) : infinity;
  };
  for (uint32_t state : reached.back())
    for (const Label &label : labels[cell(everything(), state)]) {
      if (valueOf(&label) < valueOf(any))
        any = &label;
      if (isWanted(state) && valueOf(&label) < valueOf(wanted))
        wanted = &label;
    }
  const Label *found = wanted;
  if (!wantsExactCounts && valueOf(wanted) > valueOf(any) * tolerance)
    found = any;
  if (!found)
    return std::nullopt;
  double value = valueOf(found);
  Plan plan;
  plan.value = value;
  uint32_t ideal = static_cast<uint32_t>(lattice.size() - 1);
  const Label *label = found;
  while (ideal != 0) {
    plan.stages.push_back({lattice.difference(ideal, label->from.ideal),
                           label->from.mode, label->from.replicas,
                           label->from.inFlight});
    ideal = label->from.ideal;
    if (ideal != 0)
      label = &labels[cell(ideal, label->from.state)][label->from.label];
  }
  if (!lattice.reversed)
    std::reverse(plan.stages.begin(), plan.stages.end());
  return plan;
}

Plan IdealSearch::follow(size_t state, double value) const {
  Plan plan;
  plan.value = value;
  uint32_t ideal = static_cast<uint32_t>(lattice.size() - 1);
  while (ideal != 0) {
    const From &step = from[cell(ideal, state)];
    plan.stages.push_back({lattice.difference(ideal, step.ideal), step.mode,
                           step.replicas, step.inFlight});
    ideal = step.ideal;
    state = step.state;
  }
  if (!lattice.reversed)
    std::reverse(plan.stages.begin(), plan.stages.end());
  return plan;
}

bool IdealSearch::isWanted(size_t state) const {
  const PartitionProblem &problem = model.problem;
  return (!problem.exactStageCount ||
          space.states[state].stages == model.maxStages) &&
         (!problem.useAllDevices ||
          space.states[state].devices == problem.cluster->devices.size());
}

std::optional<size_t> IdealSearch::bestFinalState(bool exactCounts) const {
  if (row.back() < 0)
    return std::nullopt;
  std::optional<size_t> wanted, any;
  auto valueOf = [&](size_t state) { return best[cell(everything(), state)]; };
  for (uint32_t state : reached.back()) {
    if (!any || valueOf(state) < valueOf(*any))
      any = state;
    if (isWanted(state) && (!wanted || valueOf(state) < valueOf(*wanted)))
      wanted = state;
  }
  if (exactCounts)
    return wanted;
  return wanted && valueOf(*wanted) <= valueOf(*any) * tolerance ? wanted : any;
}

void IdealSearch::fill(double limit) {
  budget.progress.ideals = lattice.size();
  bound = limit * tolerance + residue;
  findBorders(bound);
  reached[0] = {0};
  if (keepsLabels)
    labels[0].push_back({0, 0, {}});
  else
    best[0] = 0;
  seen.assign(lattice.size(), 0);
  for (uint32_t top = 1; top < lattice.size(); ++top) {
    if (row[top] < 0)
      continue;
    budget.progress.done = top;
    walk(top);
    if (budget.stop() != SearchStop::None)
      return;
    for (uint32_t state = space.firstWith[fewest[top]];
         state < space.firstWith[most[top] + 1]; ++state)
      if (keepsLabels ? !labels[cell(top, state)].empty()
                      : best[cell(top, state)] < infinity)
        reached[top].push_back(state);
    if (reached[top].empty())
      row[top] = -1; // Nothing ends here.
  }
}

/// Visits every ideal inside `top` from which the stage top - ideal can cost
/// no more than the bound, once, adding one group at a time.
void IdealSearch::walk(uint32_t top) {
  frames.push_back({top, lattice.down(top)});
  while (!frames.empty()) {
    Frame &frame = frames.back();
    if (frame.next == lattice.downEnd(frame.ideal)) {
      frames.pop_back();
      if (!frames.empty())
        stage.undo();
      continue;
    }
    const Lattice::Step &step = *frame.next++;
    if (seen[step.ideal] == top)
      continue;
    seen[step.ideal] = top;
    if (!budget.spend(row[step.ideal] >= 0 ? 1 + reached[step.ideal].size()
                                           : 1)) {
      while (!stage.empty())
        stage.undo();
      frames.clear();
      return;
    }
    stage.add(step.group);
    if (!stage.canCost(bound)) {
      stage.undo();
      continue;
    }
    if (row[step.ideal] >= 0)
      relax(top, step.ideal);
    frames.push_back({step.ideal, lattice.down(step.ideal)});
  }
}

int IdealSearch::inFlightAfter(size_t state, int replicas) const {
  if (!model.needsMemory)
    return 1;
  const StateSpace::State &used = space.states[state];
  if (model.problem.memory.rule == InFlightRule::Replicas)
    return static_cast<int>((used.replicas + replicas + replicas - 1) /
                            replicas);
  return model.problem.memory.inFlightOf(used.stages);
}

void IdealSearch::meet(uint32_t top, size_t state, double largest, double sum,
                       const From &source) {
  size_t target = cell(top, state);
  if (!keepsLabels) {
    if (largest < best[target]) {
      best[target] = largest;
      from[target] = source;
    }
    return;
  }
  // Sorted by the largest cost, so the sums fall.
  std::vector<Label> &list = labels[target];
  auto place = std::lower_bound(
      list.begin(), list.end(), largest,
      [](const Label &label, double value) { return label.largest < value; });
  if (place != list.begin() && std::prev(place)->sum <= sum)
    return;
  if (place != list.end() && place->largest == largest && place->sum <= sum)
    return;
  auto last = place;
  while (last != list.end() && last->sum >= sum)
    ++last;
  place = list.erase(place, last);
  list.insert(place, {largest, sum, source});
}

/// `least` is what the stage costs at least, in every state.
void IdealSearch::relaxMode(uint32_t top, uint32_t inside, size_t mode,
                            int replicas, double least,
                            const Surroundings &around) {
  const Mode &how = model.modes[mode];
  const std::vector<uint32_t> &sources = reached[inside];
  size_t devices = static_cast<size_t>(replicas) * how.degree;
  auto tag = [&](size_t state, size_t label, int inFlight) {
    return From{inside,
                static_cast<uint32_t>(state),
                static_cast<uint32_t>(label),
                static_cast<uint16_t>(mode),
                static_cast<uint16_t>(replicas),
                inFlight};
  };
  if (space.isSimple && !keepsLabels && !model.needsMemory && !hinted) {
    size_t begin = std::max<size_t>(
        sources.front(), fewest[top] > devices ? fewest[top] - devices : 0);
    size_t end = most[top] >= devices
                     ? std::min<size_t>(sources.back(), most[top] - devices) + 1
                     : 0;
    if (begin >= end)
      return;
    size_t source = cell(inside, begin), target = cell(top, begin + devices);
    for (size_t i = 0; i < end - begin; ++i) {
      double value = std::max(best[source + i], least);
      if (value < best[target + i]) {
        best[target + i] = value;
        from[target + i] = tag(begin + i, 0, 1);
      }
    }
    return;
  }
  for (uint32_t state : sources) {
    size_t source = cell(inside, state);
    std::optional<size_t> next = space.next(state, how, replicas);
    if (!next || space.states[*next].devices < fewest[top] ||
        space.states[*next].devices > most[top])
      continue;
    if (stage.hint() >= 0) {
      size_t index = space.states[state].stages;
      if (lattice.reversed)
        index = model.maxStages - 1 - index;
      if (index != static_cast<size_t>(stage.hint()))
        continue;
    }
    if (!keepsLabels && std::max(best[source], least) >= best[cell(top, *next)])
      continue;
    int inFlight = inFlightAfter(state, replicas);
    double cost = least;
    if (model.needsMemory) {
      std::optional<CostParts> parts =
          stage.cost(mode, replicas, inFlight, around);
      if (!parts || parts->total > bound)
        continue;
      cost = parts->total;
    }
    if (!keepsLabels) {
      meet(top, *next, std::max(best[source], cost), 0,
           tag(state, 0, inFlight));
      continue;
    }
    const std::vector<Label> &list = labels[source];
    for (size_t i = 0; i < list.size(); ++i) {
      double largest = std::max(list[i].largest, cost);
      double sum = list[i].sum + cost;
      if (model.value(largest, sum + restLeast(top)) > flushBound)
        continue;
      meet(top, *next, largest, sum, tag(state, i, inFlight));
    }
  }
}

/// The cost of one stage of a plan, with the walk's own arithmetic.
double IdealSearch::recompute(const StagePlan &entry) {
  for (uint32_t group : entry.groups)
    stage.add(group);
  Surroundings around;
  around.communication = stage.communication();
  std::optional<CostParts> parts =
      stage.cost(entry.mode, entry.replicas, entry.inFlight, around);
  while (!stage.empty())
    stage.undo();
  return parts ? parts->total : infinity;
}

void IdealSearch::relax(uint32_t top, uint32_t inside) {
  Surroundings around;
  around.communication = stage.communication();
  bool topIsAll = top + 1 == lattice.size();
  around.cutBefore = crossing[lattice.reversed ? top : inside];
  around.cutAfter = crossing[lattice.reversed ? inside : top];
  around.first = lattice.reversed ? topIsAll : inside == 0;
  for (size_t mode = 0; mode < modes; ++mode) {
    if (stage.time(mode) == infinity)
      continue;
    const Mode &how = model.modes[mode];
    if (model.problem.objective == Objective::Memory) {
      relaxMode(top, inside, mode, 1, /*least=*/0, around);
      continue;
    }
    // Every cost is at least the share of the time.
    double time = stage.time(mode);
    int first = 1;
    if (time > bound)
      first = time < bound * how.maxReplicas
                  ? std::max(1, static_cast<int>(time / bound))
                  : how.maxReplicas;
    // More replicas help if they make the stage cheaper, down to what every
    // plan costs, unless devices must be used or memory depends on them.
    bool onlyCost = !model.needsMemory && !model.problem.useAllDevices;
    double cheapest = infinity;
    for (int m = first; m <= how.maxReplicas; ++m) {
      if (!model.allows(m))
        continue;
      double cost = model.cost(how, m, stage.load(mode), around).total;
      if (cost > bound || (onlyCost && cost >= cheapest))
        continue;
      relaxMode(top, inside, mode, m, cost, around);
      cheapest = cost;
      if (onlyCost && !keepsLabels && cost <= leastValue)
        break;
    }
  }
}
