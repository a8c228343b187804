//===- SharedLinks.cpp - Simulation of links with several channels --------===//
#include "SharedLinks.h"
#include "Schedule/Replay.h"
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>

using namespace pp::planner;

namespace {

class EventSimulation {
public:
  EventSimulation(const Schedule &schedule, const SimulationInput &input)
      : schedule(schedule), input(input),
        transfersListed(schedule.hasTransfers()), heads(schedule.ranks.size()),
        running(schedule.ranks.size(), false), busyUntil(schedule.ranks.size()),
        timed(schedule.ranks.size()), incoming(schedule.stages),
        outgoing(schedule.stages) {
    for (const RankGroup &group : schedule.groups)
      members.push_back(schedule.ranksOf(group));
    present.resize(members.size());
    size_t channels = schedule.channels.size();
    arrived.assign(channels * schedule.microbatches, false);
    for (size_t c = 0; c < channels; ++c) {
      incoming[schedule.channels[c].to].push_back(static_cast<int>(c));
      outgoing[schedule.channels[c].from].push_back(static_cast<int>(c));
    }
  }

  std::vector<std::vector<TimedAction>> run() {
    for (size_t rank = 0; rank < heads.size(); ++rank)
      advance(static_cast<int>(rank), 0);
    while (!events.empty()) {
      Event event = events.top();
      events.pop();
      if (event.kind == Event::End) {
        running[event.rank] = false;
        finish(event.rank, event.time);
      } else {
        arrived[event.cell] = true;
      }
      advance(event.rank, event.time);
    }
    return std::move(timed);
  }

private:
  struct Event {
    double time;
    // At one time, actions end before values arrive, ranks in order.
    enum Kind { End, Arrival } kind;
    int rank;
    size_t cell; // Arrival: channel and micro-batch.

    bool operator>(const Event &other) const {
      return std::tie(time, kind, rank, cell) >
             std::tie(other.time, other.kind, other.rank, other.cell);
    }
  };

  size_t cell(int channel, int microbatch) const {
    return size_t(channel) * schedule.microbatches + microbatch;
  }
  bool crosses(int channel) const {
    return schedule.crossesRanks(schedule.channels[channel]);
  }

  bool ready(const Action &action) const {
    if (action.kind == ActionKind::Receive)
      return arrived[cell(action.channel, action.microbatch)];
    for (int c : incoming[action.stage])
      if (action.performs(schedule.channels[c].toPhase) && crosses(c) &&
          !transfersListed &&
          schedule.carries(schedule.channels[c], action.microbatch) &&
          !arrived[cell(c, action.microbatch)])
        return false;
    return true;
  }

  /// Starts the next action of a rank that is free.
  void advance(int rank, double now) {
    while (heads[rank] < schedule.ranks[rank].size() && !running[rank]) {
      const Action &action = schedule.ranks[rank][heads[rank]];
      // A receive lasts from when the rank reaches it.
      if (action.kind == ActionKind::Receive) {
        if (!ready(action))
          return;
        timed[rank].push_back({action, busyUntil[rank], now});
        busyUntil[rank] = now;
        ++heads[rank];
        continue;
      }
      if (action.isCollective()) {
        meet(rank, action.group, now);
        continue;
      }
      if (!ready(action))
        return;
      double end = now + actionTime(input, action);
      if (action.kind == ActionKind::Send) {
        double arrival = send(action.channel, action.microbatch, now);
        end = input.sendOccupiesRank ? arrival : now;
      }
      timed[rank].push_back({action, now, end});
      busyUntil[rank] = end;
      ++heads[rank];
      if (end > now || !action.isTransfer()) {
        running[rank] = true;
        events.push({end, Event::End, rank, 0});
      }
    }
  }

  /// The last rank to come takes the others with it.
  void meet(int rank, int group, double now) {
    running[rank] = true;
    present[group].push_back(rank);
    if (present[group].size() < members[group].size())
      return;
    double end = now;
    if (!input.collectives.empty())
      end += input.collectives[input.collectives.size() == 1 ? 0 : group];
    for (int member : present[group]) {
      timed[member].push_back(
          {schedule.ranks[member][heads[member]], busyUntil[member], end});
      busyUntil[member] = end;
      ++heads[member];
      events.push({end, Event::End, member, 0});
    }
    present[group].clear();
  }

  void finish(int rank, double now) {
    const Action &action = timed[rank].back().action;
    if (transfersListed || action.isTransfer() || action.isCollective())
      return;
    for (int c : outgoing[action.stage])
      if (action.performs(schedule.channels[c].fromPhase) && crosses(c) &&
          schedule.carries(schedule.channels[c], action.microbatch))
        send(c, action.microbatch, now);
  }

  double send(int channel, int microbatch, double now) {
    double transfer =
        input.transfers.empty()
            ? 0
            : input.transfers[input.transfers.size() == 1 ? 0 : channel];
    double arrival = now + transfer;
    if (int link = input.linkOfChannel[channel]; link >= 0) {
      double &free = linkFree[link];
      arrival = std::max(free, now) + transfer;
      free = arrival;
    }
    events.push({arrival, Event::Arrival,
                 schedule.rankOfStage[schedule.channels[channel].to],
                 cell(channel, microbatch)});
    return arrival;
  }

  const Schedule &schedule;
  const SimulationInput &input;
  bool transfersListed;
  std::vector<size_t> heads;
  std::vector<bool> running;
  std::vector<double> busyUntil;
  std::vector<std::vector<TimedAction>> timed;
  std::vector<std::vector<int>> incoming, outgoing; // Stage: channels.
  std::vector<bool> arrived;
  std::vector<std::vector<int>> members, present; // Group: ranks.
  std::map<int, double> linkFree; // By link: the end of its last transfer.
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
};

} // namespace

std::vector<std::vector<TimedAction>>
pp::planner::simulateSharedLinks(const Schedule &schedule,
                                 const SimulationInput &input) {
  return EventSimulation(schedule, input).run();
}
