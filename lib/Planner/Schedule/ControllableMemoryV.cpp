//===- ControllableMemoryV.cpp - V-Half and V-Min -------------------------===//
//
// A schedule of period 6 (F, I and W of two chunks, one unit of time each).
// What one micro-batch does is laid out once, and micro-batch i does it 6 i
// later:
//
//            V-Min                         V-Half
//   rank 0 | F . . . . F . . I . . . . I | F . . . . . . F I . . . . . . . I
//   rank 1 | . F . . F . . . . I . . I . | . . F . . . F . . . I . . . . I .
//   rank 2 | . . F F . . . . . . I I . . | . . . . F F . . . . . . I . I . .
//
// A rank would do two things at once if two of the four positions were equal
// modulo 6. (The W take the other two.) Going down and up at the given pace,
// whether they are does not depend on the rank if the turns wait a little; the
// shortest such waits are searched for. What a micro-batch keeps is the time
// from F to I over 6, so the pace sets the memory. Only the order of this table
// is used: the W are put where the rank would wait, or where the memory is
// needed.
//
//===----------------------------------------------------------------------===//
#include "OrderDecoder.h"
#include "PipelineBuilder.h"
#include <algorithm>

using namespace pp::planner;

namespace {

constexpr int period = 6;

/// Time from a rank to the next, on the way of F and of I down and up the V.
struct Pace {
  int forwardDown, forwardUp, backwardDown, backwardUp;
};

/// Positions of F0, F1, I1 and I0 (chunk 0 is on the way down) on a rank.
struct Block {
  Pace pace;
  int ranks, turns[3];

  std::array<int, 4> at(int rank) const {
    int last = ranks - 1;
    int f1 = last * pace.forwardDown + 1 + turns[0];
    int i1 = f1 + last * pace.forwardUp + 1 + turns[1];
    int i0 = i1 + last * pace.backwardDown + 1 + turns[2];
    return {rank * pace.forwardDown, f1 + (last - rank) * pace.forwardUp,
            i1 + rank * pace.backwardDown,
            i0 + (last - rank) * pace.backwardUp};
  }
  bool collides() const {
    for (int rank = 0; rank < ranks; ++rank) {
      std::array<int, 4> times = at(rank);
      for (int a = 0; a < 4; ++a)
        for (int b = 0; b < a; ++b)
          if ((times[a] - times[b]) % period == 0)
            return true;
    }
    return false;
  }
};

/// The block with the shortest waits at its turns.
Block shortestBlock(Pace pace, int ranks) {
  Block best{pace, ranks, {0, 0, 0}};
  int shortest = 3 * period;
  for (int a = 0; a < period; ++a)
    for (int b = 0; b < period; ++b)
      for (int c = 0; c < period; ++c) {
        Block block{pace, ranks, {a, b, c}};
        if (a + b + c < shortest && !block.collides()) {
          shortest = a + b + c;
          best = block;
        }
      }
  return best;
}

Result<Schedule> makeV(PipelineShape shape, Pace pace, int chunksKept) {
  Result<Schedule> result =
      buildPipeline(shape, Placement::V, [](int, std::vector<Action> &) {});
  if (!result)
    return result;
  Block block = shortestBlock(pace, shape.rankCount());
  StageOrder order;
  for (int rank = 0; rank < shape.rankCount(); ++rank) {
    int other = shape.stages - 1 - rank;
    const StageAction actions[] = {{rank, Phase::Forward},
                                   {other, Phase::Forward},
                                   {other, Phase::BackwardInput},
                                   {rank, Phase::BackwardInput}};
    std::vector<std::pair<int64_t, int>> times;
    std::array<int, 4> at = block.at(rank);
    for (int64_t i = 0; i < shape.microbatches; ++i)
      for (int action = 0; action < 4; ++action)
        times.push_back({i * period + at[action], action});
    std::sort(times.begin(), times.end());
    std::vector<StageAction> &list = order.emplace_back();
    for (auto [time, action] : times)
      list.push_back(actions[action]);
  }
  SimulationInput unit;
  unit.stages = {{1, 1, 1, 1, 0}};
  result->channels = neighborChannels(shape.stages, true);
  PipelineModel model = buildModel(*result, unit);
  model.forwardBytes.assign(shape.stages, 1);
  model.weightBytes.assign(shape.stages, 1);
  model.capacity.assign(shape.rankCount(), chunksKept);
  DecodedOrder decoded = decodeOrder(model, order, {1});
  result->channels.clear();
  if (!decoded.feasible)
    return Failure{"a V schedule of " + std::to_string(shape.stages) +
                   " stages does not keep to " + std::to_string(chunksKept) +
                   " chunks per rank"};
  result->ranks = decoded.actions(model);
  return result;
}

} // namespace

Result<Schedule> pp::planner::vHalfSchedule(PipelineShape shape) {
  return makeV(shape, {2, 1, 2, 1}, 2 * ((shape.rankCount() + 2) / 2));
}

Result<Schedule> pp::planner::vMinSchedule(PipelineShape shape) {
  return makeV(shape, {1, 1, 1, 1}, 2 * ((shape.rankCount() + 4) / 3));
}
