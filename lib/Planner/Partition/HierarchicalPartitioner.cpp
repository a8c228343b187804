//===- HierarchicalPartitioner.cpp - Pipelines inside pipelines -----------===//
#include "pp/Planner/Partition/HierarchicalPartitioner.h"
#include "../Infinity.h"
#include "Heuristic.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace pp::planner;
using namespace pp::planner::partition;

namespace {

constexpr size_t mostIdeals = 400;

/// Nested sets of groups, between which stages lie.
struct Borders {
  /// inside[j] lists the borders inside border j, from the largest.
  std::vector<std::vector<uint32_t>> inside;
  std::vector<double> crossing;             // Bytes.
  std::vector<double> time, parameterBytes; // Of all groups inside.

  size_t size() const { return inside.size(); }
};

struct Level {
  int units = 1;
  double bandwidth = 0;
  double devicesPerUnit = 1;
};

struct StageForm {
  PipeDreamForm form;
  double cost(const Level &level, int m, double inner, double parameterBytes,
              double before, double after, bool first) const {
    double seconds = parameterBytes / level.bandwidth / level.devicesPerUnit;
    before /= level.bandwidth;
    after /= level.bandwidth;
    if (form == PipeDreamForm::Code)
      return std::max({(inner + 4.0 * (m - 1) / m * seconds) / m, before / m,
                       first ? 0 : after / m});
    return std::max({inner / m, 2.0 * (m - 1) * seconds / m, before});
  }
};

class HierarchySearch {
public:
  HierarchySearch(const PartitionProblem &problem,
                  const std::vector<Level> &levels, const Borders &borders)
      : problem(problem), levels(levels), borders(borders), form{problem.form} {
  }

  double run() {
    size_t n = borders.size();
    // The best value of each pair of borders on one unit of a level.
    std::vector<double> unit(n * n, infinity);
    for (size_t j = 0; j < n; ++j)
      for (uint32_t i : borders.inside[j])
        unit[i * n + j] = borders.time[j] - borders.time[i];
    values.push_back(std::move(unit));
    for (size_t l = 0; l < levels.size(); ++l)
      values.push_back(solveLevel(l, l + 1 == levels.size()));
    return values.back()[n - 1];
  }

  struct Stage {
    uint32_t begin, end;
    int replicas;
    double cost;
    std::vector<Stage> inner;
  };

