//===- Rematerialization.cpp - What is computed again ---------------------===//
//
// The side of the source is what is needed, and what is computed for it. A
// value that is needed and not computed is paid for by the first arc, one that
// is computed by the second:
//
//   needed --keep--> computed --recompute--> sink
//                    computed --any--> needed of each operand
//
//===----------------------------------------------------------------------===//
#include "pp/Planner/Rematerialization.h"
#include "Infinity.h"
#include "MaximumFlow.h"

using namespace pp::planner;

Rematerialization
pp::planner::rematerialize(const RematerializationProblem &problem) {
  const size_t count = problem.values.size();
  const size_t source = 2 * count, sink = source + 1;
  MaximumFlow network(sink + 1);
  auto needed = [](size_t value) { return 2 * value; };
  auto computed = [](size_t value) { return 2 * value + 1; };
  for (size_t v = 0; v < count; ++v) {
    const RematerializationProblem::Value &value = problem.values[v];
    network.addArc(needed(v), computed(v), value.keep);
    network.addArc(computed(v), sink, value.recompute);
    for (size_t operand : value.operands)
      network.addArc(computed(v), needed(operand), infinity);
    if (value.isRead)
      network.addArc(source, needed(v), infinity);
  }
  network.run(source, sink);

  Rematerialization result;
  for (size_t v = 0; v < count; ++v) {
    const bool isComputed = network.isOnSourceSide(computed(v));
    const bool isKept = network.isOnSourceSide(needed(v)) && !isComputed;
    result.isRecomputed.push_back(isComputed);
    result.isKept.push_back(isKept);
    if (isKept)
      result.cost += problem.values[v].keep;
    if (isComputed)
      result.cost += problem.values[v].recompute;
  }
  return result;
}
