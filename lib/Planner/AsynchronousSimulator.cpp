//===- AsynchronousSimulator.cpp - Time and memory without a flush --------===//
#include "pp/Planner/AsynchronousSimulator.h"
#include <algorithm>
#include <numeric>
#include <optional>

using namespace pp::planner;

namespace {

class Simulator {
public:
  Simulator(const AsynchronousSchedule &schedule,
            const AsynchronousInput &input)
      : schedule(schedule), input(input) {}

  Result<AsynchronousSimulation> run() {
    if (std::optional<std::string> fault = check())
      return Failure{*fault};
    size_t cells = cell(schedule.stages, 0);
    forwards.assign(cells, never);
    backwards = forwards;
    heads.assign(schedule.ranks.size(), 0);
    clock.assign(schedule.ranks.size(), 0);
    result.ranks.resize(schedule.ranks.size());
    bool moved = true;
    while (moved) {
      moved = false;
      // From the first stage to the last and back a micro-batch passes in one
      // round.
      for (int stage = 0; stage < schedule.stages; ++stage)
        moved |= advance(stage);
      for (int stage = schedule.stages - 1; stage >= 0; --stage)
        moved |= advance(stage);
    }
    for (const std::vector<TimedVersion> &rank : result.ranks)
      if (!rank.empty())
        result.makespan = std::max(result.makespan, rank.back().end);
    if (std::optional<std::string> fault = measure())
      return Failure{*fault};
    return std::move(result);
  }

private:
  static constexpr double never = -1;

  std::optional<std::string> check() const {
    if (std::vector<std::string> faults = verifyVersions(schedule);
        !faults.empty())
      return faults.front();
    size_t stages = schedule.stages;
    if (input.stages.size() != 1 && input.stages.size() != stages)
      return "there are times for " + std::to_string(input.stages.size()) +
             " stages, not " + std::to_string(stages);
    if (input.transfers.size() > 1 && input.transfers.size() != stages - 1)
      return "there are times for " + std::to_string(input.transfers.size()) +
             " borders of stages, not " + std::to_string(stages - 1);
    return std::nullopt;
  }

  size_t cell(int stage, int microbatch) const {
    return size_t(stage) * schedule.microbatches + microbatch;
  }
  const StageTimes &timesOf(int stage) const {
    return input.stages[input.stages.size() == 1 ? 0 : stage];
  }
  /// Between `stage` and the next.
  double transfer(int stage) const {
    return input.transfers.empty()
               ? 0
               : input.transfers[input.transfers.size() == 1 ? 0 : stage];
  }
  const VersionedAction *head(int rank) const {
    const std::vector<VersionedAction> &list = schedule.ranks[rank];
    return heads[rank] < list.size() ? &list[heads[rank]] : nullptr;
  }
  void finish(int rank, double start, double end) {
    result.ranks[rank].push_back({*head(rank), start, end});
    clock[rank] = end;
    ++heads[rank];
  }

  bool advance(int stage) {
    bool moved = false;
    for (bool again = true; again;) {
      again = false;
      for (int rank : schedule.ranksOfStage[stage])
        while (step(rank))
          again = true;
      moved |= again;
    }
    return moved;
  }

  bool step(int rank) {
    const VersionedAction *action = head(rank);
    if (!action)
      return false;
    int stage = action->stage, i = action->microbatch;
    const StageTimes &times = timesOf(stage);
    double start = clock[rank];
    if (action->kind == ActionKind::Forward) {
      if (stage > 0) {
        double made = forwards[cell(stage - 1, i)];
        if (made < 0)
          return false;
        start = std::max(start, made + transfer(stage - 1));
      }
      double end = start + times.forward;
      forwards[cell(stage, i)] = end;
      finish(rank, start, end);
      return true;
    }
    if (action->kind == ActionKind::Backward) {
      if (stage + 1 < schedule.stages) {
        double made = backwards[cell(stage + 1, i)];
        if (made < 0)
          return false;
        start = std::max(start, made + transfer(stage));
      }
      double end = start + times.backwardInput + times.backwardWeight;
      backwards[cell(stage, i)] = end;
      finish(rank, start, end);
      return true;
    }
    // The k-th updates of all replicas are one.
    for (int replica : schedule.ranksOfStage[stage]) {
      const VersionedAction *other = head(replica);
      if (!other || other->kind != ActionKind::Update)
        return false;
      start = std::max(start, clock[replica]);
    }
    for (int replica : schedule.ranksOfStage[stage])
      finish(replica, start, start + times.update);
    return true;
  }

  std::optional<std::string> measure() {
    int period = schedule.microbatchesPerUpdate;
    for (const std::vector<int> &ranks : schedule.ranksOfStage)
      period = static_cast<int>(std::min<int64_t>(
          std::lcm<int64_t>(period, ranks.size()), schedule.microbatches));
    int n = schedule.microbatches;
    int first = (n / 2 + period - 1) / period * period;
    int last = std::max(n - static_cast<int>(schedule.ranks.size()), 0) /
               period * period;
    if (first < 1 || last <= first)
      return std::to_string(n) +
             " micro-batches are too few for a steady state of " +
             std::to_string(schedule.ranks.size()) +
             " ranks with updates every " + std::to_string(period);
    double from = backwards[cell(0, first - 1)];
    double to = backwards[cell(0, last - 1)];
    if (!(to > from))
      return "the stages take no time";
    result.throughput = (last - first) / (to - from);
    for (const std::vector<TimedVersion> &rank : result.ranks) {
      double busy = 0;
      for (const TimedVersion &timed : rank)
        busy +=
            std::max(0., std::min(timed.end, to) - std::max(timed.start, from));
      result.utilization.push_back(busy / (to - from));
    }
    return std::nullopt;
  }

  const AsynchronousSchedule &schedule;
  const AsynchronousInput &input;
  std::vector<double> forwards, backwards; // Ends, by stage and micro-batch.
  std::vector<size_t> heads;
  std::vector<double> clock;
  AsynchronousSimulation result;
};

} // namespace

Result<AsynchronousSimulation>
pp::planner::simulateAsynchronous(const AsynchronousSchedule &schedule,
                                  const AsynchronousInput &input) {
  return Simulator(schedule, input).run();
}

std::vector<int64_t>
pp::planner::asynchronousPeakBytes(const AsynchronousSchedule &schedule,
                                   const std::vector<int64_t> &parameterBytes,
                                   const std::vector<int64_t> &savedBytes) {
  auto of = [](const std::vector<int64_t> &bytes, int stage) {
    return bytes.empty() ? 0 : bytes[bytes.size() == 1 ? 0 : stage];
  };
  std::vector<int> versions = keptVersions(schedule);
  std::vector<int64_t> peaks;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<VersionedAction> &list = schedule.ranks[rank];
    int64_t kept = 0, most = 0;
    for (const VersionedAction &action : list) {
      if (action.kind == ActionKind::Forward)
        most = std::max(most, ++kept);
      if (action.kind == ActionKind::Backward)
        --kept;
    }
    int stage = list.empty() ? 0 : list.front().stage;
    peaks.push_back(versions[rank] * of(parameterBytes, stage) +
                    most * of(savedBytes, stage));
  }
  return peaks;
}