  /// The stages of the best pipeline of level `l` between two borders.
  std::vector<Stage> stages(size_t l, uint32_t begin, uint32_t end) {
    std::vector<double> best;
    std::vector<Step> from;
    solveFrom(l, begin, best, from);
    size_t width = levels[l].units + 1;
    size_t units = bestUnits(l, &best[end * width]);
    std::vector<Stage> result;
    uint32_t at = end;
    while (at != begin) {
      const Step &step = from[at * width + units];
      Stage stage = {step.border,
                     at,
                     step.replicas,
                     stageCost(l, begin, step.border, at, step.replicas),
                     {}};
      if (l > 0)
        stage.inner = stages(l - 1, stage.begin, stage.end);
      at = step.border;
      units -= step.replicas;
      result.push_back(std::move(stage));
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

private:
  struct Step {
    uint32_t border = 0;
    int replicas = 0;
  };

  size_t bestUnits(size_t l, const double *row) const {
    size_t all = levels[l].units, best = all;
    for (size_t m = 1; m <= all && !problem.useAllDevices; ++m)
      if (row[m] < row[best])
        best = m;
    return best;
  }

  double stageCost(size_t l, uint32_t begin, uint32_t i, uint32_t j,
                   int m) const {
    return form.cost(levels[l], m, values[l][i * borders.size() + j],
                     borders.parameterBytes[j] - borders.parameterBytes[i],
                     // Nothing of this pipeline lies before its begin; what
                     // crosses there is the business of the level above.
                     i == begin ? 0 : borders.crossing[i], borders.crossing[j],
                     i == begin);
  }

  /// best[j][m]: kernels from `begin` to j on exactly m units.
  void solveFrom(size_t l, uint32_t begin, std::vector<double> &best,
                 std::vector<Step> &from) const {
    size_t n = borders.size(), width = levels[l].units + 1;
    best.assign(n * width, infinity);
    from.assign(n * width, {});
    best[begin * width] = 0;
    for (uint32_t j = begin + 1; j < n; ++j)
      for (uint32_t i : borders.inside[j]) {
        if (best[i * width] == infinity && !isReached(best, i, width))
          continue;
        for (int m = 1; m <= levels[l].units; ++m) {
          double cost = stageCost(l, begin, i, j, m);
          for (size_t used = 0; used + m < width; ++used) {
            double value = std::max(best[i * width + used], cost);
            if (value < best[j * width + used + m]) {
              best[j * width + used + m] = value;
              from[j * width + used + m] = {i, m};
            }
          }
        }
      }
  }

  static bool isReached(const std::vector<double> &best, size_t i,
                        size_t width) {
    return std::any_of(best.begin() + i * width, best.begin() + (i + 1) * width,
                       [](double value) { return value < infinity; });
  }

  std::vector<double> solveLevel(size_t l, bool outermost) const {
    size_t n = borders.size(), width = levels[l].units + 1;
    std::vector<double> result(n * n, infinity), best;
    std::vector<Step> from;
    for (uint32_t begin = 0; begin < (outermost ? 1 : n); ++begin) {
      solveFrom(l, begin, best, from);
      for (size_t j = begin + 1; j < n; ++j) {
        const double *row = &best[j * width];
        result[begin * n + j] = row[bestUnits(l, row)];
      }
    }
    return result;
  }

  const PartitionProblem &problem;
  const std::vector<Level> &levels;
  const Borders &borders;
  StageForm form;
  std::vector<std::vector<double>> values; // Per level, from devices.
};

Borders measure(const GroupGraph &graph, const Lattice &lattice,
                const CostModel &model) {
  Borders borders;
  size_t n = lattice.size();
  borders.inside.resize(n);
  borders.crossing.assign(n, 0);
  borders.time.assign(n, 0);
  borders.parameterBytes.assign(n, 0);
  std::vector<std::vector<bool>> member(
      n, std::vector<bool>(graph.groups.size(), false));
  for (size_t j = 1; j < n; ++j) {
    const Lattice::Step &step = *lattice.down(j);
    member[j] = member[step.ideal];
    member[j][step.group] = true;
    const Load &load = graph.groups[step.group].fastest.front();
    borders.time[j] = borders.time[step.ideal] + load.time;
    borders.parameterBytes[j] =
        borders.parameterBytes[step.ideal] + load.parameterBytes;
    std::set<uint32_t, std::greater<>> below;
    for (const Lattice::Step *s = lattice.down(j); s != lattice.downEnd(j);
         ++s) {
      below.insert(s->ideal);
      below.insert(borders.inside[s->ideal].begin(),
                   borders.inside[s->ideal].end());
    }
    borders.inside[j].assign(below.begin(), below.end());
    for (const Net &net : graph.nets) {
      size_t inside =
          std::count_if(net.pins.begin(), net.pins.end(),
                        [&](uint32_t pin) { return member[j][pin]; });
      if (inside > 0 && inside < net.pins.size())
        borders.crossing[j] += net.crossing * model.link.bandwidth;
    }
  }
  return borders;
}

std::vector<Level> levelsOf(const std::vector<Cluster::Level> &levels) {
  std::vector<Level> result;
  double devices = 1;
  for (const Cluster::Level &level : levels) {
    result.push_back(
        {static_cast<int>(level.members), level.link.bandwidth, devices});
    devices *= static_cast<double>(level.members);
  }
  return result;
}

std::optional<std::string> checkHierarchy(const PartitionProblem &problem) {
  if (std::optional<std::string> fault = check(problem))
    return fault;
  if (problem.objective != Objective::PipeDream || !problem.replicate)
    return "levels are planned for the objective pipedream with replication";
  if (problem.limitMemory || problem.maxStages || problem.exactStageCount ||
      !problem.cuts.empty())
    return "limits of memory or stages and cuts are not supported with levels";
  for (const Kernel &kernel : problem.graph->kernels)
    if (kernel.stageHint || !kernel.variants.empty())
      return "kernel '" + kernel.name +
             "' has a hint or variants, which are not supported with levels";
  if (!problem.cluster->levels())
    return "the cluster is not a regular tree of groups";
  CostModel model(problem);
  if (model.classes.size() != 1 || !model.classes[0].device.communicates)
    return "levels need equal devices";
  return std::nullopt;
}

std::vector<HierarchicalStage>
describe(const std::vector<HierarchySearch::Stage> &stages,
         const GroupGraph &graph, const Lattice &lattice) {
  std::vector<HierarchicalStage> result;
  for (const HierarchySearch::Stage &stage : stages) {
    HierarchicalStage entry;
    for (uint32_t group : lattice.difference(stage.end, stage.begin))
      entry.kernels.insert(entry.kernels.end(),
                           graph.groups[group].kernels.begin(),
                           graph.groups[group].kernels.end());
    std::sort(entry.kernels.begin(), entry.kernels.end());
    entry.replicas = stage.replicas;
    entry.cost = stage.cost;
    entry.inner = describe(stage.inner, graph, lattice);
    result.push_back(std::move(entry));
  }
  return result;
}

} // namespace

Result<HierarchicalSolution>
pp::planner::partitionHierarchically(const PartitionProblem &problem) {
  if (std::optional<std::string> fault = checkHierarchy(problem))
    return Failure{*fault};
  CostModel model(problem);
  std::vector<Level> levels = levelsOf(*problem.cluster->levels());
  GroupGraph graph = *GroupGraph::build(model, GroupGraph::Simplify::No);
  HierarchicalSolution solution;
  double devices = static_cast<double>(problem.cluster->devices.size());
  solution.lowerBound = graph.totalWeight / devices;
  for (const Group &group : graph.groups)
    solution.lowerBound = std::max(solution.lowerBound, group.least);
  std::vector<Lattice> lattices;
  if (std::optional<Lattice> all =
          Lattice::all(graph, /*reversed=*/false, mostIdeals)) {
    solution.ideals = all->size();
    solution.exact = true;
    lattices.push_back(std::move(*all));
  } else {
    for (const std::vector<uint32_t> &order : topologicalOrders(graph))
      lattices.push_back(Lattice::chain(order, /*reversed=*/false));
  }
  solution.value = infinity;
  for (const Lattice &lattice : lattices) {
    Borders borders = measure(graph, lattice, model);
    HierarchySearch search(problem, levels, borders);
    double value = search.run();
    if (value >= solution.value)
      continue;
    solution.value = value;
    solution.stages =
        describe(search.stages(levels.size() - 1, 0,
                               static_cast<uint32_t>(lattice.size() - 1)),
                 graph, lattice);
  }
  if (solution.stages.empty())
    return Failure{"the kernels cannot be cut into enough stages to use all "
                   "devices"};
  if (solution.exact)
    solution.lowerBound = solution.value;
  return solution;
}

namespace {

/// Recomputes a pipeline of one level; a fault stays in `fault`.
class Recompute {
public:
  Recompute(const PartitionProblem &problem, const std::vector<Level> &levels)
      : problem(problem), graph(*problem.graph), levels(levels),
        place(graph.kernels.size(), 0) {}

