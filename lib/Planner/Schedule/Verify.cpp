//===- Verify.cpp - Prove that a schedule is right ------------------------===//
#include "pp/Planner/Schedule/Verify.h"
#include "Replay.h"
#include <algorithm>
#include <optional>

using namespace pp::planner;

namespace {

class Verifier {
public:
  Verifier(const Schedule &schedule, const SendRule &rule)
      : schedule(schedule), rule(rule) {}

  std::vector<std::string> run() {
    using Check = void (Verifier::*)();
    for (Check check :
         {&Verifier::checkShape, &Verifier::checkActions,
          &Verifier::checkCompleteness, &Verifier::checkOrder,
          &Verifier::checkMatching, &Verifier::checkTermination}) {
      (this->*check)();
      if (!errors.empty())
        return std::move(errors);
    }
    return {};
  }

private:
  void error(std::string message) { errors.push_back(std::move(message)); }
  std::string name(const Action &action) const {
    return toString(action, schedule.channels);
  }
  std::string name(ActionKind kind, int stage, int microbatch,
                   int channel = -1) const {
    return name(Action{kind, stage, microbatch, channel});
  }
  size_t row(int number, int microbatch) const {
    return size_t(number) * schedule.microbatches + microbatch;
  }

  void checkShape() {
    if (schedule.stages < 1)
      error("the schedule has no stages");
    if (schedule.microbatches < 1)
      error("the schedule has no micro-batches");
    if (schedule.rankOfStage.size() != static_cast<size_t>(schedule.stages))
      error("the schedule does not say which rank has each stage");
    for (int rank : schedule.rankOfStage)
      if (rank < 0 || rank >= static_cast<int>(schedule.ranks.size()))
        error("a stage is on rank " + std::to_string(rank) +
              ", which does not exist");
    for (const Channel &channel : schedule.channels)
      if (channel.from < 0 || channel.from >= schedule.stages ||
          channel.to < 0 || channel.to >= schedule.stages ||
          channel.from == channel.to)
        error("channel '" + channel.name + "' does not connect two stages");
    size_t channels = schedule.channels.size();
    if (rule.kind == SendRule::Kind::Buffered && rule.capacity.size() != 1 &&
        rule.capacity.size() != channels)
      error("the number of capacities is not that of the channels");
    if (rule.kind == SendRule::Kind::Slots &&
        (!rule.slots || rule.slots->channels.size() != channels))
      error("the number of slot assignments is not that of the channels");
    else if (rule.kind == SendRule::Kind::Slots)
      for (size_t c = 0; c < channels; ++c)
        checkSlots(c);
  }

  void checkSlots(size_t c) {
    const Channel &channel = schedule.channels[c];
    const ChannelSlots &slots = rule.slots->channels[c];
    if (!errors.empty() || !schedule.crossesRanks(channel))
      return;
    bool good = slots.receive.size() ==
                static_cast<size_t>(std::max(schedule.microbatches, 0));
    for (int slot : slots.receive)
      good &= slot >= 0 && slot < slots.receiveCount;
    if (!good)
      error("channel '" + channel.name +
            "' has no receive slot for some micro-batch");
  }

  void checkActions() {
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (const Action &action : schedule.ranks[rank]) {
        bool update = action.kind == ActionKind::Update;
        bool known = action.stage >= 0 && action.stage < schedule.stages &&
                     (update || (action.microbatch >= 0 &&
                                 action.microbatch < schedule.microbatches));
        if (action.isTransfer())
          known = known && action.channel >= 0 &&
                  action.channel < static_cast<int>(schedule.channels.size());
        if (!known) {
          error(name(action) + " on rank " + std::to_string(rank) +
                " names a stage, micro-batch or channel that does not exist");
          continue;
        }
        if (schedule.rankOfStage[action.stage] != static_cast<int>(rank))
          error(name(action) + " is on rank " + std::to_string(rank) +
                ", its stage is on rank " +
                std::to_string(schedule.rankOfStage[action.stage]));
        if (!action.isTransfer())
          continue;
        const Channel &channel = schedule.channels[action.channel];
        int end = action.kind == ActionKind::Send ? channel.from : channel.to;
        if (end != action.stage)
          error(name(action) + " is not at an end of its channel");
        else if (!schedule.crossesRanks(channel))
          error(name(action) + " moves a value inside rank " +
                std::to_string(rank));
      }
  }

