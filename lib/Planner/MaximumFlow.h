//===- MaximumFlow.h - Maximum flows and least cuts -------------*- C++ -*-===//
//
// Internal to lib/Planner. E. A. Dinic, "Algorithm for solution of a problem of
// maximum flow in a network with power estimation", 1970: blocking flows along
// shortest paths.
//
//===----------------------------------------------------------------------===//
#ifndef PP_LIB_PLANNER_MAXIMUMFLOW_H
#define PP_LIB_PLANNER_MAXIMUMFLOW_H

#include <cstddef>
#include <limits>
#include <vector>

namespace pp::planner {

/// A network of arcs with capacities, which may be infinite. Flows from several
/// sources are found one after the other with reset() in between.
class MaximumFlow {
public:
  static constexpr size_t unlimited = std::numeric_limits<size_t>::max();

  explicit MaximumFlow(size_t nodes);

  void addArc(size_t from, size_t to, double capacity);

  /// The largest flow, which is the least cut, from `source` to `sink`. Stops
  /// after it has looked at about `most` arcs; then the flow is less, and no
  /// cut is smaller than it. Some path must have no infinite arc alone.
  double run(size_t source, size_t sink, size_t most = unlimited);

  /// Whether `node` is on the side of the source in the least cut of the last
  /// run; the side of the source is the smallest that there is.
  bool isOnSourceSide(size_t node) const { return level[node] >= 0; }

  /// Takes the flow out again.
  void reset();

private:
  struct Arc {
    size_t to;
    double room;
  };

  void use(size_t count) { left -= left < count ? left : count; }
  bool findLevels(size_t source, size_t sink);
  double push(size_t source, size_t sink);

  std::vector<Arc> arcs; // the arc back is the next one
  std::vector<double> full;
  std::vector<std::vector<size_t>> arcsOf;
  std::vector<int> level;
  /// `queue` has the nodes with a level.
  std::vector<size_t> next, queue, path, changed;
  size_t left = 0;
};

} // namespace pp::planner

#endif // PP_LIB_PLANNER_MAXIMUMFLOW_H