  std::optional<std::string> fault;

  double pipeline(size_t l, const std::vector<HierarchicalStage> &stages,
                  const std::vector<size_t> &kernels) {
    int units = 0;
    double value = 0;
    std::vector<size_t> listed;
    for (const HierarchicalStage &stage : stages) {
      listed.insert(listed.end(), stage.kernels.begin(), stage.kernels.end());
      units += stage.replicas;
      if (stage.kernels.empty() || stage.replicas < 1)
        fault = "a stage is empty";
    }
    std::sort(listed.begin(), listed.end());
    if (listed != kernels)
      fault = "the stages of a pipeline do not hold its kernels once each";
    if (problem.useAllDevices ? units != levels[l].units
                              : units > levels[l].units)
      fault = "a pipeline uses " + std::to_string(units) + " units of " +
              std::to_string(levels[l].units);
    if (fault)
      return 0;
    // What lies before this pipeline is 0, after it the last.
    std::set<size_t> own(kernels.begin(), kernels.end());
    for (size_t s = 0; s < stages.size(); ++s) {
      std::set<size_t> done, upTo;
      for (size_t before = 0; before <= s; ++before) {
        const std::vector<size_t> &list = stages[before].kernels;
        upTo.insert(list.begin(), list.end());
        if (before < s)
          done.insert(list.begin(), list.end());
      }
      done.insert(earlier.begin(), earlier.end());
      upTo.insert(earlier.begin(), earlier.end());
      double time = 0, parameters = 0;
      for (size_t kernel : stages[s].kernels) {
        parameters += static_cast<double>(graph.kernels[kernel].parameterBytes);
        time += graph.kernels[kernel].timeOn(problem.cluster->devices[0].kind,
                                             problem.cluster->devices[0].speed);
      }
      if (l > 0) {
        std::set<size_t> outer = std::exchange(earlier, done);
        time = pipeline(l - 1, stages[s].inner, stages[s].kernels);
        earlier = std::move(outer);
        if (fault)
          return 0;
      } else if (!stages[s].inner.empty()) {
        fault = "a stage on devices has a pipeline inside";
        return 0;
      }
      double cost = StageForm{problem.form}.cost(
          levels[l], stages[s].replicas, time, parameters,
          s == 0 ? 0 : crossing(done), crossing(upTo), s == 0);
      if (std::abs(cost - stages[s].cost) > 1e-9 * std::max(cost, 1e-300))
        fault = "the cost of a stage is wrong";
      value = std::max(value, cost);
    }
    return value;
  }

private:
  double crossing(const std::set<size_t> &inside) const {
    double bytes = 0;
    for (const Value &value : graph.values) {
      size_t count = inside.count(value.producer);
      for (size_t consumer : value.consumers)
        count += inside.count(consumer);
      if (count > 0 && count <= value.consumers.size())
        bytes += static_cast<double>(value.bytes) +
                 static_cast<double>(value.gradientBytes);
    }
    return bytes;
  }

