//===- SearchBudget.cpp - How long a search may take ----------------------===//
#include "SearchBudget.h"
#include <algorithm>

using namespace pp::planner;
using namespace pp::planner::partition;

bool SearchBudget::spend(uint64_t steps) {
  constexpr uint64_t betweenLooks = 1 << 14;
  done += steps;
  sinceLook += steps;
  if (stopped == SearchStop::None && limits.steps && done > limits.steps)
    stopped = SearchStop::Steps;
  if (sinceLook >= betweenLooks)
    look();
  return stopped == SearchStop::None;
}

bool SearchBudget::isOut() {
  look();
  return stopped != SearchStop::None;
}

PartitionLimits SearchBudget::half() const {
  PartitionLimits result = limits;
  if (limits.steps)
    result.steps = std::max<uint64_t>(
        (limits.steps - std::min(done, limits.steps)) / 2, 1);
  auto now = std::chrono::steady_clock::now();
  if (limits.deadline && *limits.deadline > now)
    result.deadline = now + (*limits.deadline - now) / 2;
  return result;
}

void SearchBudget::look() {
  sinceLook = 0;
  if (stopped != SearchStop::None)
    return;
  if (limits.deadline && std::chrono::steady_clock::now() >= *limits.deadline)
    stopped = SearchStop::Time;
  if (limits.report)
    limits.report(progress);
}
