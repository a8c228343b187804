//===- StageLinks.cpp - The links between the stages of a plan ------------===//
#include "StageLinks.h"
#include <algorithm>

using namespace pp::planner;
using namespace pp::planner::partition;

StageLinks::StageLinks(const Cluster &cluster,
                       const PartitionSolution &solution)
    : cluster(cluster) {
  for (const PlannedStage &stage : solution.stages) {
    std::vector<size_t> &list = devices.emplace_back();
    std::map<std::optional<size_t>, int> seen;
    for (size_t device : stage.devices) {
      std::optional<size_t> group = device < cluster.groupOf.size()
                                        ? cluster.groupOf[device]
                                        : std::nullopt;
      if (!cluster.links.empty() || ++seen[group] <= 2)
        list.push_back(device);
    }
  }
}

Link StageLinks::between(size_t from, size_t to) {
  auto [entry, isNew] = known.try_emplace({from, to});
  if (!isNew)
    return entry->second;
  std::optional<Link> slowest;
  for (size_t a : devices[from])
    for (size_t b : devices[to]) {
      if (a == b)
        continue;
      Link link = cluster.link(a, b);
      if (!slowest)
        slowest = link;
      slowest->bandwidth = std::min(slowest->bandwidth, link.bandwidth);
      slowest->latency = std::max(slowest->latency, link.latency);
    }
  return entry->second = slowest.value_or(cluster.defaultLink);
}

Link StageLinks::within(size_t stage) { return between(stage, stage); }
