//===- Interleaved.cpp - 1F1B with several stages per rank ----------------===//
//
// Both orders go through the micro-batches in groups, and through all chunks of
// the rank for each group. After its warm-up a rank alternates between the two
// orders.
//
// The group sizes are what decides whether that completes. Before the first
// backward of the last rank, a whole group must have passed the other chunks,
// so the warm-up takes the largest group, and that comes first. And a group of
// less than p would have to pass its next chunk before the ranks in between
// have sent back what they wait for. So there are m div p groups, as equal as
// possible, or one if m < p. (Megatron-LM fixes the size and refuses a last
// group of less than p; PyTorch refuses unequal groups. Where they accept m,
// the order is theirs.)
//
//===----------------------------------------------------------------------===//
#include "PipelineBuilder.h"
#include <algorithm>

using namespace pp::planner;

/// Chunk and micro-batch of the forwards of any rank, in order. Backwards are
/// the same with the chunks reversed.
static std::vector<std::pair<int, int>> chunkOrder(int microbatches, int groups,
                                                   int chunks) {
  std::vector<std::pair<int, int>> order;
  for (int group = 0, first = 0; group < groups; ++group) {
    int size = microbatches / groups + (group < microbatches % groups);
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = first; i < first + size; ++i)
        order.push_back({chunk, i});
    first += size;
  }
  return order;
}

Result<Schedule> pp::planner::interleavedSchedule(PipelineShape shape) {
  if (std::optional<std::string> fault = checkShape(shape, Placement::Loop))
    return Failure{*fault};
  int m = shape.microbatches, p = shape.rankCount(), v = shape.stages / p;
  int groups = std::max(1, m / p);
  std::vector<std::pair<int, int>> order = chunkOrder(m, groups, v);
  size_t largest = (m + groups - 1) / groups;
  auto fill = [&](int rank, std::vector<Action> &actions) {
    size_t warmup =
        std::min((v - 1) * largest + 2 * size_t(p - 1 - rank), order.size());
    for (size_t k = 0; k < order.size() + warmup; ++k) {
      if (k < order.size())
        actions.push_back(
            {ActionKind::Forward, order[k].first * p + rank, order[k].second});
      if (k >= warmup)
        actions.push_back({ActionKind::Backward,
                           (v - 1 - order[k - warmup].first) * p + rank,
                           order[k - warmup].second});
    }
    for (int chunk = 0; chunk < v; ++chunk)
      actions.push_back({ActionKind::Update, chunk * p + rank});
  };
  return buildPipeline(shape, Placement::Loop, fill);
}
