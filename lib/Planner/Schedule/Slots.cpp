//===- Slots.cpp - Which buffer each micro-batch uses ---------------------===//
#include "pp/Planner/Schedule/Slots.h"
#include <algorithm>
#include <functional>
#include <queue>

using namespace pp::planner;

namespace {

struct Life {
  size_t begin, end; // Positions in one rank's list, both included.
  int *slot;
};

/// Left-edge interval colouring (Hashimoto and Stevens, 1971): the number of
/// slots is the largest number of lives at one position.
int colour(std::vector<Life> &lives) {
  std::sort(lives.begin(), lives.end(), [](const Life &a, const Life &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  using Ending = std::pair<size_t, int>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> alive;
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  int count = 0;
  for (const Life &life : lives) {
    while (!alive.empty() && alive.top().first < life.begin) {
      free.push(alive.top().second);
      alive.pop();
    }
    int slot = count;
    if (free.empty()) {
      ++count;
    } else {
      slot = free.top();
      free.pop();
    }
    *life.slot = slot;
    alive.push({life.end, slot});
  }
  return count;
}

constexpr size_t nowhere = SIZE_MAX;

/// Where the actions of a stage stand in its rank's list, per micro-batch.
struct Positions {
  explicit Positions(const Schedule &schedule) {
    size_t size = size_t(schedule.stages) * schedule.microbatches;
    for (std::vector<size_t> &kind : at)
      kind.assign(size, nowhere);
    send.assign(schedule.channels.size() * schedule.microbatches, nowhere);
    receive = send;
    for (const std::vector<Action> &rank : schedule.ranks)
      for (size_t i = 0; i < rank.size(); ++i) {
        const Action &action = rank[i];
        size_t m = schedule.microbatches;
        if (action.kind == ActionKind::Send)
          send[action.channel * m + action.microbatch] = i;
        else if (action.kind == ActionKind::Receive)
          receive[action.channel * m + action.microbatch] = i;
        else if (!action.isPerStep())
          at[static_cast<size_t>(action.kind)]
            [action.stage * m + action.microbatch] = i;
      }
    microbatches = schedule.microbatches;
  }

  size_t of(ActionKind kind, int stage, int microbatch) const {
    return at[static_cast<size_t>(kind)]
             [size_t(stage) * microbatches + microbatch];
  }
  size_t ofPhase(Phase phase, int stage, int microbatch) const {
    switch (phase) {
    case Phase::Forward:
      return of(ActionKind::Forward, stage, microbatch);
    case Phase::BackwardInput:
      return std::min(of(ActionKind::BackwardInput, stage, microbatch),
                      of(ActionKind::Backward, stage, microbatch));
    case Phase::BackwardWeight:
      return std::min(of(ActionKind::BackwardWeight, stage, microbatch),
                      of(ActionKind::Backward, stage, microbatch));
    case Phase::Update:
    case Phase::Prepare:
      break;
    }
    return nowhere;
  }
  /// For each micro-batch that the stage runs.
  bool hasAll(ActionKind kind, int stage) const {
    for (int i = 0; i < microbatches; ++i)
      if (of(kind, stage, i) == nowhere &&
          of(ActionKind::Forward, stage, i) != nowhere)
        return false;
    return true;
  }
  bool hasAny(ActionKind kind, int stage) const {
    for (int i = 0; i < microbatches; ++i)
      if (of(kind, stage, i) != nowhere)
        return true;
    return false;
  }

  std::vector<size_t> at[8];
  std::vector<size_t> send, receive;
  int microbatches = 0;
};

ActionKind releaseAction(const Positions &positions, const Channel &channel) {
  int stage = channel.to;
  bool recomputes = positions.hasAny(ActionKind::Recompute, stage);
  if (channel.lastReader == Phase::Forward) {
    if (!recomputes)
      return ActionKind::Forward;
    if (positions.hasAll(ActionKind::Recompute, stage))
      return ActionKind::Recompute;
  }
  // B where the schedule has no I and W.
  if (positions.hasAll(ActionKind::Backward, stage))
    return ActionKind::Backward;
  return channel.lastReader == Phase::BackwardWeight
             ? ActionKind::BackwardWeight
             : ActionKind::BackwardInput;
}

void assignStage(const Schedule &schedule, const Positions &positions,
                 int stage, StageSlots &slots) {
  slots.forward.assign(schedule.microbatches, 0);
  slots.backward.assign(schedule.microbatches, 0);
  std::vector<Life> lives;
  for (int i = 0; i < schedule.microbatches; ++i) {
    if (!schedule.runs(stage, i))
      continue;
    size_t forward = positions.of(ActionKind::Forward, stage, i);
    size_t recompute = positions.of(ActionKind::Recompute, stage, i);
    size_t end = positions.ofPhase(Phase::BackwardWeight, stage, i);
    if (recompute != nowhere) {
      lives.push_back({forward, forward, &slots.forward[i]});
      lives.push_back({recompute, end, &slots.backward[i]});
    } else {
      // In inference nothing outlives F.
      lives.push_back(
          {forward, end == nowhere ? forward : end, &slots.forward[i]});
    }
  }
  slots.count = colour(lives);
  for (int i = 0; i < schedule.microbatches; ++i)
    if (positions.of(ActionKind::Recompute, stage, i) == nowhere)
      slots.backward[i] = slots.forward[i];
}

void assignChannel(const Schedule &schedule, const Positions &positions,
                   size_t c, const SlotOptions &options, ChannelSlots &slots) {
  const Channel &channel = schedule.channels[c];
  int m = schedule.microbatches;
  slots.release = releaseAction(positions, channel);
  slots.receive.assign(m, 0);
  if (!schedule.crossesRanks(channel)) {
    std::vector<Life> lives;
    for (int i = 0; i < m; ++i)
      if (schedule.carries(channel, i))
        lives.push_back({positions.ofPhase(channel.fromPhase, channel.from, i),
                         positions.of(slots.release, channel.to, i),
                         &slots.receive[i]});
    slots.receiveCount = colour(lives);
    return;
  }
  slots.send.assign(m, 0);
  std::vector<Life> sends, receives;
  for (int i = 0; i < m; ++i) {
    if (!schedule.carries(channel, i))
      continue;
    sends.push_back({positions.ofPhase(channel.fromPhase, channel.from, i),
                     positions.send[c * m + i], &slots.send[i]});
    receives.push_back({positions.receive[c * m + i],
                        positions.of(slots.release, channel.to, i),
                        &slots.receive[i]});
  }
  slots.sendCount = colour(sends);
  if (options.receiveSlack > 0) {
    // The value may come when the one `receiveSlack` before it is received.
    std::sort(receives.begin(), receives.end(),
              [](const Life &a, const Life &b) { return a.begin < b.begin; });
    size_t slack = static_cast<size_t>(options.receiveSlack);
    for (size_t i = receives.size(); i-- > 0;)
      receives[i].begin = i >= slack ? receives[i - slack].begin : 0;
  }
  slots.receiveCount = colour(receives);
}

} // namespace

SlotAssignment pp::planner::assignSlots(const Schedule &schedule,
                                        SlotOptions options) {
  Positions positions(schedule);
  SlotAssignment result;
  result.stages.resize(schedule.stages);
  result.channels.resize(schedule.channels.size());
  for (int stage = 0; stage < schedule.stages; ++stage)
    assignStage(schedule, positions, stage, result.stages[stage]);
  bool hasTransfers = schedule.hasTransfers();
  for (size_t c = 0; c < schedule.channels.size(); ++c)
    if (hasTransfers || !schedule.crossesRanks(schedule.channels[c]))
      assignChannel(schedule, positions, c, options, result.channels[c]);
  return result;
}

std::vector<int64_t>
pp::planner::peakBytes(const Schedule &schedule,
                       const std::vector<int64_t> &forwardBytes,
                       const std::vector<int64_t> &weightBytes) {
  auto of = [](const std::vector<int64_t> &bytes, int stage) {
    return bytes.empty() ? 0 : bytes[bytes.size() == 1 ? 0 : stage];
  };
  std::vector<int64_t> peaks;
  for (const std::vector<Action> &rank : schedule.ranks) {
    int64_t kept = 0, most = 0;
    for (const Action &action : rank) {
      bool input = action.performs(Phase::BackwardInput);
      bool weight = action.performs(Phase::BackwardWeight);
      if (action.performs(Phase::Forward))
        kept += of(forwardBytes, action.stage);
      if (input)
        kept += of(weightBytes, action.stage) - of(forwardBytes, action.stage);
      most = std::max(most, kept);
      if (weight)
        kept -= of(weightBytes, action.stage);
    }
    peaks.push_back(most);
  }
  return peaks;
}
