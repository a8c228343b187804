//===- Replay.cpp - Run a schedule without its work -----------------------===//
#include "Replay.h"
#include "RankQueue.h"
#include <algorithm>

using namespace pp::planner;

static constexpr double never = -1;

Replay::Replay(const Schedule &schedule, const SendRule &rule,
               const SimulationInput *input)
    : schedule(schedule), rule(rule), input(input),
      transfersListed(schedule.hasTransfers()), lists(schedule.ranks),
      heads(lists.size(), 0), clock(lists.size(), 0), timed(lists.size()) {
  size_t channels = schedule.channels.size();
  for (std::vector<double> &times : doneAt)
    times.assign(index(schedule.stages, 0), never);
  arrivedAt.assign(index(static_cast<int>(channels), 0), never);
  releasedAt = arrivedAt;
  receivedAt.resize(channels);
  sent.assign(channels, 0);
  incoming.resize(schedule.stages);
  outgoing.resize(schedule.stages);
  leftAt.assign(arrivedAt.size(), 0);
  neighbors.resize(lists.size());
  for (size_t c = 0; c < channels; ++c) {
    const Channel &channel = schedule.channels[c];
    incoming[channel.to].push_back(static_cast<int>(c));
    outgoing[channel.from].push_back(static_cast<int>(c));
    int from = schedule.rankOfStage[channel.from];
    int to = schedule.rankOfStage[channel.to];
    if (from == to)
      continue;
    neighbors[from].push_back(to);
    neighbors[to].push_back(from);
  }
  for (std::vector<int> &ranks : neighbors) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  }
  for (size_t rank = 0; rank < lists.size(); ++rank)
    timed[rank].reserve(lists[rank].size());
  for (const RankGroup &group : schedule.groups)
    members.push_back(schedule.ranksOf(group));
  present.resize(members.size());
  if (rule.kind != SendRule::Kind::Slots)
    return;
  // Both ends take slots in the order of their own lists.
  auto predecessors = [&](ActionKind kind, std::vector<int> ChannelSlots::*of) {
    std::vector<int> result(arrivedAt.size(), -1);
    std::map<std::pair<int, int>, int> lastUser; // by channel and slot
    for (const std::vector<Action> &list : lists)
      for (const Action &action : list) {
        if (action.kind != kind)
          continue;
        int slot =
            (rule.slots->channels[action.channel].*of)[action.microbatch];
        auto [last, isFirst] = lastUser.try_emplace({action.channel, slot}, -1);
        result[index(action.channel, action.microbatch)] = last->second;
        last->second = action.microbatch;
      }
    return result;
  };
  slotPredecessor = predecessors(ActionKind::Receive, &ChannelSlots::receive);
  sendPredecessor = predecessors(ActionKind::Send, &ChannelSlots::send);
}

int Replay::capacity(int channel) const {
  return rule.capacity.size() == 1 ? rule.capacity[0] : rule.capacity[channel];
}

double pp::planner::actionTime(const SimulationInput &input,
                               const Action &action) {
  const StageTimes &times =
      input.stages[input.stages.size() == 1 ? 0 : action.stage];
  switch (action.kind) {
  case ActionKind::Forward:
    return times.forward;
  case ActionKind::Recompute:
    return times.recompute;
  case ActionKind::BackwardInput:
    return times.backwardInput;
  case ActionKind::BackwardWeight:
    return times.backwardWeight;
  case ActionKind::Backward:
    return times.backwardInput + times.backwardWeight;
  case ActionKind::Update:
    return times.update;
  case ActionKind::Prepare:
    return times.prepare;
  case ActionKind::Send:
  case ActionKind::Receive:
  case ActionKind::ReduceGradients:
  case ActionKind::AllReduce:
  case ActionKind::SumGradients:
  case ActionKind::Push:
  case ActionKind::Pull:
  case ActionKind::AddPushes:
    return 0;
  }
  return 0;
}

double Replay::duration(const Action &action) const {
  return input ? actionTime(*input, action) : 0;
}

/// The entry of a channel, the one for all, or none.
static double entryOf(const std::vector<double> &times, int channel) {
  return times.empty() ? 0 : times[times.size() == 1 ? 0 : channel];
}

