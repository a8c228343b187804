//===- Constraints.cpp - Where a chain may be cut -------------------------===//
#include "Constraints.h"
#include <algorithm>
#include <limits>
#include <map>

using namespace pp::planner;

Constraints::Constraints(const ChainProblem &problem) {
  const std::vector<Kernel> &kernels = problem.graph->kernels;
  size_t n = kernels.size();
  torn.assign(n + 1, false);
  hintBefore.assign(n + 1, -1);
  hintAfter.assign(n + 1, std::numeric_limits<int64_t>::max());
  std::map<int, std::pair<size_t, size_t>> classes;
  for (size_t i = 0; i < n; ++i) {
    if (kernels[i].colocationClass >= 0) {
      constrained = true;
      auto [entry, isNew] =
          classes.try_emplace(kernels[i].colocationClass, i, i);
      entry->second.second = i;
    }
    hintBefore[i + 1] = hintBefore[i];
    if (kernels[i].stageHint) {
      constrained = true;
      hintBefore[i + 1] =
          std::max<int64_t>(hintBefore[i], *kernels[i].stageHint);
    }
  }
  for (size_t i = n; i-- > 0;) {
    hintAfter[i] = hintAfter[i + 1];
    if (kernels[i].stageHint)
      hintAfter[i] = std::min<int64_t>(hintAfter[i], *kernels[i].stageHint);
  }
  std::vector<int> open(n + 2, 0);
  for (const auto &[id, range] : classes) {
    ++open[range.first + 1];
    --open[range.second + 1];
  }
  int depth = 0;
  for (size_t b = 0; b <= n; ++b) {
    depth += open[b];
    torn[b] = depth > 0;
  }
}

size_t Constraints::groups() const {
  // Boundary 0 begins the first group; n begins none.
  return std::count(torn.begin(), torn.end() - 1, false);
}
