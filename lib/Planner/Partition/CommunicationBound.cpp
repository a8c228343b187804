//===- CommunicationBound.cpp - What transfers cost every partition -------===//
#include "CommunicationBound.h"
#include "../Infinity.h"
#include "../MaximumFlow.h"
#include <algorithm>
#include <iterator>

using namespace pp::planner;
using namespace pp::planner::partition;

namespace {

/// The least `transfers` c(S) + `work` w(S) over the sets S with a group: a cut
/// between the group and a sink that every group is tied to by its work. A net
/// is paid for if it has pins on both sides:
///
///   pins --any--> in --transfer--> out --any--> pins
///
class LeastCut {
public:
  LeastCut(const GroupGraph &graph, double transfers, double work)
      : sink(graph.groups.size() + 2 * graph.nets.size()), network(sink + 1) {
    for (size_t g = 0; g < graph.groups.size(); ++g)
      network.addArc(g, sink, work * graph.groups[g].weight);
    for (size_t n = 0; n < graph.nets.size(); ++n) {
      size_t in = graph.groups.size() + 2 * n, out = in + 1;
      network.addArc(in, out, transfers * graph.nets[n].transfer);
      for (uint32_t pin : graph.nets[n].pins) {
        network.addArc(pin, in, infinity);
        network.addArc(out, pin, infinity);
      }
    }
  }

  /// Stops after about so many arcs: no flow is more than the cut.
  double around(size_t group, size_t most) {
    network.reset();
    return network.run(group, sink, most);
  }

private:
  size_t sink;
  MaximumFlow network; // groups, ends of nets, the sink
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
