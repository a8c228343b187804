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
  /// "cpu" or "cuda"; the planner does not look at it.
  std::string kind = "cpu";
  int64_t memoryBytes = 0;
  /// Kernel times are divided by it.
  double speed = 1;
};

/// A message of n bytes takes latency + n / bandwidth seconds.
struct Link {
  double bandwidth = 0; // Bytes per second.
  double latency = 0;   // Seconds.

  double transferTime(int64_t bytes) const {
    return latency + static_cast<double>(bytes) / bandwidth;
  }
  bool operator==(const Link &) const = default;
};

/// Devices and the links between them. Links are directed; a pair without an
/// entry uses the default link.
///
/// The JSON form, units as above:
///   {"version": 1,
///    "devices": [{"name": "core0", "kind": "cpu", "memory_bytes": 8589934592,
///                 "speed": 1.0}],
///    "default_link": {"bandwidth": 8e9, "latency": 2e-6},
///    "links": [{"from": "core0", "to": "core1", "bandwidth": 1e9,
///               "latency": 5e-6}]}
/// "kind", "speed" and "links" may be left out.
class Cluster {
public:
  std::vector<Device> devices;
  Link defaultLink;
  std::map<std::pair<size_t, size_t>, Link> links;

  Link link(size_t from, size_t to) const;

  /// The largest latency and the smallest bandwidth between the first `count`
  /// devices: what algorithms use that do not look at single links.
  Link slowestLink(size_t count) const;

  /// The first reason why this is no cluster, or nothing.
  std::optional<std::string> check() const;

  /// Errors name the JSON path: "$.devices[1].speed: expected a number above
  /// 0". Unknown keys are errors: they are most often misspelt.
  static Result<Cluster> fromJson(std::string_view text);
  /// Keys in a fixed order; fromJson gives back an equal cluster.
  std::string toJson() const;

  /// `count` cores of one machine that share its memory bus: 4 GiB and speed
  /// 1 each, 8 GB/s and 2 microseconds between them.
  static Cluster cpuCores(size_t count = 2);
};

} // namespace pp::planner

#endif // PP_PLANNER_CLUSTER_H