  void checkCompleteness() {
    training = schedule.isTraining();
    transfers = schedule.hasTransfers();
    constexpr size_t nowhere = SIZE_MAX;
    size_t cells = row(schedule.stages, 0);
    for (std::vector<size_t> &kind : at)
      kind.assign(cells, nowhere);
    std::vector<size_t> &updates = at[static_cast<size_t>(ActionKind::Update)];
    send.assign(row(static_cast<int>(schedule.channels.size()), 0), nowhere);
    receive = send;
    for (const std::vector<Action> &rank : schedule.ranks)
      for (size_t i = 0; i < rank.size(); ++i) {
        const Action &action = rank[i];
        size_t &cell = action.kind == ActionKind::Send
                           ? send[row(action.channel, action.microbatch)]
                       : action.kind == ActionKind::Receive
                           ? receive[row(action.channel, action.microbatch)]
                       : action.kind == ActionKind::Update
                           ? updates[row(action.stage, 0)]
                           : at[static_cast<size_t>(action.kind)]
                               [row(action.stage, action.microbatch)];
        if (cell != nowhere)
          error(name(action) + " is in the schedule twice");
        cell = i;
      }
    for (int stage = 0; stage < schedule.stages; ++stage) {
      for (int i = 0; i < schedule.microbatches; ++i) {
        auto has = [&](ActionKind kind) {
          return position(kind, stage, i) != nowhere;
        };
        if (!has(ActionKind::Forward))
          error(name(ActionKind::Forward, stage, i) + " is missing");
        if (!training)
          continue;
        bool whole = has(ActionKind::Backward);
        bool input = has(ActionKind::BackwardInput);
        bool weight = has(ActionKind::BackwardWeight);
        if (whole && (input || weight))
          error(name(input ? ActionKind::BackwardInput
                           : ActionKind::BackwardWeight,
                     stage, i) +
                " repeats a part of " + name(ActionKind::Backward, stage, i));
        else if (!whole && !input && !weight)
          error(name(ActionKind::Backward, stage, i) + " is missing");
        else if (!whole && !input)
          error(name(ActionKind::BackwardInput, stage, i) + " is missing");
        else if (!whole && !weight)
          error(name(ActionKind::BackwardWeight, stage, i) + " is missing");
      }
      if (training && updates[row(stage, 0)] == nowhere)
        error(name(ActionKind::Update, stage, -1) + " is missing");
    }
    for (size_t c = 0; transfers && c < schedule.channels.size(); ++c) {
      const Channel &channel = schedule.channels[c];
      if (!schedule.crossesRanks(channel))
        continue;
      int number = static_cast<int>(c);
      for (int i = 0; i < schedule.microbatches; ++i) {
        if (send[row(number, i)] == nowhere)
          error(name(ActionKind::Send, channel.from, i, number) +
                " is missing");
        if (receive[row(number, i)] == nowhere)
          error(name(ActionKind::Receive, channel.to, i, number) +
                " is missing");
      }
    }
  }

  size_t position(ActionKind kind, int stage, int microbatch) const {
    return at[static_cast<size_t>(kind)][row(stage, microbatch)];
  }

  /// Positions on one rank, with the actions that stand there.
  void mustPrecede(size_t first, const Action &firstAction, size_t second,
                   const Action &secondAction) {
    if (first != SIZE_MAX && second != SIZE_MAX && first > second)
      error(name(firstAction) + " comes after " + name(secondAction));
  }

  /// The action of a stage that performs a phase.
  ActionKind performer(Phase phase, int stage, int microbatch) const {
    if (phase == Phase::Forward)
      return ActionKind::Forward;
    if (position(ActionKind::Backward, stage, microbatch) != SIZE_MAX)
      return ActionKind::Backward;
    return phase == Phase::BackwardInput ? ActionKind::BackwardInput
                                         : ActionKind::BackwardWeight;
  }

  void checkOrder() {
    for (int stage = 0; stage < schedule.stages; ++stage)
      for (int i = 0; i < schedule.microbatches; ++i)
        checkStageOrder(stage, i);
    for (size_t c = 0; c < schedule.channels.size(); ++c)
      checkChannelOrder(static_cast<int>(c));
  }

