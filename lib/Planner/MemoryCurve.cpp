//===- MemoryCurve.cpp - Bytes of each rank over time ---------------------===//
#include "pp/Planner/MemoryCurve.h"
#include <algorithm>
#include <limits>

using namespace pp::planner;

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

struct Interval {
  double start = unknown, end = unknown;
  bool known() const { return start == start; }
};

/// When the phases of each stage and micro-batch run.
class PhaseTimes {
public:
  PhaseTimes(const Schedule &schedule, const Simulation &simulation)
      : microbatches(schedule.microbatches) {
    size_t cells = size_t(schedule.stages) * microbatches;
    for (std::vector<Interval> &phase : phases)
      phase.resize(cells);
    recompute.resize(cells);
    receive.resize(schedule.channels.size() * size_t(microbatches));
    for (const std::vector<TimedAction> &rank : simulation.ranks)
      for (const TimedAction &timed : rank) {
        const Action &action = timed.action;
        Interval interval{timed.start, timed.end};
        if (action.kind == ActionKind::Receive)
          receive[size_t(action.channel) * microbatches + action.microbatch] =
              interval;
        if (action.kind == ActionKind::Recompute)
          recompute[at(action.stage, action.microbatch)] = interval;
        for (Phase phase :
             {Phase::Forward, Phase::BackwardInput, Phase::BackwardWeight})
          if (action.performs(phase))
            phases[static_cast<size_t>(phase)]
                  [at(action.stage, action.microbatch)] = interval;
      }
  }

  const Interval &of(Phase phase, int stage, int microbatch) const {
    return phases[static_cast<size_t>(phase)][at(stage, microbatch)];
  }
  const Interval &ofRecompute(int stage, int microbatch) const {
    return recompute[at(stage, microbatch)];
  }
  const Interval &ofReceive(size_t channel, int microbatch) const {
    return receive[channel * microbatches + microbatch];
  }

private:
  size_t at(int stage, int microbatch) const {
    return size_t(stage) * microbatches + microbatch;
  }
  int microbatches;
  std::vector<Interval> phases[3], recompute, receive;
};

/// Changes of the bytes of one rank.
class Changes {
public:
  void hold(double from, double to, int64_t bytes) {
    if (bytes == 0 || !(from <= to))
      return;
    changes.push_back({from, bytes});
    changes.push_back({to, -bytes});
  }

  MemoryCurve curve() {
    // What is freed at a time is free for what begins then.
    std::sort(changes.begin(), changes.end());
    MemoryCurve curve;
    int64_t bytes = 0;
    for (size_t i = 0; i < changes.size(); ++i) {
      bytes += changes[i].second;
      if (i + 1 < changes.size() && changes[i + 1].first == changes[i].first)
        continue;
      if (bytes == (curve.steps.empty() ? 0 : curve.steps.back().bytes))
        continue;
      curve.steps.push_back({changes[i].first, bytes});
      curve.peak = std::max(curve.peak, bytes);
    }
    return curve;
  }

private:
  std::vector<std::pair<double, int64_t>> changes;
};

} // namespace

std::vector<MemoryCurve>
pp::planner::memoryCurves(const Schedule &schedule,
                          const Simulation &simulation,
                          const ResidualBytes &residuals) {
  PhaseTimes times(schedule, simulation);
  std::vector<Changes> changes(schedule.ranks.size());
  auto bytesOf = [](const std::vector<int64_t> &bytes, int stage) {
    return bytes.empty() ? 0 : bytes[bytes.size() == 1 ? 0 : stage];
  };
  for (int stage = 0; stage < schedule.stages; ++stage) {
    Changes &rank = changes[schedule.rankOfStage[stage]];
    int64_t forward = bytesOf(residuals.forward, stage);
    int64_t weight = bytesOf(residuals.weight, stage);
    int64_t whole = bytesOf(residuals.whole, stage);
    for (int i = 0; i < schedule.microbatches; ++i) {
      const Interval &f = times.of(Phase::Forward, stage, i);
      const Interval &r = times.ofRecompute(stage, i);
      const Interval &in = times.of(Phase::BackwardInput, stage, i);
      const Interval &w = times.of(Phase::BackwardWeight, stage, i);
      if (r.known() || !in.known())
        rank.hold(f.start, f.end, forward + whole);
      double kept = r.known() ? r.start : f.start;
      if (in.known())
        rank.hold(kept, in.end, forward);
      rank.hold(kept, w.end, whole);
      rank.hold(in.start, w.end, weight);
    }
  }
  for (size_t c = 0; c < schedule.channels.size(); ++c) {
    const Channel &channel = schedule.channels[c];
    if (!schedule.crossesRanks(channel))
      continue;
    Changes &rank = changes[schedule.rankOfStage[channel.to]];
    for (int i = 0; i < schedule.microbatches; ++i) {
      if (!schedule.carries(channel, i))
        continue;
      const Interval &received = times.ofReceive(c, i);
      const Interval &first = times.of(channel.toPhase, channel.to, i);
      const Interval *last = &times.of(channel.lastReader, channel.to, i);
      const Interval &r = times.ofRecompute(channel.to, i);
      if (channel.lastReader == Phase::Forward && r.known())
        last = &r;
      if (!last->known())
        last = &first;
      rank.hold(received.known() ? received.end : first.start, last->end,
                channel.bytes);
    }
  }
  std::vector<MemoryCurve> curves;
  for (Changes &rank : changes)
    curves.push_back(rank.curve());
  return curves;
}
