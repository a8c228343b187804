//===- CommunicationBound.cpp - What transfers cost every partition -------===//
#include "CommunicationBound.h"
#include <algorithm>
#include <iterator>
#include <limits>

using namespace pp::planner;
using namespace pp::planner::partition;

static constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {

/// The least `transfers` c(S) + `work` w(S) over the sets S with a group: a cut
/// between the group and a sink that every group is tied to by its work. A net
/// is paid for if it has pins on both sides:
///
///   pins --any--> in --transfer--> out --any--> pins
///
/// Maximum flows by E. A. Dinic (1970).
class LeastCut {
public:
  LeastCut(const GroupGraph &graph, double transfers, double work)
      : groups(graph.groups.size()), arcsOf(groups + 2 * graph.nets.size() + 1),
        level(arcsOf.size(), -1), next(arcsOf.size(), 0) {
    for (size_t g = 0; g < groups; ++g)
      addArc(g, sink(), work * graph.groups[g].weight);
    for (size_t n = 0; n < graph.nets.size(); ++n) {
      size_t in = groups + 2 * n, out = in + 1;
      addArc(in, out, transfers * graph.nets[n].transfer);
      for (uint32_t pin : graph.nets[n].pins) {
        addArc(pin, in, infinity);
        addArc(out, pin, infinity);
      }
    }
    for (const Arc &arc : arcs)
      full.push_back(arc.room);
  }

  /// Stops after about so many arcs: no flow is more than the cut.
  double around(size_t group, size_t most) {
    for (size_t a : changed)
      arcs[a].room = full[a];
    changed.clear();
    left = most;
    double flow = 0;
    while (left > 0 && findLevels(group))
      while (double pushed = push(group))
        flow += pushed;
    return flow;
  }

private:
  struct Arc {
    size_t to;
    double room;
  };

  void use(size_t count) { left -= std::min(left, count); }

  size_t sink() const { return arcsOf.size() - 1; }

  /// The arc back is the next one.
  void addArc(size_t from, size_t to, double room) {
    arcsOf[from].push_back(arcs.size());
    arcs.push_back({to, room});
    arcsOf[to].push_back(arcs.size());
    arcs.push_back({from, 0});
  }

  /// Breadth first, until the sink is met.
  bool findLevels(size_t source) {
    for (size_t node : queue) {
      level[node] = -1;
      next[node] = 0;
    }
    level[source] = 0;
    queue.assign(1, source);
    for (size_t done = 0; done < queue.size() && level[sink()] < 0; ++done) {
      use(arcsOf[queue[done]].size());
      for (size_t a : arcsOf[queue[done]])
        if (arcs[a].room > 0 && level[arcs[a].to] < 0) {
          level[arcs[a].to] = level[queue[done]] + 1;
          queue.push_back(arcs[a].to);
        }
    }
    return level[sink()] >= 0;
  }

  /// Along one path of rising levels; 0 if there is none.
  double push(size_t source) {
    path.clear();
    size_t at = source;
    while (at != sink()) {
      if (left == 0)
        return 0;
      use(1);
      if (next[at] < arcsOf[at].size()) {
        size_t a = arcsOf[at][next[at]];
        if (arcs[a].room > 0 && level[arcs[a].to] == level[at] + 1) {
          path.push_back(a);
          at = arcs[a].to;
        } else {
          ++next[at];
        }
        continue;
      }
      if (path.empty())
        return 0;
      // Nothing goes on from here: back, and on with the next arc.
      at = arcs[path.back() ^ 1].to;
      path.pop_back();
      ++next[at];
    }
    double least = infinity;
    for (size_t a : path)
      least = std::min(least, arcs[a].room);
    for (size_t a : path) {
      arcs[a].room -= least;
      arcs[a ^ 1].room += least;
      changed.push_back(a);
      changed.push_back(a ^ 1);
    }
    return least;
  }

  size_t groups;
  std::vector<Arc> arcs;
  std::vector<double> full;
  std::vector<std::vector<size_t>> arcsOf; // Groups, ends of nets, the sink.
  std::vector<int> level;
  /// `queue` has the nodes with a level.
  std::vector<size_t> next, queue, path, changed;
  size_t left = 0;
};

} // namespace

double pp::planner::partition::communicationBound(const CostModel &model,
                                                  const GroupGraph &graph) {
  constexpr size_t mostGroups = 5000, mostArcs = 200'000'000;
  // Multipliers, times the number of stages.
  constexpr double multipliers[] = {1. / 16, 1. / 8, 1. / 4, 1. / 2, 1};
  const PartitionProblem &problem = model.problem;
  bool paysTransfers = problem.communication == Communication::Added &&
                       (problem.objective == Objective::Time ||
                        problem.objective == Objective::FlushLatency);
  for (const DeviceClass &candidate : model.classes)
    paysTransfers &= candidate.device.communicates;
  for (const Mode &mode : model.modes)
    paysTransfers &= mode.degree == 1 && mode.maxReplicas == 1;
  size_t n = graph.groups.size();
  if (!paysTransfers || graph.nets.empty() || n > mostGroups ||
      graph.totalWeight == infinity)
    return 0;
  double stages = static_cast<double>(model.maxDevices);
  // Cuts are sums of many numbers.
  constexpr double rounding = 1 - 1e-9;
  double low = graph.totalWeight / stages;
  size_t share = mostArcs / ((std::size(multipliers) + 1) * n);
  LeastCut alone(graph, 1, 1);
  for (size_t g = 0; g < n; ++g)
    low = std::max(low, alone.around(g, share) * rounding);
  std::vector<std::vector<double>> cuts;
  for (double multiplier : multipliers) {
    double u = multiplier / stages;
    LeastCut cut(graph, 1 + u, u);
    std::vector<double> &list = cuts.emplace_back();
    for (size_t g = 0; g < n; ++g)
      list.push_back(cut.around(g, share) * rounding);
  }
  auto isTooSmall = [&](double largest) {
    double sum = 0;
    for (size_t g = 0; g < n; ++g) {
      double transfers = 0;
      for (size_t i = 0; i < cuts.size(); ++i)
        transfers =
            std::max(transfers, cuts[i][g] - multipliers[i] / stages * largest);
      if (largest <= transfers)
        return true;
      sum += graph.groups[g].weight / (largest - transfers);
    }
    return sum * rounding > stages;
  };
  // The work of all on one device is always enough.
  double high = std::max(low, graph.totalWeight);
  for (int i = 0; i < 40; ++i) {
    double middle = (low + high) / 2;
    (isTooSmall(middle) ? low : high) = middle;
  }
  return low * rounding;
}
