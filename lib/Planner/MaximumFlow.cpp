//===- MaximumFlow.cpp - Maximum flows and least cuts ---------------------===//
#include "MaximumFlow.h"
#include "Infinity.h"

#include <algorithm>

using namespace pp::planner;

MaximumFlow::MaximumFlow(size_t nodes)
    : arcsOf(nodes), level(nodes, -1), next(nodes, 0) {}

void MaximumFlow::addArc(size_t from, size_t to, double capacity) {
  arcsOf[from].push_back(arcs.size());
  arcs.push_back({to, capacity});
  arcsOf[to].push_back(arcs.size());
  arcs.push_back({from, 0});
  full.push_back(capacity);
  full.push_back(0);
}

void MaximumFlow::reset() {
  for (size_t a : changed)
    arcs[a].room = full[a];
  changed.clear();
}

double MaximumFlow::run(size_t source, size_t sink, size_t most) {
  left = most;
  double flow = 0;
  while (left > 0 && findLevels(source, sink))
    while (double pushed = push(source, sink))
      flow += pushed;
  return flow;
}

/// Breadth first, until the sink is met.
bool MaximumFlow::findLevels(size_t source, size_t sink) {
  for (size_t node : queue) {
    level[node] = -1;
    next[node] = 0;
  }
  level[source] = 0;
  queue.assign(1, source);
  for (size_t done = 0; done < queue.size() && level[sink] < 0; ++done) {
    use(arcsOf[queue[done]].size());
    for (size_t a : arcsOf[queue[done]])
      if (arcs[a].room > 0 && level[arcs[a].to] < 0) {
        level[arcs[a].to] = level[queue[done]] + 1;
        queue.push_back(arcs[a].to);
      }
  }
  return level[sink] >= 0;
}

/// Along one path of rising levels; 0 if there is none.
double MaximumFlow::push(size_t source, size_t sink) {
  path.clear();
  size_t at = source;
  while (at != sink) {
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