double Replay::transferTime(int channel) const {
  return input ? entryOf(input->transfers, channel) : 0;
}

double Replay::releaseTime(int channel) const {
  return input ? entryOf(input->releases, channel) : 0;
}

double Replay::overheadTime(int channel) const {
  return input ? entryOf(input->overheads, channel) : 0;
}

double Replay::occupancyTime(int channel) const {
  return input ? entryOf(input->occupancies, channel) : 0;
}

double Replay::arrivalOf(const Action &send, double start, double transfer) {
  double occupancy = occupancyTime(send.channel);
  if (occupancy <= 0)
    return start + transfer;
  const Channel &channel = schedule.channels[send.channel];
  // One rank sends all that takes this way, in the order of its list.
  double &free = wayFreeAt[{schedule.rankOfStage[channel.from],
                            schedule.rankOfStage[channel.to]}];
  start = std::max(start, free);
  free = start + occupancy;
  leftAt[index(send.channel, send.microbatch)] = free;
  return start + transfer;
}

double Replay::collectiveTime(int group) const {
  return input ? entryOf(input->collectives, group) : 0;
}

bool Replay::run() {
  RankQueue work(lists.size());
  while (!work.empty()) {
    int rank = work.pop();
    bool moved = false;
    while (head(rank) && step(rank))
      moved = true;
    if (!moved)
      continue;
    work.push(neighbors[rank]);
    // The others of a collective have moved too, and so may their neighbours.
    for (int other : released) {
      work.push({other});
      work.push(neighbors[other]);
    }
    released.clear();
  }
  for (size_t rank = 0; rank < lists.size(); ++rank)
    if (head(static_cast<int>(rank)))
      return false;
  return true;
}

void Replay::finish(int rank, const Action &action, double start, double end) {
  timed[rank].push_back({action, start, end});
  clock[rank] = end;
  ++heads[rank];
  for (Phase phase :
       {Phase::Forward, Phase::BackwardInput, Phase::BackwardWeight})
    if (action.performs(phase))
      done(phase, action.stage, action.microbatch) = end;
  if (rule.kind == SendRule::Kind::Slots && !action.isTransfer() &&
      action.microbatch >= 0)
    for (int channel : incoming[action.stage])
      if (rule.slots->channels[channel].release == action.kind)
        releasedAt[index(channel, action.microbatch)] = end;
}

bool Replay::step(int rank) {
  const Action action = *head(rank);
  if (action.isTransfer())
    return stepTransfer(rank, action);
  if (action.isCollective())
    return stepCollective(rank, action);
  double start = clock[rank];
  for (int c : incoming[action.stage]) {
    const Channel &channel = schedule.channels[c];
    if (!reads(action, channel))
      continue;
    double made = done(channel.fromPhase, channel.from, action.microbatch);
    if (made < 0)
      return false;
    start = std::max(
        start, made + (schedule.crossesRanks(channel) ? transferTime(c) : 0));
  }
  // It makes values where the last ones may not have left yet.
  if (!sendPredecessor.empty())
    for (int c : outgoing[action.stage])
      if (action.performs(schedule.channels[c].fromPhase) &&
          schedule.carries(schedule.channels[c], action.microbatch))
        if (int last = sendPredecessor[index(c, action.microbatch)]; last >= 0)
          start = std::max(start, leftAt[index(c, last)]);
  finish(rank, action, start, start + duration(action));
  return true;
}

bool Replay::stepCollective(int rank, const Action &action) {
  std::vector<int> &here = present[action.group];
  if (std::find(here.begin(), here.end(), rank) == here.end())
    here.push_back(rank);
  if (here.size() < members[action.group].size())
    return false;
  double start = 0;
  for (int member : here)
    start = std::max(start, clock[member]);
  double end = start + collectiveTime(action.group);
  for (int member : here) {
    Action own = *head(member);
    finish(member, own, clock[member], end);
    released.push_back(member);
  }
  here.clear();
  return true;
}