  const PartitionProblem &problem;
  const Graph &graph;
  const std::vector<Level> &levels;
  std::vector<size_t> place;
  std::set<size_t> earlier;
};

void placeStages(const std::vector<HierarchicalStage> &stages,
                 std::vector<int> &place, int &next) {
  for (const HierarchicalStage &stage : stages) {
    if (!stage.inner.empty()) {
      placeStages(stage.inner, place, next);
      continue;
    }
    for (size_t kernel : stage.kernels)
      place[kernel] = next;
    ++next;
  }
}

bool isInRange(const std::vector<HierarchicalStage> &stages, size_t kernels) {
  return std::all_of(
      stages.begin(), stages.end(), [&](const HierarchicalStage &stage) {
        return std::all_of(stage.kernels.begin(), stage.kernels.end(),
                           [&](size_t kernel) { return kernel < kernels; }) &&
               isInRange(stage.inner, kernels);
      });
}

} // namespace

std::optional<std::string>
pp::planner::verify(const PartitionProblem &problem,
                    const HierarchicalSolution &solution) {
  if (std::optional<std::string> fault = checkHierarchy(problem))
    return fault;
  const std::vector<Kernel> &kernels = problem.graph->kernels;
  if (!isInRange(solution.stages, kernels.size()))
    return "a stage has a kernel that does not exist";
  std::vector<Level> levels = levelsOf(*problem.cluster->levels());
  std::vector<size_t> all(kernels.size());
  for (size_t k = 0; k < all.size(); ++k)
    all[k] = k;
  Recompute recompute(problem, levels);
  double value = recompute.pipeline(levels.size() - 1, solution.stages, all);
  if (recompute.fault)
    return recompute.fault;
  std::vector<int> place(kernels.size(), 0);
  int next = 0;
  placeStages(solution.stages, place, next);
  for (auto [before, after] : orderEdges(*problem.graph))
    if (place[before] > place[after])
      return "kernel '" + kernels[before].name +
             "' is in a later stage than '" + kernels[after].name +
             "', which comes after it";
  for (size_t a = 0; a < kernels.size(); ++a)
    for (size_t b = 0; b < a && kernels[a].colocationClass >= 0; ++b)
      if (kernels[a].colocationClass == kernels[b].colocationClass &&
          place[a] != place[b])
        return "kernels '" + kernels[b].name + "' and '" + kernels[a].name +
               "' must be in one stage";
  if (std::abs(value - solution.value) > 1e-9 * value)
    return "the value is not that of the stages";
  if (solution.lowerBound > solution.value * (1 + 1e-9))
    return "the lower bound lies above the value";
  return std::nullopt;
}
