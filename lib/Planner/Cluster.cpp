//===- Cluster.cpp - Where a plan runs: devices and links -----------------===//
#include "pp/Planner/Cluster.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace pp::planner;

static std::optional<size_t> groupOfDevice(const Cluster &cluster,
                                           size_t device) {
  return device < cluster.groupOf.size() ? cluster.groupOf[device]
                                         : std::nullopt;
}

/// Parents come before their children, so the larger index climbs.
static std::optional<size_t> commonGroup(const Cluster &cluster, size_t a,
                                         size_t b) {
  std::optional<size_t> first = groupOfDevice(cluster, a);
  std::optional<size_t> second = groupOfDevice(cluster, b);
  while (first != second) // Nothing compares below every index.
    if (first > second)
      first = cluster.groups[*first].parent;
    else
      second = cluster.groups[*second].parent;
  return first;
}

Link Cluster::link(size_t from, size_t to) const {
  if (!links.empty())
    if (auto found = links.find({from, to}); found != links.end())
      return found->second;
  std::optional<size_t> group = commonGroup(*this, from, to);
  return group ? groups[*group].link : defaultLink;
}

Link Cluster::slowestLink(size_t count) const {
  return extremeLinks(count).first;
}

Link Cluster::fastestLink(size_t count) const {
  return extremeLinks(count).second;
}

std::pair<Link, Link> Cluster::extremeLinks(size_t count) const {
  if (count < 2) {
    Link only = devices.size() < 2 || count == 0 ? defaultLink : link(0, 1);
    return {only, only};
  }
  // Ordered pairs whose smallest common group is each one; the last entry is
  // the cluster itself.
  std::vector<double> devicesIn(groups.size() + 1), pairs(groups.size() + 1);
  auto index = [&](std::optional<size_t> group) {
    return group ? *group : groups.size();
  };
  for (size_t device = 0; device < count; ++device)
    ++devicesIn[index(groupOfDevice(*this, device))];
  auto addChild = [&](size_t group, double below) {
    pairs[group] -= below * (below - 1);
  };
  for (size_t group = groups.size(); group-- > 0;) {
    size_t parent = index(groups[group].parent);
    devicesIn[parent] += devicesIn[group];
    addChild(parent, devicesIn[group]);
  }
  for (size_t group = 0; group <= groups.size(); ++group)
    pairs[group] += devicesIn[group] * (devicesIn[group] - 1);
  std::optional<Link> slowest, fastest;
  auto meet = [&](const Link &link) {
    if (!slowest) {
      slowest = fastest = link;
      return;
    }
    slowest->bandwidth = std::min(slowest->bandwidth, link.bandwidth);
    slowest->latency = std::max(slowest->latency, link.latency);
    slowest->overhead = std::max(slowest->overhead, link.overhead);
    fastest->bandwidth = std::max(fastest->bandwidth, link.bandwidth);
    fastest->latency = std::min(fastest->latency, link.latency);
    fastest->overhead = std::min(fastest->overhead, link.overhead);
  };
  for (const auto &[pair, link] : links)
    if (pair.first < count && pair.second < count) {
      --pairs[index(commonGroup(*this, pair.first, pair.second))];
      meet(link);
    }
  for (size_t group = 0; group <= groups.size(); ++group)
    if (pairs[group] > 0.5)
      meet(group < groups.size() ? groups[group].link : defaultLink);
  return {*slowest, *fastest};
}

std::optional<std::vector<Cluster::Level>> Cluster::levels() const {
  if (!links.empty())
    return std::nullopt;
  // Members and depth of every group, the cluster itself last.
  std::vector<size_t> subgroups(groups.size() + 1), own(groups.size() + 1),
      depth(groups.size() + 1);
  auto index = [&](std::optional<size_t> group) {
    return group ? *group : groups.size();
  };
  size_t deepest = 0;
  for (size_t group = 0; group < groups.size(); ++group) {
    ++subgroups[index(groups[group].parent)];
    depth[group] = groups[group].parent ? depth[*groups[group].parent] + 1 : 1;
    deepest = std::max(deepest, depth[group]);
  }
  for (size_t device = 0; device < devices.size(); ++device)
    ++own[index(groupOfDevice(*this, device))];
  std::vector<std::optional<Level>> byDepth(deepest + 1);
  for (size_t group = 0; group <= groups.size(); ++group) {
    bool isInnermost = depth[group] == deepest;
    if (isInnermost ? subgroups[group] != 0 : own[group] != 0)
      return std::nullopt;
    Level level = {isInnermost ? own[group] : subgroups[group],
                   group < groups.size() ? groups[group].link : defaultLink};
    std::optional<Level> &known = byDepth[depth[group]];
    if (level.members == 0 || (known && *known != level))
      return std::nullopt;
    known = level;
  }
  std::vector<Level> result;
  for (size_t d = deepest + 1; d-- > 0;)
    result.push_back(*byDepth[d]);
  return result;
}

static bool isPositive(double value) {
  return std::isfinite(value) && value > 0;
}

static bool isLink(const Link &link) {
  return isPositive(link.bandwidth) && std::isfinite(link.latency) &&
         link.latency >= 0 && std::isfinite(link.overhead) &&
         link.overhead >= 0;
}

std::optional<std::string> Cluster::check() const {
  if (devices.empty())
    return "the cluster has no devices";
  std::set<std::string> names;
  for (const Device &device : devices) {
    if (!names.insert(device.name).second)
      return "two devices are named '" + device.name + "'";
    if (device.memoryBytes < 0)
      return "device '" + device.name + "' has less than no memory";
    if (!isPositive(device.speed))
      return "the speed of device '" + device.name + "' is not above 0";
  }
  if (!isLink(defaultLink))
    return "the default link needs a bandwidth above 0, and a latency and "
           "an overhead of 0 or more";
  for (size_t group = 0; group < groups.size(); ++group) {
    if (groups[group].parent && *groups[group].parent >= group)
      return "group '" + groups[group].name + "' comes before its parent";
    if (!isLink(groups[group].link))
      return "the link of group '" + groups[group].name +
             "' needs a bandwidth above 0, and a latency and an overhead of 0 "
             "or more";
  }
  if (groupOf.size() > devices.size())
    return "more devices have a group than there are";
  for (size_t device = 0; device < groupOf.size(); ++device)
    if (groupOf[device] && *groupOf[device] >= groups.size())
      return "device '" + devices[device].name +
             "' is in a group that does not exist";
  for (const auto &[pair, link] : links) {
    if (pair.first >= devices.size() || pair.second >= devices.size() ||
        pair.first == pair.second)
      return "a link does not connect two devices";
    if (!isLink(link))
      return "the link from '" + devices[pair.first].name + "' to '" +
             devices[pair.second].name +
             "' needs a bandwidth above 0, and a latency and an overhead of 0 "
             "or more";
  }
  return std::nullopt;
}

Cluster Cluster::cpuCores(size_t count) {
  Cluster cluster;
  for (size_t i = 0; i < count; ++i)
    cluster.devices.push_back(
        {"core" + std::to_string(i), "cpu", int64_t(4) << 30, 1});
  cluster.defaultLink = {8e9, 2e-6};
  return cluster;
}