/// May a send that stands at the head of its list go on without its receive?
bool Replay::sendAllowed(const Action &action, double &ready) const {
  switch (rule.kind) {
  case SendRule::Kind::Unbounded:
    return true;
  case SendRule::Kind::Rendezvous:
    return false;
  case SendRule::Kind::Buffered: {
    int room = capacity(action.channel);
    if (room == 0)
      return false;
    int freed = sent[action.channel] - room;
    if (freed < 0)
      return true;
    const std::vector<double> &received = receivedAt[action.channel];
    if (freed >= static_cast<int>(received.size()))
      return false;
    ready = std::max(ready, received[freed]);
    return true;
  }
  case SendRule::Kind::Slots: {
    int last = slotPredecessor[index(action.channel, action.microbatch)];
    if (last < 0)
      return true;
    double released = releasedAt[index(action.channel, last)];
    if (released < 0)
      return false;
    ready = std::max(ready, released + releaseTime(action.channel));
    return true;
  }
  }
  return false;
}

bool Replay::stepTransfer(int rank, const Action &action) {
  const Channel &channel = schedule.channels[action.channel];
  double overhead = overheadTime(action.channel);
  double transfer = std::max(transferTime(action.channel), overhead);
  // When the sender of a value goes on.
  auto sentBy = [&](double start) {
    return start + (input && input->sendOccupiesRank ? transfer : overhead);
  };
  double &arrived = arrivedAt[index(action.channel, action.microbatch)];
  if (action.kind == ActionKind::Send) {
    double start = clock[rank];
    if (sendAllowed(action, start)) {
      arrived = arrivalOf(action, start, transfer);
      ++sent[action.channel];
      finish(rank, action, start, sentBy(start));
      return true;
    }
  } else if (arrived >= 0) {
    double start = clock[rank];
    double end = std::max(start + overhead, arrived);
    receivedAt[action.channel].push_back(end);
    finish(rank, action, start, end);
    return true;
  }
  bool rendezvous =
      rule.kind == SendRule::Kind::Rendezvous ||
      (rule.kind == SendRule::Kind::Buffered && capacity(action.channel) == 0);
  if (!rendezvous)
    return false;
  // Both ends must stand at the same transfer; then both go on.
  int sender = schedule.rankOfStage[channel.from];
  int receiver = schedule.rankOfStage[channel.to];
  const Action *sending = head(sender), *receiving = head(receiver);
  if (!sending || !receiving || sending->kind != ActionKind::Send ||
      receiving->kind != ActionKind::Receive ||
      sending->channel != receiving->channel ||
      sending->microbatch != receiving->microbatch)
    return false;
  double start = std::max(clock[sender], clock[receiver]);
  arrived = arrivalOf(*sending, start, transfer);
  ++sent[action.channel];
  receivedAt[action.channel].push_back(arrived);
  // finish() moves on in the lists; heads are read before.
  Action sendAction = *sending, receiveAction = *receiving;
  finish(sender, sendAction, start, sentBy(start));
  finish(receiver, receiveAction, clock[receiver], arrived);
  return true;
}

void Replay::hoist(int rank, size_t from) {
  for (std::vector<int> &here : present)
    std::erase(here, rank);
  auto first = lists[rank].begin() + heads[rank];
  auto last = lists[rank].begin() + from;
  std::rotate(first, last, last + 1);
}

