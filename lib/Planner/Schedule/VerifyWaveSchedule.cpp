//===- VerifyWaveSchedule.cpp - Prove what virtual workers share ----------===//
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Planner/Schedule/Waves.h"
#include <algorithm>
#include <array>
#include <map>

using namespace pp::planner;

namespace {

/// Plays the list of one stage of one worker.
class StagePlay {
public:
  StagePlay(const Schedule &schedule, const std::vector<Action> &list,
            int steps)
      : schedule(schedule), list(list), steps(steps),
        wave(schedule.microbatches), distance(*schedule.clockDistance),
        sums(std::max(distance, 1)) {}

  /// What goes wrong first.
  std::optional<std::string> run() {
    int lag = largestLag(schedule);
    for (int handedIn = 0; handedIn < steps + lag; ++handedIn)
      for (const Action &action : list)
        if (int step = handedIn - action.lag; step >= 0 && step < steps)
          if (std::optional<std::string> fault = play(action, step))
            return toString(action, schedule.channels) + " of step " +
                   std::to_string(step) + " " + *fault;
    if (pushes != steps || pulls != steps)
      return "stage " + std::to_string(list.front().stage) + " pushes " +
             std::to_string(pushes) + " waves and pulls " +
             std::to_string(pulls) + " in " + std::to_string(steps) + " steps";
    return std::nullopt;
  }

  const std::vector<WaveStart> &getStarts() const { return starts; }

private:
  /// Of a wave, in its slot.
  struct Sum {
    int wave = -1, updates = 0;
  };

  std::optional<std::string> play(const Action &action, int step) {
    int version = std::max(step * wave + action.version, 0);
    switch (action.kind) {
    case ActionKind::Forward:
      if (action.stage == 0)
        starts.push_back(
            {0, step * wave + action.microbatch, version, clockOf(version), 0});
      return requireClock(version);
    case ActionKind::Prepare:
    case ActionKind::Recompute:
    case ActionKind::Backward:
      return requireClock(version);
    case ActionKind::Update:
      return update(step, version);
    case ActionKind::Push:
      return push(action, step);
    case ActionKind::Pull:
      return pull(action, step);
    default:
      return std::nullopt;
    }
  }

  int clockOf(int version) const {
    auto it = clocks.find(version);
    return it == clocks.end() ? 0 : it->second;
  }

  std::optional<std::string> requireClock(int version) const {
    int wanted = std::max(version / wave - distance, 0);
    if (clockOf(version) == wanted)
      return std::nullopt;
    return "uses version " + std::to_string(version) + " of the weights with " +
           std::to_string(clockOf(version)) + " waves of all workers, not " +
           std::to_string(wanted);
  }

  std::optional<std::string> update(int step, int version) {
    if (auto fault = requireClock(version - 1))
      return fault;
    clocks[version] = clockOf(version - 1);
    newest = version;
    Sum &sum = sums[step % sums.size()];
    if (version == step * wave + 1)
      sum = {step, 0};
    if (sum.wave != step)
      return "adds to the sum of wave " + std::to_string(sum.wave);
    ++sum.updates;
    return std::nullopt;
  }

  std::optional<std::string> requireWhole(int number) const {
    const Sum &sum = sums[number % sums.size()];
    if (sum.wave == number && sum.updates == wave)
      return std::nullopt;
    return "needs the whole wave " + std::to_string(number) +
           ", but there are " + std::to_string(sum.updates) +
           " updates of wave " + std::to_string(sum.wave);
  }

  std::optional<std::string> push(const Action &action, int step) {
    if (action.version != wave)
      return "is of version " + std::to_string(action.version) +
             " of its step, not the last, " + std::to_string(wave);
    if (pushes != step)
      return "comes after " + std::to_string(pushes) + " others";
    ++pushes;
    return requireWhole(step);
  }

