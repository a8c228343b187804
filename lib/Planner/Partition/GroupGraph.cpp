//===- GroupGraph.cpp - Kernels that move together ------------------------===//
#include "GroupGraph.h"
#include "../Infinity.h"
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>

using namespace pp::planner;
using namespace pp::planner::partition;

static void sortUnique(auto &list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

std::vector<OrderEdge> pp::planner::partition::orderEdges(const Graph &graph) {
  // What has no forward kernel is ordered by the backward pass.
  std::map<int, bool> classHasForward;
  for (const Kernel &kernel : graph.kernels)
    if (kernel.colocationClass >= 0)
      classHasForward[kernel.colocationClass] |= !kernel.backward;
  auto isOrphan = [&](const Kernel &kernel) {
    return kernel.backward && (kernel.colocationClass < 0 ||
                               !classHasForward[kernel.colocationClass]);
  };
  std::vector<OrderEdge> edges;
  for (const Value &value : graph.values) {
    const Kernel &producer = graph.kernels[value.producer];
    for (size_t consumer : value.consumers) {
      const Kernel &reader = graph.kernels[consumer];
      if (!producer.backward && !reader.backward)
        edges.push_back({value.producer, consumer});
      else if (producer.backward && reader.backward &&
               (isOrphan(producer) || isOrphan(reader)))
        edges.push_back({consumer, value.producer});
    }
  }
  sortUnique(edges);
  return edges;
}

namespace {

/// Strongly connected components (R. Tarjan, 1972), without recursion.
/// Components are numbered against the edges: a component's successors have
/// smaller numbers.
std::vector<size_t>
findComponents(const std::vector<std::vector<uint32_t>> &after) {
  size_t n = after.size();
  constexpr size_t none = std::numeric_limits<size_t>::max();
  std::vector<size_t> component(n, none), index(n, none), low(n);
  std::vector<uint32_t> open;
  std::vector<std::pair<uint32_t, size_t>> path; // Node, next edge.
  size_t next = 0, components = 0;
  for (uint32_t root = 0; root < n; ++root) {
    if (index[root] != none)
      continue;
    path.push_back({root, 0});
    while (!path.empty()) {
      auto &[node, edge] = path.back();
      if (edge == 0) {
        index[node] = low[node] = next++;
        open.push_back(node);
      }
      if (edge < after[node].size()) {
        uint32_t target = after[node][edge++];
        if (index[target] == none)
          path.push_back({target, 0});
        else if (component[target] == none)
          low[node] = std::min(low[node], index[target]);
        continue;
      }
      uint32_t done = node;
      path.pop_back();
      if (!path.empty())
        low[path.back().first] = std::min(low[path.back().first], low[done]);
      if (low[done] != index[done])
        continue;
      uint32_t member;
      do {
        member = open.back();
        open.pop_back();
        component[member] = components;
      } while (member != done);
      ++components;
    }
  }
  return component;
}

/// A topological order that takes the smallest kernel first; returns the place
/// of each node.
std::vector<size_t>
topologicalPlaces(const std::vector<std::vector<uint32_t>> &after,
                  const std::vector<size_t> &smallest) {
  size_t n = after.size();
  std::vector<size_t> missing(n, 0), place(n);
  for (const std::vector<uint32_t> &list : after)
    for (uint32_t node : list)
      ++missing[node];
  using Entry = std::pair<size_t, size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (size_t i = 0; i < n; ++i)
    if (missing[i] == 0)
      ready.push({smallest[i], i});
  size_t next = 0;
  while (!ready.empty()) {
    size_t node = ready.top().second;
    ready.pop();
    place[node] = next++;
    for (uint32_t target : after[node])
      if (--missing[target] == 0)
        ready.push({smallest[target], target});
  }
  return place;
}

/// Fills in what follows from the kernels of the groups.
void computeLoads(
    const CostModel &model, Group &group,
    const std::vector<std::vector<std::vector<Choice>>> &choices) {
  size_t modes = model.modes.size();
  group.fastest.assign(modes, {});
  group.leanest.assign(modes, {});
  for (size_t kernel : group.kernels)
    for (size_t mode = 0; mode < modes; ++mode) {
      const std::vector<Choice> &list = choices[mode][kernel];
      if (list.empty()) {
        group.fastest[mode].time = group.leanest[mode].time = infinity;
        continue;
      }
      group.fastest[mode].add(list.front().load);
      Load lean = list.front().load;
      for (const Choice &choice : list) {
        lean.parameterBytes =
            std::min(lean.parameterBytes, choice.load.parameterBytes);
        lean.savedBytes = std::min(lean.savedBytes, choice.load.savedBytes);
        lean.workspaceBytes =
            std::min(lean.workspaceBytes, choice.load.workspaceBytes);
      }
      group.leanest[mode].add(lean);
    }
}

void computeWeight(const CostModel &model, Group &group) {
  group.weight = group.least = infinity;
  for (size_t mode = 0; mode < model.modes.size(); ++mode) {
    const Mode &how = model.modes[mode];
    double weight, least;
    if (model.problem.objective == Objective::Memory) {
      Load lean = group.leanest[mode];
      least = model.memory(lean, model.leastInFlight());
      lean.workspaceBytes = 0;
      weight = model.memory(lean, model.leastInFlight());
    } else {
      weight = group.fastest[mode].time * how.degree;
      least = group.fastest[mode].time / how.maxReplicas;
    }
    group.weight = std::min(group.weight, weight);
    group.least = std::min(group.least, least);
  }
}

} // namespace

GroupGraph GroupGraph::merge(const CostModel &model,
                             const std::vector<size_t> &labels) const {
  // Same label, then same component.
  std::vector<size_t> compact = labels;
  sortUnique(compact);
  auto compactLabel = [&](size_t group) {
    return std::lower_bound(compact.begin(), compact.end(), labels[group]) -
           compact.begin();
  };
  std::vector<size_t> label(groups.size());
  for (size_t g = 0; g < groups.size(); ++g)
    label[g] = compactLabel(g);
  auto edgesBetween = [&](const std::vector<size_t> &owner, size_t count) {
    std::vector<std::vector<uint32_t>> after(count);
    for (size_t g = 0; g < groups.size(); ++g)
      for (uint32_t next : groups[g].after)
        if (owner[g] != owner[next])
          after[owner[g]].push_back(static_cast<uint32_t>(owner[next]));
    for (std::vector<uint32_t> &list : after)
      sortUnique(list);
    return after;
  };
  std::vector<size_t> component =
      findComponents(edgesBetween(label, compact.size()));
  size_t count = 0;
  std::vector<size_t> owner(groups.size());
  std::vector<size_t> smallest(compact.size(),
                               std::numeric_limits<size_t>::max());
  for (size_t g = 0; g < groups.size(); ++g) {
    owner[g] = component[label[g]];
    count = std::max(count, owner[g] + 1);
    smallest[owner[g]] =
        std::min(smallest[owner[g]], groups[g].kernels.front());
  }
  std::vector<std::vector<uint32_t>> after = edgesBetween(owner, count);
  std::vector<size_t> place = topologicalPlaces(after, smallest);

  GroupGraph result;
  result.free = free;
  result.groups.resize(count);
  for (size_t g = 0; g < groups.size(); ++g) {
    Group &target = result.groups[place[owner[g]]];
    const Group &source = groups[g];
    target.kernels.insert(target.kernels.end(), source.kernels.begin(),
                          source.kernels.end());
    if (target.fastest.empty()) {
      target.fastest = source.fastest;
      target.leanest = source.leanest;
    } else {
      for (size_t mode = 0; mode < source.fastest.size(); ++mode) {
        target.fastest[mode].add(source.fastest[mode]);
        target.leanest[mode].add(source.leanest[mode]);
      }
    }
    if (source.stageHint >= 0)
      target.stageHint = source.stageHint;
  }
  for (size_t old = 0; old < count; ++old)
    for (uint32_t next : after[old]) {
      auto from = static_cast<uint32_t>(place[old]);
      auto to = static_cast<uint32_t>(place[next]);
      result.groups[from].after.push_back(to);
      result.groups[to].before.push_back(from);
    }
  for (Group &group : result.groups) {
    std::sort(group.kernels.begin(), group.kernels.end());
    sortUnique(group.after);
    sortUnique(group.before);
    computeWeight(model, group);
    result.totalWeight += group.weight;
  }
  std::map<std::vector<uint32_t>, size_t> known;
  for (const Net &net : nets) {
    Net mapped = net;
    for (uint32_t &pin : mapped.pins)
      pin = static_cast<uint32_t>(place[owner[pin]]);
    sortUnique(mapped.pins);
    if (mapped.pins.size() < 2)
      continue;
    auto [entry, isNew] = known.try_emplace(mapped.pins, result.nets.size());
    if (!isNew) {
      result.nets[entry->second].transfer += net.transfer;
      result.nets[entry->second].crossing += net.crossing;
      continue;
    }
    for (uint32_t pin : mapped.pins)
      result.groups[pin].nets.push_back(
          static_cast<uint32_t>(result.nets.size()));
    result.nets.push_back(std::move(mapped));
  }
  return result;
}

namespace {

bool takesNoTime(const Group &group) {
  for (size_t mode = 0; mode < group.fastest.size(); ++mode)
    if (group.fastest[mode].time != 0 || group.leanest[mode].time != 0)
      return false;
  return true;
}

/// Which bytes cost something.
struct CountedBytes {
  bool parameters = false, others = false;

  explicit CountedBytes(const CostModel &model)
      : parameters(model.needsMemory), others(model.needsMemory) {
    for (const Mode &mode : model.modes)
      parameters |= mode.maxReplicas > 1; // The all-reduce.
  }
};

bool isFree(const Group &group, CountedBytes counted) {
  if (group.stageHint >= 0 || !takesNoTime(group))
    return false;
  for (size_t mode = 0; mode < group.fastest.size(); ++mode)
    for (const Load &load : {group.fastest[mode], group.leanest[mode]})
      if ((counted.parameters && load.parameterBytes != 0) ||
          (counted.others &&
           (load.savedBytes != 0 || load.workspaceBytes != 0)))
        return false;
  return true;
}

/// Groups that take no time keep no bytes: they weigh on no device's memory.
void dropBytes(GroupGraph &graph, const CostModel &model) {
  bool keepsParameters = false;
  for (const Mode &mode : model.modes)
    keepsParameters |= mode.maxReplicas > 1;
  for (Group &group : graph.groups) {
    if (!takesNoTime(group))
      continue;
    for (std::vector<Load> *loads : {&group.fastest, &group.leanest})
      for (Load &load : *loads) {
        load.savedBytes = load.workspaceBytes = 0;
        if (!keepsParameters)
          load.parameterBytes = 0;
      }
  }
}

/// One round of merging groups without cost into a neighbour. Returns labels,
/// or nothing if nothing changes.
///
/// A group without cost may join a neighbour, in any partition, without making
/// a stage dearer, if
///  * it has no other neighbour (and its nets have no other pins), or
///  * it has one predecessor, which gives it values of at least the size of
///    its own, that nobody else reads; or the same with its successor.
std::optional<std::vector<size_t>> findFreeMerges(const GroupGraph &graph,
                                                  CountedBytes counted) {
  std::vector<size_t> labels(graph.groups.size());
  std::iota(labels.begin(), labels.end(), 0);
  std::vector<bool> touched(graph.groups.size());
  bool changed = false;
  for (uint32_t g = 0; g < graph.groups.size(); ++g) {
    const Group &group = graph.groups[g];
    if (touched[g] || !isFree(group, counted))
      continue;
    auto tryMerge = [&](const std::vector<uint32_t> &side,
                        const std::vector<uint32_t> &other) {
      if (side.size() != 1 || touched[side[0]])
        return false;
      uint32_t target = side[0];
      // Nets to the target alone are saved, the others may be paid for.
      double saved = 0, paid = 0, savedCrossing = 0, paidCrossing = 0;
      for (uint32_t id : group.nets) {
        const Net &net = graph.nets[id];
        bool toTarget =
            std::binary_search(net.pins.begin(), net.pins.end(), target);
        if (toTarget && net.pins.size() == 2) {
          saved += net.transfer;
          savedCrossing += net.crossing;
        } else if (toTarget) {
          // The target has a pin already: nothing is added.
          continue;
        } else {
          paid += net.transfer;
          paidCrossing += net.crossing;
        }
      }
      if (!other.empty() && (paid > saved || paidCrossing > savedCrossing))
        return false;
      if (other.empty() && (paid > 0 || paidCrossing > 0))
        return false;
      labels[g] = target;
      touched[g] = touched[target] = changed = true;
      return true;
    };
    if (!tryMerge(group.before, group.after))
      tryMerge(group.after, group.before);
  }
  if (!changed)
    return std::nullopt;
  return labels;
}

/// Takes one round of sources and sinks without cost, with values in one net
/// at most, out of the graph.
bool removeFreeLeaves(GroupGraph &graph, CountedBytes counted) {
  bool changed = false;
  std::vector<bool> removed(graph.groups.size());
  size_t left = graph.groups.size();
  for (uint32_t g = 0; g < graph.groups.size(); ++g) {
    Group &group = graph.groups[g];
    bool isSource = group.before.empty(), isSink = group.after.empty();
    if (!isFree(group, counted) || (!isSource && !isSink) ||
        group.nets.size() > 1)
      continue;
    FreeKernels entry;
    entry.kernels = group.kernels;
    entry.earliest = isSource;
    // All that it is ordered with has a pin in its net, or it would have to
    // respect more than the net says.
    std::vector<uint32_t> others = isSource ? group.after : group.before;
    if (!group.nets.empty()) {
      Net &net = graph.nets[group.nets[0]];
      if (!std::includes(net.pins.begin(), net.pins.end(), others.begin(),
                         others.end()))
        continue;
      std::erase(net.pins, g);
      others = net.pins;
    }
    for (uint32_t other : others) {
      entry.anchors.push_back(graph.groups[other].kernels.front());
      std::erase(graph.groups[other].before, g);
      std::erase(graph.groups[other].after, g);
    }
    graph.free.push_back(std::move(entry));
    removed[g] = changed = true;
    if (--left == 1)
      break;
  }
  if (!changed)
    return false;
  GroupGraph rest;
  rest.free = graph.free;
  std::vector<uint32_t> place(graph.groups.size());
  for (uint32_t g = 0; g < graph.groups.size(); ++g)
    if (!removed[g]) {
      place[g] = static_cast<uint32_t>(rest.groups.size());
      rest.groups.push_back(std::move(graph.groups[g]));
    }
  for (Group &group : rest.groups) {
    group.nets.clear();
    for (uint32_t &other : group.before)
      other = place[other];
    for (uint32_t &other : group.after)
      other = place[other];
    rest.totalWeight += group.weight;
  }
  for (Net &net : graph.nets) {
    if (net.pins.size() < 2)
      continue;
    for (uint32_t &pin : net.pins) {
      pin = place[pin];
      rest.groups[pin].nets.push_back(static_cast<uint32_t>(rest.nets.size()));
    }
    rest.nets.push_back(std::move(net));
  }
  graph = std::move(rest);
  return true;
}

} // namespace

Result<GroupGraph> GroupGraph::build(const CostModel &model,
                                     Simplify simplify) {
  const Graph &graph = *model.problem.graph;
  size_t n = graph.kernels.size();
  std::vector<std::vector<std::vector<Choice>>> choices(model.modes.size());
  for (size_t mode = 0; mode < model.modes.size(); ++mode)
    for (size_t k = 0; k < n; ++k)
      choices[mode].push_back(model.choices(k, model.modes[mode]));
  GroupGraph single;
  single.groups.resize(n);
  std::map<int, size_t> classLabel;
  std::vector<size_t> labels(n);
  for (size_t k = 0; k < n; ++k) {
    Group &group = single.groups[k];
    group.kernels = {k};
    group.stageHint = graph.kernels[k].stageHint.value_or(-1);
    computeLoads(model, group, choices);
    int id = graph.kernels[k].colocationClass;
    labels[k] = id < 0 ? k : classLabel.try_emplace(id, k).first->second;
  }
  choices.clear();
  for (auto [before, after] : orderEdges(graph)) {
    single.groups[before].after.push_back(static_cast<uint32_t>(after));
    single.groups[after].before.push_back(static_cast<uint32_t>(before));
  }
  for (const Value &value : graph.values) {
    Net net;
    net.transfer = model.transfer(value);
    net.crossing = model.crossing(value);
    if (net.transfer == 0 && net.crossing == 0)
      continue;
    net.pins.push_back(static_cast<uint32_t>(value.producer));
    for (size_t consumer : value.consumers)
      net.pins.push_back(static_cast<uint32_t>(consumer));
    sortUnique(net.pins);
    single.nets.push_back(std::move(net));
  }
  GroupGraph result = single.merge(model, labels);
  for (const Group &group : result.groups)
    for (size_t kernel : group.kernels) {
      const std::optional<int> &hint = graph.kernels[kernel].stageHint;
      if (hint && *hint != group.stageHint)
        return Failure{"kernel '" + graph.kernels[kernel].name +
                       "' wants stage " + std::to_string(*hint) +
                       ", but must be in one stage with a kernel that wants "
                       "stage " +
                       std::to_string(group.stageHint)};
    }
  if (simplify == Simplify::No)
    return result;
  if (simplify == Simplify::WithoutBytes)
    dropBytes(result, model);
  CountedBytes counted(model);
  for (;;) {
    bool changed =
        result.groups.size() > 1 && removeFreeLeaves(result, counted);
    if (result.groups.size() > 1)
      if (std::optional<std::vector<size_t>> found =
              findFreeMerges(result, counted)) {
        result = result.merge(model, *found);
        changed = true;
      }
    if (!changed)
      return result;
  }
}

bool GroupGraph::isChain() const {
  for (size_t g = 1; g < groups.size(); ++g)
    if (!std::binary_search(groups[g].before.begin(), groups[g].before.end(),
                            static_cast<uint32_t>(g - 1)))
      return false;
  return true;
}