std::optional<Replay::Wait> Replay::wait(int rank) const {
  const Action *action = head(rank);
  if (!action)
    return std::nullopt;
  Wait wait{rank, rank, *action, ""};
  auto name = [&](const Action &other) {
    return toString(other, schedule.channels);
  };
  if (action->isTransfer()) {
    const Channel &channel = schedule.channels[action->channel];
    Action other = *action;
    if (action->kind == ActionKind::Send) {
      wait.forRank = schedule.rankOfStage[channel.to];
      other.kind = ActionKind::Receive;
      other.stage = channel.to;
      if (rule.kind == SendRule::Kind::Slots) {
        int last = slotPredecessor[index(action->channel, action->microbatch)];
        wait.reason = "for rank " + std::to_string(wait.forRank) +
                      " to release the slot of micro-batch " +
                      std::to_string(last);
        return wait;
      }
      if (rule.kind == SendRule::Kind::Buffered && capacity(action->channel)) {
        wait.reason =
            "for rank " + std::to_string(wait.forRank) + " to receive one of " +
            std::to_string(capacity(action->channel)) + " values on the way";
        return wait;
      }
    } else {
      wait.forRank = schedule.rankOfStage[channel.from];
      other.kind = ActionKind::Send;
      other.stage = channel.from;
    }
    wait.reason =
        "for rank " + std::to_string(wait.forRank) + " to reach " + name(other);
    return wait;
  }
  if (action->isCollective()) {
    const std::vector<int> &here = present[action->group];
    const RankGroup &group = schedule.groups[action->group];
    for (int stage : group.stages) {
      int member = schedule.rankOfStage[stage];
      if (std::find(here.begin(), here.end(), member) != here.end())
        continue;
      wait.forRank = member;
      Action other = *action;
      other.stage = stage;
      wait.reason =
          "for rank " + std::to_string(member) + " to reach " + name(other);
      return wait;
    }
  }
  for (int c : incoming[action->stage]) {
    const Channel &channel = schedule.channels[c];
    if (!reads(*action, channel))
      continue;
    if (doneAt[static_cast<size_t>(channel.fromPhase)]
              [index(channel.from, action->microbatch)] >= 0)
      continue;
    wait.forRank = schedule.rankOfStage[channel.from];
    ActionKind kind = channel.fromPhase == Phase::Forward ? ActionKind::Forward
                      : channel.fromPhase == Phase::BackwardInput
                          ? ActionKind::BackwardInput
                          : ActionKind::BackwardWeight;
    wait.reason = "for rank " + std::to_string(wait.forRank) + " to run " +
                  name({kind, channel.from, action->microbatch});
    return wait;
  }
  wait.reason = "for nothing";
  return wait;
}

std::vector<Replay::Wait> Replay::blame() const {
  std::vector<Wait> path;
  std::vector<int> seenAt(lists.size(), -1);
  int rank = 0;
  while (rank < static_cast<int>(lists.size()) && !head(rank))
    ++rank;
  if (rank == static_cast<int>(lists.size()))
    return path;
  while (std::optional<Wait> next = wait(rank)) {
    if (seenAt[rank] >= 0) {
      path.erase(path.begin(), path.begin() + seenAt[rank]);
      return path;
    }
    seenAt[rank] = static_cast<int>(path.size());
    path.push_back(*next);
    rank = next->forRank;
  }
  return path;
}

std::string Replay::explain() const {
  std::vector<Wait> circle = blame();
  std::string text = "deadlock:";
  for (const Wait &wait : circle)
    text += (&wait == &circle.front() ? " rank " : "; rank ") +
            std::to_string(wait.rank) + " waits in " +
            toString(wait.action, schedule.channels) + " " + wait.reason;
  if (!circle.empty() && !head(circle.back().forRank))
    text += "; rank " + std::to_string(circle.back().forRank) + " has finished";
  // The circle drawn.
  if (!circle.empty()) {
    text += "\n  rank " + std::to_string(circle.front().rank);
    for (const Wait &wait : circle)
      text += " --" + toString(wait.action, schedule.channels) + "--> rank " +
              std::to_string(wait.forRank);
  }
  // The last actions of each, the one it stands at in brackets.
  constexpr size_t longest = 8, shown = 5;
  for (size_t i = 0; i < circle.size() && i < longest; ++i) {
    int rank = circle[i].rank;
    text += "\n  rank " + std::to_string(rank) + " |";
    size_t begin = heads[rank] > shown ? heads[rank] - shown : 0;
    if (begin)
      text += " ...";
    for (size_t at = begin; at < heads[rank]; ++at)
      text += " " + toString(lists[rank][at], schedule.channels);
    text += " [" + toString(*head(rank), schedule.channels) + "]";
    if (heads[rank] + 1 < lists[rank].size())
      text += " " + toString(lists[rank][heads[rank] + 1], schedule.channels);
  }
  if (circle.size() > longest)
    text +=
        "\n  and " + std::to_string(circle.size() - longest) + " more ranks";
  return text;
}