  std::optional<std::string> pull(const Action &action, int step) {
    int wanted = std::min(step * wave + action.version, steps * wave);
    if (newest != wanted || newest % wave != 0)
      return "makes version " + std::to_string(wanted) +
             ", but the newest is " + std::to_string(newest);
    if (pulls != step)
      return "comes after " + std::to_string(pulls) + " others";
    clocks[newest] = ++pulls;
    for (int since = step + 1; since < newest / wave; ++since)
      if (auto fault = requireWhole(since))
        return fault;
    return std::nullopt;
  }

  const Schedule &schedule;
  const std::vector<Action> &list;
  int steps, wave, distance;
  std::vector<Sum> sums;
  std::map<int, int> clocks; // waves of all workers, by version
  int newest = 0, pushes = 0, pulls = 0;
  std::vector<WaveStart> starts;
};

/// The pushes and pulls of a stage of two workers, and their shard.
class MeetingPlay {
public:
  MeetingPlay(const Schedule &schedule, const std::vector<Action> &list,
              int steps)
      : slots(*schedule.clockDistance + 1) {
    int lag = largestLag(schedule);
    for (int handedIn = 0; handedIn < steps + lag; ++handedIn)
      for (const Action &action : list)
        if (int step = handedIn - action.lag;
            step >= 0 && step < steps && isOfWaves(action.kind))
          run.emplace_back(action.kind, step);
  }

  /// Waves that worker 0 pushes before worker 1 starts.
  int runAlone() {
    while (advance(0) || serve()) {
    }
    return pushed[0];
  }

  bool reachesEnd() {
    while (advance(0) || advance(1) || serve()) {
    }
    return next[0] == run.size() && next[1] == run.size();
  }

private:
  bool advance(int worker) {
    if (next[worker] == run.size())
      return false;
    auto [kind, step] = run[next[worker]];
    bool isPush = kind == ActionKind::Push;
    if (isPush ? pushed[worker] - added == slots : sent[worker] <= step)
      return false;
    ++(isPush ? pushed : pulled)[worker];
    ++next[worker];
    return true;
  }

  /// The shard's list: adds a wave of both, and sends the sum to each.
  bool serve() {
    for (int worker : {0, 1})
      if (sent[worker] < added) {
        if (sent[worker] - pulled[worker] == slots)
          return false;
        ++sent[worker];
        return true;
      }
    if (std::min(pushed[0], pushed[1]) == added)
      return false;
    ++added;
    return true;
  }

  int slots, added = 0;
  std::vector<std::pair<ActionKind, int>> run; // with its step
  std::array<size_t, 2> next{};
  std::array<int, 2> pushed{}, pulled{}, sent{};
};

} // namespace

std::vector<std::string>
pp::planner::verifyWaveSchedule(const Schedule &schedule, int steps) {
  std::vector<std::string> errors;
  std::vector<std::vector<Action>> lists = listsOfStages(schedule);
  for (const std::vector<Action> &list : lists) {
    if (list.empty())
      continue;
    StagePlay play(schedule, list, steps);
    if (std::optional<std::string> fault = play.run()) {
      errors.push_back(*fault);
      continue;
    }
    std::vector<std::string> waves =
        verifyWaves(waveRuleOf(schedule), play.getStarts());
    errors.insert(errors.end(), waves.begin(), waves.end());
  }
  if (!errors.empty())
    return errors;
  int distance = *schedule.clockDistance;
  for (const std::vector<Action> &list : lists) {
    std::string stage =
        list.empty() ? "" : "stage " + std::to_string(list.front().stage);
    MeetingPlay play(schedule, list, steps);
    if (int waves = play.runAlone(); waves <= std::min(distance, steps - 1))
      errors.push_back(stage + " waits for the other worker after " +
                       std::to_string(waves) + " waves, although it may run " +
                       std::to_string(distance + 1));
    if (!play.reachesEnd())
      errors.push_back(stage + " waits forever for the other worker");
  }
  return errors;
}
