//===- LayoutAssignment.cpp - In which of two layouts values lie ----------===//
//
// The side of the source is the other layout. A value that lies plain and has
// readers in the other layout is paid for by the first arc, one that lies in
// the other layout and has plain readers by the second:
//
//   readers --any--> some --reorder--> maker
//   maker --reorder--> all --any--> readers
//
//===----------------------------------------------------------------------===//
#include "pp/Planner/LayoutAssignment.h"
#include "Infinity.h"
#include "MaximumFlow.h"

using namespace pp::planner;

LayoutAssignment pp::planner::assignLayouts(const LayoutProblem &problem) {
  size_t count = problem.operations.size();
  size_t source = count + 2 * problem.values.size(), sink = source + 1;
  MaximumFlow network(sink + 1);
  for (size_t i = 0; i < count; ++i) {
    // What both cost decides nothing.
    const LayoutProblem::Operation &op = problem.operations[i];
    if (op.plain > op.other)
      network.addArc(source, i, op.plain - op.other);
    else if (op.other > op.plain)
      network.addArc(i, sink, op.other - op.plain);
  }
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const LayoutProblem::Value &value = problem.values[v];
    size_t some = count + 2 * v, all = some + 1;
    network.addArc(some, value.maker, value.reorder);
    network.addArc(value.maker, all, value.reorder);
    for (size_t reader : value.readers) {
      network.addArc(reader, some, infinity);
      network.addArc(all, reader, infinity);
    }
  }
  network.run(source, sink);

  LayoutAssignment result;
  for (size_t i = 0; i < count; ++i) {
    result.isOther.push_back(network.isOnSourceSide(i));
    const LayoutProblem::Operation &op = problem.operations[i];
    result.cost += result.isOther[i] ? op.other : op.plain;
  }
  for (const LayoutProblem::Value &value : problem.values)
    for (size_t reader : value.readers)
      if (result.isOther[reader] != result.isOther[value.maker]) {
        result.cost += value.reorder;
        break;
      }
  return result;
}
