//===- WaveSchedule.cpp - Virtual workers that a program can run ----------===//
#include "FloorDivide.h"
#include "pp/Planner/Schedule/Waves.h"
#include <algorithm>

using namespace pp::planner;

/// What a list may name.
static constexpr int mostVersions = 1 << 10;

namespace {

/// The list of one rank, with stages next to each other.
class WaveList {
public:
  WaveList(int first, int count, int ahead, PipelineShape shape)
      : first(first), count(count), ahead(ahead), wave(shape.microbatches),
        distance(shape.clockDistance) {}

  std::vector<Action> run() {
    for (int k = 0; k < wave; ++k) {
      for (int stage = first; stage < first + count; ++stage)
        add(ActionKind::Forward, stage, k, 0, read(k));
      int lag = -floorDivide(k - ahead, wave), done = k - ahead + lag * wave;
      for (int stage = first + count - 1; stage >= first; --stage)
        add(ActionKind::Backward, stage, done, lag, read(done));
      // A pull comes before the first action that needs it: the update after
      // the wave's last one, or the forward pass between these.
      bool isReadAtOnce = ahead == wave - 1;
      if (done == 0 && !isReadAtOnce)
        addPulls(lag + 1);
      addAll(ActionKind::Update, lag, done + 1);
      if (done < wave - 1)
        continue;
      addAll(ActionKind::Push, lag, wave);
      if (isReadAtOnce)
        addPulls(lag);
    }
    return std::move(list);
  }

private:
  int read(int k) const { return k - wave + 1; }

  void add(ActionKind kind, int stage, int k, int lag, int version) {
    Action action{kind, stage, k};
    action.lag = lag;
    action.version = version;
    list.push_back(action);
  }

  void addAll(ActionKind kind, int lag, int version) {
    for (int stage = first; stage < first + count; ++stage)
      add(kind, stage, -1, lag, version);
  }

  /// Where `lag` is that of the wave that has just been pushed.
  void addPulls(int lag) {
    addAll(ActionKind::Pull, lag + distance, (distance + 1) * wave);
  }

  int first, count, ahead, wave, distance;
  std::vector<Action> list;
};

} // namespace

Result<Schedule>
pp::planner::makeWaveSchedule(PipelineShape shape,
                              const std::vector<int> &stagesOfRanks) {
  int p = shape.stages, m = shape.microbatches, distance = shape.clockDistance;
  if (distance < 0 || int64_t(distance + 1) * m > mostVersions)
    return Failure{"a clock distance of " + std::to_string(distance) +
                   " waves of " + std::to_string(m) +
                   " micro-batches makes no schedule: all waves that may be in "
                   "flight have " +
                   std::to_string(mostVersions) + " micro-batches at most"};
  std::vector<int> counts = stagesOfRanks;
  if (counts.empty())
    counts.assign(p, 1);
  int64_t all = 0;
  for (int count : counts) {
    if (count < 1)
      return Failure{"a rank of a virtual worker cannot have " +
                     std::to_string(count) + " stages"};
    all += count;
  }
  if (all != p)
    return Failure{"the ranks of a virtual worker have " + std::to_string(all) +
                   " stages, but there are " + std::to_string(p)};
  Schedule schedule;
  schedule.stages = p;
  schedule.microbatches = m;
  schedule.clockDistance = distance;
  schedule.versions.assign(p, m);
  auto ranks = static_cast<int>(counts.size());
  for (int rank = 0, first = 0; rank < ranks; first += counts[rank++]) {
    schedule.rankOfStage.insert(schedule.rankOfStage.end(), counts[rank], rank);
    schedule.ranks.push_back(
        WaveList(first, counts[rank], std::min(m, ranks - rank) - 1, shape)
            .run());
  }
  return schedule;
}

std::vector<std::vector<Action>>
pp::planner::listsOfStages(const Schedule &schedule) {
  std::vector<std::vector<Action>> lists(schedule.stages);
  for (const std::vector<Action> &rank : schedule.ranks)
    for (const Action &action : rank)
      lists[action.stage].push_back(action);
  return lists;
}

WaveRule pp::planner::waveRuleOf(const Schedule &schedule) {
  return {schedule.microbatches - 1, schedule.clockDistance.value_or(0)};
}