  void checkStageOrder(int stage, int i) {
    constexpr ActionKind order[] = {
        ActionKind::Forward, ActionKind::Recompute, ActionKind::BackwardInput,
        ActionKind::BackwardWeight, ActionKind::Backward};
    Action update{ActionKind::Update, stage};
    size_t updateAt =
        training ? position(ActionKind::Update, stage, 0) : SIZE_MAX;
    std::optional<Action> before;
    for (ActionKind kind : order) {
      size_t here = position(kind, stage, i);
      if (here == SIZE_MAX)
        continue;
      Action action{kind, stage, i};
      if (before)
        mustPrecede(position(before->kind, stage, i), *before, here, action);
      mustPrecede(here, action, updateAt, update);
      before = action;
    }
  }

  void checkChannelOrder(int number) {
    const Channel &channel = schedule.channels[number];
    for (int i = 0; i < schedule.microbatches; ++i) {
      Action maker{performer(channel.fromPhase, channel.from, i), channel.from,
                   i};
      Action reader{performer(channel.toPhase, channel.to, i), channel.to, i};
      size_t madeAt = position(maker.kind, maker.stage, i);
      size_t readAt = position(reader.kind, reader.stage, i);
      if (madeAt == SIZE_MAX || readAt == SIZE_MAX) {
        error("channel '" + channel.name +
              "' joins phases that the schedule does not run");
        return;
      }
      if (!schedule.crossesRanks(channel)) {
        mustPrecede(madeAt, maker, readAt, reader);
        continue;
      }
      if (!transfers)
        continue;
      Action sending{ActionKind::Send, channel.from, i, number};
      Action receiving{ActionKind::Receive, channel.to, i, number};
      size_t sentAt = send[row(number, i)];
      mustPrecede(madeAt, maker, sentAt, sending);
      mustPrecede(receive[row(number, i)], receiving, readAt, reader);
      if (training)
        mustPrecede(sentAt, sending,
                    position(ActionKind::Update, channel.from, 0),
                    {ActionKind::Update, channel.from});
    }
  }

  /// Sends and receives of a channel are paired by their order.
  void checkMatching() {
    if (!transfers)
      return;
    std::vector<std::vector<int>> sends(schedule.channels.size());
    std::vector<std::vector<int>> receives(schedule.channels.size());
    for (const std::vector<Action> &rank : schedule.ranks)
      for (const Action &action : rank)
        if (action.isTransfer())
          (action.kind == ActionKind::Send ? sends : receives)[action.channel]
              .push_back(action.microbatch);
    for (size_t c = 0; c < sends.size(); ++c) {
      auto [s, r] = std::mismatch(sends[c].begin(), sends[c].end(),
                                  receives[c].begin(), receives[c].end());
      if (s == sends[c].end())
        continue;
      const Channel &channel = schedule.channels[c];
      int number = static_cast<int>(c);
      error("channel '" + channel.name +
            "': " + name(ActionKind::Send, channel.from, *s, number) +
            " would be received by " +
            name(ActionKind::Receive, channel.to, *r, number));
    }
  }

  void checkTermination() {
    Replay replay(schedule, rule);
    if (!replay.run())
      error(replay.explain());
  }

  const Schedule &schedule;
  const SendRule &rule;
  std::vector<std::string> errors;
  bool training = false, transfers = false;
  std::vector<size_t> at[8]; // Per kind: position by stage and micro-batch.
  std::vector<size_t> send, receive; // By channel and micro-batch.
};

} // namespace

std::vector<std::string> pp::planner::verifySchedule(const Schedule &schedule,
                                                     const SendRule &rule) {
  return Verifier(schedule, rule).run();
}

int pp::planner::minimalCapacity(const Schedule &schedule) {
  auto completes = [&](int capacity) {
    SendRule rule{SendRule::Kind::Buffered, {capacity}, nullptr};
    return Replay(schedule, rule).run();
  };
  // With more room a rank never waits longer, so the answer can be bisected.
  int low = 0, high = schedule.microbatches;
  if (!completes(high))
    return -1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (completes(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
