//===- Verify.cpp - Prove that a schedule is right ------------------------===//
#include "pp/Planner/Schedule/Verify.h"
#include "Replay.h"
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

using namespace pp::planner;

namespace {

class Verifier {
public:
  Verifier(const Schedule &schedule, const SendRule &rule)
      : schedule(schedule), rule(rule) {}

  std::vector<std::string> run() {
    using Check = void (Verifier::*)();
    for (Check check : {&Verifier::checkShape, &Verifier::checkActions,
                        &Verifier::checkCompleteness, &Verifier::checkOrder,
                        &Verifier::checkMatching, &Verifier::checkCollectives,
                        &Verifier::checkTermination}) {
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
    checkGroups();
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

  void checkGroups() {
    if (!schedule.replicas.empty() &&
        schedule.replicas.size() != static_cast<size_t>(schedule.stages)) {
      error("the schedule does not say of which part each stage is a replica");
      return;
    }
    std::map<int, std::vector<int>> byPart;
    for (int stage = 0; stage < schedule.stages; ++stage)
      byPart[schedule.replicaOf(stage).part].push_back(stage);
    for (const auto &[part, stages] : byPart) {
      std::vector<bool> seen(stages.size(), false);
      for (int stage : stages) {
        Replica replica = schedule.replicaOf(stage);
        bool good = replica.count == static_cast<int>(stages.size()) &&
                    replica.number >= 0 && replica.number < replica.count &&
                    !seen[replica.number];
        if (good)
          seen[replica.number] = true;
        else
          error("stage " + std::to_string(stage) + " is replica " +
                std::to_string(replica.number) + " of " +
                std::to_string(replica.count) + " of part " +
                std::to_string(part) + ", which has " +
                std::to_string(stages.size()) + " stages");
      }
    }
    for (const RankGroup &group : schedule.groups) {
      bool good =
          !group.stages.empty() &&
          std::adjacent_find(group.stages.begin(), group.stages.end(),
                             std::greater_equal<>()) == group.stages.end();
      for (int stage : group.stages)
        good &= stage >= 0 && stage < schedule.stages;
      if (!good)
        error("group '" + group.name +
              "' does not list stages of the schedule in ascending order");
    }
  }

  void checkSlots(size_t c) {
    const Channel &channel = schedule.channels[c];
    const ChannelSlots &slots = rule.slots->channels[c];
    if (!errors.empty() || !schedule.crossesRanks(channel))
      return;
    bool good = slots.receive.size() ==
                static_cast<size_t>(std::max(schedule.microbatches, 0));
    for (int i = 0; good && i < schedule.microbatches; ++i)
      good &= !schedule.carries(channel, i) ||
              (slots.receive[i] >= 0 && slots.receive[i] < slots.receiveCount);
    if (!good)
      error("channel '" + channel.name +
            "' has no receive slot for some micro-batch");
  }

  void checkActions() {
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (const Action &action : schedule.ranks[rank]) {
        bool whole = action.isPerStep();
        bool known = action.stage >= 0 && action.stage < schedule.stages &&
                     (whole || (action.microbatch >= 0 &&
                                action.microbatch < schedule.microbatches));
        if (action.isTransfer())
          known = known && action.channel >= 0 &&
                  action.channel < static_cast<int>(schedule.channels.size());
        if (action.isCollective())
          known = known && action.group >= 0 &&
                  action.group < static_cast<int>(schedule.groups.size());
        if (!known) {
          error(name(action) + " on rank " + std::to_string(rank) +
                " names a stage, micro-batch, channel or group that does not "
                "exist");
          continue;
        }
        if (schedule.rankOfStage[action.stage] != static_cast<int>(rank))
          error(name(action) + " is on rank " + std::to_string(rank) +
                ", its stage is on rank " +
                std::to_string(schedule.rankOfStage[action.stage]));
        if (action.isCollective())
          checkMember(action);
        else if (!whole && !action.isTransfer() &&
                 !schedule.runs(action.stage, action.microbatch))
          error(name(action) + ": micro-batch " +
                std::to_string(action.microbatch) + " belongs to " +
                ownerOf(action.stage, action.microbatch) + ", not to " +
                schedule.describe(action.stage));
        if (!action.isTransfer())
          continue;
        const Channel &channel = schedule.channels[action.channel];
        if (!schedule.carries(channel, action.microbatch))
          error(name(action) + ": micro-batch " +
                std::to_string(action.microbatch) + " does not go from " +
                schedule.describe(channel.from) + " to " +
                schedule.describe(channel.to));
        int end = action.kind == ActionKind::Send ? channel.from : channel.to;
        if (end != action.stage)
          error(name(action) + " is not at an end of its channel");
        else if (!schedule.crossesRanks(channel))
          error(name(action) + " moves a value inside rank " +
                std::to_string(rank));
      }
  }

  void checkMember(const Action &action) {
    const RankGroup &group = schedule.groups[action.group];
    bool gradients = group.kind == RankGroup::Kind::Gradients;
    if (gradients != (action.kind == ActionKind::ReduceGradients))
      error(name(action) + " is not the collective of group '" + group.name +
            "'");
    else if (!std::binary_search(group.stages.begin(), group.stages.end(),
                                 action.stage))
      error(name(action) + ": " + schedule.describe(action.stage) +
            " is not in group '" + group.name + "'");
  }

  /// The replica whose micro-batch it is.
  std::string ownerOf(int stage, int microbatch) const {
    Replica replica = schedule.replicaOf(stage);
    for (int other = 0; other < schedule.stages; ++other)
      if (schedule.replicaOf(other).part == replica.part &&
          schedule.runs(other, microbatch))
        return schedule.describe(other);
    return "nobody";
  }

  void checkCompleteness() {
    training = schedule.isTraining();
    transfers = schedule.hasTransfers();
    constexpr size_t nowhere = SIZE_MAX;
    size_t cells = row(schedule.stages, 0);
    for (std::vector<size_t> &kind : at)
      kind.assign(cells, nowhere);
    std::vector<size_t> &updates = at[static_cast<size_t>(ActionKind::Update)];
    prepares.assign(schedule.stages, nowhere);
    send.assign(row(static_cast<int>(schedule.channels.size()), 0), nowhere);
    receive = send;
    collective.resize(schedule.groups.size());
    for (size_t number = 0; number < schedule.ranks.size(); ++number) {
      const std::vector<Action> &rank = schedule.ranks[number];
      for (size_t i = 0; i < rank.size(); ++i) {
        const Action &action = rank[i];
        if (action.isCollective()) {
          if (!collective[action.group].emplace(number, i).second)
            error(name(action) + " is on rank " + std::to_string(number) +
                  " twice");
          continue;
        }
        size_t &cell = action.kind == ActionKind::Send
                           ? send[row(action.channel, action.microbatch)]
                       : action.kind == ActionKind::Receive
                           ? receive[row(action.channel, action.microbatch)]
                       : action.kind == ActionKind::Prepare
                           ? prepares[action.stage]
                       : action.kind == ActionKind::Update
                           ? updates[row(action.stage, 0)]
                           : at[static_cast<size_t>(action.kind)]
                               [row(action.stage, action.microbatch)];
        if (cell != nowhere)
          error(name(action) + " is in the schedule twice");
        cell = i;
      }
    }
    for (size_t g = 0; g < schedule.groups.size(); ++g)
      for (int rank : schedule.ranksOf(schedule.groups[g]))
        if (!collective[g].count(rank))
          error(name(collectiveOf(static_cast<int>(g), rank)) +
                " is missing on rank " + std::to_string(rank) +
                ", which is in "
                "group '" +
                schedule.groups[g].name + "'");
    for (int stage = 0; stage < schedule.stages; ++stage) {
      for (int i = 0; i < schedule.microbatches; ++i) {
        if (!schedule.runs(stage, i))
          continue;
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
        if (!schedule.carries(channel, i))
          continue;
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
    for (size_t g = 0; g < schedule.groups.size(); ++g)
      checkGroupOrder(static_cast<int>(g));
  }

  Action collectiveOf(int group, int rank) const {
    const RankGroup &members = schedule.groups[group];
    Action action{members.kind == RankGroup::Kind::Gradients
                      ? ActionKind::ReduceGradients
                      : ActionKind::AllReduce};
    action.group = group;
    for (int stage : members.stages)
      if (schedule.rankOfStage[stage] == rank) {
        action.stage = stage;
        break;
      }
    return action;
  }

  /// What is added up is complete before, and used afterwards.
  void checkGroupOrder(int number) {
    const RankGroup &group = schedule.groups[number];
    for (int stage : group.stages) {
      int rank = schedule.rankOfStage[stage];
      size_t here = collective[number].at(rank);
      Action action = collectiveOf(number, rank);
      for (int i = 0; i < schedule.microbatches; ++i) {
        if (!schedule.runs(stage, i))
          continue;
        Action last{performer(Phase::BackwardWeight, stage, i), stage, i};
        mustPrecede(position(last.kind, stage, i), last, here, action);
      }
      mustPrecede(here, action, position(ActionKind::Update, stage, 0),
                  {ActionKind::Update, stage});
      if (group.kind != RankGroup::Kind::Norm)
        continue;
      for (size_t g = 0; g < schedule.groups.size(); ++g) {
        const RankGroup &other = schedule.groups[g];
        if (other.kind != RankGroup::Kind::Norm &&
            std::binary_search(other.stages.begin(), other.stages.end(), stage))
          mustPrecede(collective[g].at(rank),
                      collectiveOf(static_cast<int>(g), rank), here, action);
      }
    }
  }

  /// Ranks with two groups in common run them in one order.
  void checkCollectives() {
    std::map<std::pair<int, int>, int> before; // Groups in order: a rank.
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      std::vector<int> order;
      for (const Action &action : schedule.ranks[rank])
        if (action.isCollective())
          order.push_back(action.group);
      int here = static_cast<int>(rank);
      for (size_t second = 1; second < order.size(); ++second)
        for (size_t first = 0; first < second; ++first) {
          int a = order[first], b = order[second];
          if (auto crossed = before.find({b, a}); crossed != before.end())
            error("rank " + std::to_string(crossed->second) + " runs " +
                  name(collectiveOf(b, crossed->second)) + " before " +
                  name(collectiveOf(a, crossed->second)) + ", but rank " +
                  std::to_string(here) + " runs " +
                  name(collectiveOf(a, here)) + " before " +
                  name(collectiveOf(b, here)) + " (groups '" +
                  schedule.groups[b].name + "' and '" +
                  schedule.groups[a].name + "')");
          else
            before.try_emplace({a, b}, here);
        }
    }
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
      if (prepares[stage] != SIZE_MAX)
        mustPrecede(prepares[stage], {ActionKind::Prepare, stage}, here,
                    action);
      if (before)
        mustPrecede(position(before->kind, stage, i), *before, here, action);
      mustPrecede(here, action, updateAt, update);
      before = action;
    }
  }

  void checkChannelOrder(int number) {
    const Channel &channel = schedule.channels[number];
    for (int i = 0; i < schedule.microbatches; ++i) {
      if (!schedule.carries(channel, i))
        continue;
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
  std::vector<size_t> at[8];    // Per kind: position by stage and micro-batch.
  std::vector<size_t> prepares; // By stage.
  std::vector<size_t> send, receive; // By channel and micro-batch.
  std::vector<std::map<size_t, size_t>> collective; // Group: rank, position.
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
