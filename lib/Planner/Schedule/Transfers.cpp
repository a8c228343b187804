//===- Transfers.cpp - Add sends and receives to a schedule ---------------===//
#include "pp/Planner/Schedule/Transfers.h"
#include "Replay.h"
#include <algorithm>

using namespace pp::planner;

/// Sends directly after, receives directly before.
static void insertNaively(Schedule &schedule) {
  std::vector<std::vector<int>> outgoing(schedule.stages);
  std::vector<std::vector<int>> incoming(schedule.stages);
  for (size_t c = 0; c < schedule.channels.size(); ++c) {
    const Channel &channel = schedule.channels[c];
    if (!schedule.crossesRanks(channel))
      continue;
    outgoing[channel.from].push_back(static_cast<int>(c));
    incoming[channel.to].push_back(static_cast<int>(c));
  }
  for (std::vector<Action> &rank : schedule.ranks) {
    std::vector<Action> actions;
    for (const Action &action : rank) {
      for (int c : incoming[action.stage])
        if (action.performs(schedule.channels[c].toPhase) &&
            schedule.carries(schedule.channels[c], action.microbatch))
          actions.push_back(
              {ActionKind::Receive, action.stage, action.microbatch, c});
      actions.push_back(action);
      for (int c : outgoing[action.stage])
        if (action.performs(schedule.channels[c].fromPhase) &&
            schedule.carries(schedule.channels[c], action.microbatch))
          actions.push_back(
              {ActionKind::Send, action.stage, action.microbatch, c});
    }
    rank = std::move(actions);
  }
}

/// Where `receiver` has the receive of the send that `sender` stands at, if it
/// is less than `within` actions ahead; 0 if not.
static size_t distanceToReceive(const Replay &replay, const Schedule &schedule,
                                const Action &send, size_t within,
                                int &receiver) {
  receiver = schedule.rankOfStage[schedule.channels[send.channel].to];
  const std::vector<Action> &list = replay.list(receiver);
  size_t here = replay.position(receiver);
  for (size_t distance = 1; distance < within && here + distance < list.size();
       ++distance) {
    const Action &action = list[here + distance];
    if (action.kind == ActionKind::Receive && action.channel == send.channel &&
        action.microbatch == send.microbatch)
      return distance;
  }
  return 0;
}

/// The order of the actions itself allows no end: the waits without transfers.
static Failure explainCircle(Schedule schedule, std::vector<Channel> channels) {
  schedule.channels = std::move(channels);
  SendRule unbounded{SendRule::Kind::Unbounded, {}, nullptr};
  Replay replay(schedule, unbounded);
  replay.run();
  return Failure{replay.explain()};
}

Schedule pp::planner::sendEarly(Schedule schedule) {
  for (std::vector<Action> &list : schedule.ranks)
    for (auto begin = list.begin(); begin != list.end();) {
      auto end = std::find_if_not(begin, list.end(), [](const Action &action) {
        return action.isTransfer();
      });
      std::stable_partition(begin, end, [](const Action &action) {
        return action.kind == ActionKind::Send;
      });
      begin = end == list.end() ? end : std::next(end);
    }
  return schedule;
}

Result<Schedule> pp::planner::insertTransfers(const Schedule &schedule,
                                              std::vector<Channel> channels) {
  if (schedule.hasTransfers())
    return Failure{"the schedule has transfers already"};
  for (const Channel &channel : channels)
    if (channel.from < 0 || channel.to < 0 || channel.from >= schedule.stages ||
        channel.to >= schedule.stages || channel.from == channel.to)
      return Failure{"channel '" + channel.name + "' from stage " +
                     std::to_string(channel.from) + " to stage " +
                     std::to_string(channel.to) +
                     " does not connect two stages of the schedule"};
  Schedule result = schedule;
  result.channels = std::move(channels);
  insertNaively(result);
  SendRule rendezvous;
  Replay replay(result, rendezvous);
  while (!replay.run()) {
    size_t nearest = SIZE_MAX;
    int nearestRank = -1;
    for (size_t rank = 0; rank < result.ranks.size(); ++rank) {
      if (replay.position(rank) == replay.list(rank).size())
        continue;
      const Action &action = replay.list(rank)[replay.position(rank)];
      if (action.kind != ActionKind::Send)
        continue;
      int receiver = -1;
      size_t distance =
          distanceToReceive(replay, result, action, nearest, receiver);
      if (distance) {
        nearest = distance;
        nearestRank = receiver;
      }
    }
    // Ranks that all stand in receives wait for compute in a circle.
    if (nearestRank < 0)
      return explainCircle(schedule, std::move(result.channels));
    replay.hoist(nearestRank, replay.position(nearestRank) + nearest);
  }
  for (size_t rank = 0; rank < result.ranks.size(); ++rank)
    result.ranks[rank] = replay.list(rank);
  return result;
}
