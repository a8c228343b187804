//===- DualPipeV.cpp - Forwards and backwards side by side ----------------===//
//
// The eight steps are those of the DualPipe repository (dualpipev.py). There,
// a forward and a backward that follow each other in step 4 and 5 run at the
// same time; here the forward runs first.
//
//===----------------------------------------------------------------------===//
#include "VRank.h"
#include <deque>

using namespace pp::planner;

static void addDualPipeRank(int rank, int ranks, int microbatches,
                            std::vector<Action> &actions) {
  VRank v(rank, ranks, actions);
  std::deque<int> pending; // Chunks whose weights are due.
  auto input = [&](int chunk) {
    v.input(chunk);
    pending.push_back(chunk);
  };
  auto weight = [&] {
    v.weight(pending.front());
    pending.pop_front();
  };
  int after = ranks - rank - 1; // Ranks further down the V.
  // 1 to 3: warm-up.
  for (int i = 0; i < 2 * after; ++i)
    v.forward(0);
  for (int i = 0; i < rank + 1; ++i) {
    v.forward(0);
    v.forward(1);
  }
  for (int i = 0; i < after; ++i) {
    input(1);
    weight();
    v.forward(1);
  }
  // 4: steady.
  while (v.forwards(0) < microbatches) {
    v.forward(0);
    v.backward(1);
    v.forward(1);
    v.backward(0);
  }
  // 5: no forwards of chunk 0 are left.
  for (int i = 0; i < after; ++i) {
    v.backward(1);
    v.forward(1);
    v.backward(0);
  }
  // 6: from the middle on, weights wait.
  for (int i = 0; i < 2 * (rank + 1); ++i)
    if (i < rank + 1)
      v.backward(1 - i % 2);
    else
      input(1 - i % 2);
  // 7 and 8: they fill the time until the last gradients arrive.
  for (int i = 0; i < after; ++i) {
    weight();
    input(0);
  }
  while (!pending.empty())
    weight();
  v.update();
}

Result<Schedule> pp::planner::dualPipeVSchedule(PipelineShape shape) {
  if (std::optional<std::string> fault = checkShape(shape, Placement::V))
    return Failure{*fault};
  if (shape.microbatches < shape.stages)
    return Failure{"dualpipev needs at least as many micro-batches as stages, "
                   "but there are " +
                   std::to_string(shape.microbatches) + " micro-batches and " +
                   std::to_string(shape.stages) + " stages"};
  return buildPipeline(
      shape, Placement::V, [&](int rank, std::vector<Action> &actions) {
        addDualPipeRank(rank, shape.rankCount(), shape.microbatches, actions);
      });
}
