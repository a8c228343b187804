//===- Cluster.h - Where a plan runs: devices and links -------------------===//
#ifndef PP_PLANNER_CLUSTER_H
#define PP_PLANNER_CLUSTER_H

#include "pp/Planner/Result.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pp::planner {

struct Device {
  std::string name;
  /// "cpu", "h200", ...: the key of measured kernel times.
  std::string kind = "cpu";
  int64_t memoryBytes = 0;
  /// Kernel times that are not measured for its kind are divided by it.
  double speed = 1;
  /// False: its transfers take none of its time, as those of a host processor
  /// in the literature on placement.
  bool communicates = true;
};

/// A message of n bytes takes latency + n / bandwidth seconds, and n * overhead
/// seconds of the device at either end: the L, G and, per byte, o of the LogGP
/// model (Alexandrov et al., SPAA 1995).
struct Link {
  double bandwidth = 0; // Bytes per second.
  double latency = 0;   // Seconds.
  double overhead = 0;  // Seconds per byte.

  double transferTime(int64_t bytes) const {
    return latency + occupancyTime(bytes);
  }
  /// For which it carries nothing else.
  double occupancyTime(int64_t bytes) const {
    return static_cast<double>(bytes) / bandwidth;
  }
  double overheadTime(int64_t bytes) const {
    return static_cast<double>(bytes) * overhead;
  }
  bool operator==(const Link &) const = default;
};

/// Devices that share a link: a machine, a rack. Groups form a tree.
struct DeviceGroup {
  std::string name;
  Link link;
  /// Its place in Cluster::groups, always before its children; none is the
  /// cluster itself.
  std::optional<size_t> parent;
};

/// Devices and the links between them. The link of two devices is the one
/// stated for this directed pair, else that of the smallest group that holds
/// both, else the default link. docs/cluster-format.md has the JSON form.
class Cluster {
public:
  std::vector<Device> devices;
  Link defaultLink;
  std::map<std::pair<size_t, size_t>, Link> links;
  std::vector<DeviceGroup> groups;
  /// The smallest group of each device. Devices beyond its end, and those
  /// with nothing, are in no group.
  std::vector<std::optional<size_t>> groupOf;

  /// O(depth of the tree + log of the links stated for pairs).
  Link link(size_t from, size_t to) const;

  /// The largest latency and the smallest bandwidth between the first `count`
  /// devices: what algorithms use that do not look at single links. O(count).
  Link slowestLink(size_t count) const;
  /// The smallest latency and the largest bandwidth: what no link beats.
  Link fastestLink(size_t count) const;

  /// The networks from the inside to the outside, if every group of one depth
  /// has equally many members and the same link: {members, link} per level.
  /// Nothing if the tree is not regular or a pair has its own link. A cluster
  /// without groups has one level.
  struct Level {
    size_t members = 0;
    Link link;
    bool operator==(const Level &) const = default;
  };
  std::optional<std::vector<Level>> levels() const;

  /// The first reason why this is no cluster, or nothing.
  std::optional<std::string> check() const;

  /// Errors name the JSON path: "$.devices[1].speed: expected a number above
  /// 0". Unknown keys are errors: they are most often misspelt. At most 65,536
  /// devices.
  static Result<Cluster> fromJson(std::string_view text);
  /// Version 2, keys in a fixed order; fromJson gives back an equal cluster.
  std::string toJson() const;

  /// `count` cores of one machine that share its memory bus: 4 GiB and speed
  /// 1 each, 8 GB/s and 2 microseconds between them.
  static Cluster cpuCores(size_t count = 2);

private:
  /// The slowest and the fastest link.
  std::pair<Link, Link> extremeLinks(size_t count) const;
};

} // namespace pp::planner

#endif // PP_PLANNER_CLUSTER_H
