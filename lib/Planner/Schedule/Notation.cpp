//===- Notation.cpp - Schedules as text -----------------------------------===//
#include "ScheduleFields.h"
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

using namespace pp;
using namespace pp::planner;

std::string_view pp::planner::trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\"";
  size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

static bool isForward(const Channel &channel) {
  return channel.fromPhase == Phase::Forward;
}

/// Channels by what the notation says of them: which end, stage, direction.
static std::vector<int> candidates(const std::vector<Channel> &channels,
                                   ActionKind kind, int stage, bool forward) {
  std::vector<int> result;
  for (size_t c = 0; c < channels.size(); ++c) {
    int end = kind == ActionKind::Send ? channels[c].from : channels[c].to;
    if (end == stage && isForward(channels[c]) == forward)
      result.push_back(static_cast<int>(c));
  }
  return result;
}

static ActionText textOf(const Action &action, bool isForward,
                         bool isAmbiguous) {
  ActionText text{action.kind, action.stage, isForward, action.microbatch};
  if (action.kind == ActionKind::AllReduce)
    text.number = action.group;
  else if (action.isTransfer() && isAmbiguous)
    text.number = action.channel;
  return text;
}

std::string pp::planner::toString(const Action &action,
                                  const std::vector<Channel> &channels) {
  bool known =
      action.channel >= 0 && action.channel < static_cast<int>(channels.size());
  bool forward = !known || isForward(channels[action.channel]);
  bool isAmbiguous =
      !known ||
      candidates(channels, action.kind, action.stage, forward).size() > 1;
  return pp::toString(textOf(action, forward, isAmbiguous));
}

std::string pp::planner::toString(const Schedule &schedule) {
  // One look at the channels per (kind, stage, direction).
  std::map<std::tuple<ActionKind, int, bool>, size_t> counts;
  for (const Channel &channel : schedule.channels) {
    ++counts[{ActionKind::Send, channel.from, isForward(channel)}];
    ++counts[{ActionKind::Receive, channel.to, isForward(channel)}];
  }
  std::string text;
  for (const std::vector<Action> &rank : schedule.ranks) {
    std::string_view separator;
    for (const Action &action : rank) {
      bool forward =
          !action.isTransfer() || isForward(schedule.channels[action.channel]);
      text += separator;
      text += pp::toString(textOf(
          action, forward, counts[{action.kind, action.stage, forward}] > 1));
      separator = ",";
    }
    text += "\n";
  }
  return text;
}

namespace {

/// The group of a REDUCE_GRAD: the notation does not name it.
int gradientGroup(const std::vector<RankGroup> &groups, int stage) {
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].kind == RankGroup::Kind::Gradients &&
        std::find(groups[g].stages.begin(), groups[g].stages.end(), stage) !=
            groups[g].stages.end())
      return static_cast<int>(g);
  return -1;
}

std::optional<Action> parseAction(std::string_view text,
                                  const std::vector<Channel> &channels,
                                  const std::vector<RankGroup> &groups,
                                  std::string &reason) {
  std::optional<ActionText> parsed = parseActionText(text);
  if (!parsed) {
    reason = "expected an action such as 0F0, 1B3 or 0SEND_F1";
    return std::nullopt;
  }
  Action action{parsed->kind, parsed->stage, parsed->microbatch};
  if (action.stage > largestActionNumber ||
      action.microbatch > largestActionNumber) {
    reason = "the number is too large";
    return std::nullopt;
  }
  if (action.isCollective()) {
    bool gradients = action.kind == ActionKind::ReduceGradients;
    action.group =
        gradients ? gradientGroup(groups, action.stage) : parsed->number;
    if (action.group >= 0 && action.group < static_cast<int>(groups.size()))
      return action;
    reason = gradients ? "no replicas of the stage add up their gradients"
                       : "there is no such group of ranks";
    return std::nullopt;
  }
  if (!action.isTransfer())
    return action;
  std::vector<int> fitting =
      candidates(channels, action.kind, action.stage, parsed->isForward);
  bool isNamed = parsed->number >= 0;
  action.channel = isNamed || fitting.empty() ? parsed->number : fitting[0];
  bool fits = std::find(fitting.begin(), fitting.end(), action.channel) !=
              fitting.end();
  if (fits && (isNamed || fitting.size() == 1))
    return action;
  reason = isNamed           ? "channel " + std::to_string(parsed->number) +
                                   " does not fit the action"
           : fitting.empty() ? "there is no such channel"
                             : "several channels fit: append # and its number";
  return std::nullopt;
}

} // namespace

Result<Schedule>
pp::planner::parseFields(const std::vector<std::vector<ScheduleField>> &rows,
                         std::vector<Channel> channels,
                         std::vector<RankGroup> groups) {
  Schedule schedule;
  schedule.channels = std::move(channels);
  schedule.groups = std::move(groups);
  for (const Channel &channel : schedule.channels)
    schedule.stages =
        std::max({schedule.stages, channel.from + 1, channel.to + 1});
  std::map<int, int> rankOfStage;
  for (const std::vector<ScheduleField> &row : rows) {
    std::vector<Action> &rank = schedule.ranks.emplace_back();
    for (const ScheduleField &field : row) {
      if (field.text.empty())
        continue;
      std::string reason;
      std::optional<Action> action =
          parseAction(field.text, schedule.channels, schedule.groups, reason);
      if (!action)
        return Failure{"line " + std::to_string(schedule.ranks.size()) +
                       ", field " + std::to_string(field.number) + ": '" +
                       field.text.substr(0, 40) + "': " + reason};
      rankOfStage.try_emplace(action->stage,
                              static_cast<int>(schedule.ranks.size()) - 1);
      schedule.stages = std::max(schedule.stages, action->stage + 1);
      schedule.microbatches =
          std::max(schedule.microbatches, action->microbatch + 1);
      rank.push_back(*action);
    }
  }
  // A stage that does nothing: the verifier will say so.
  schedule.rankOfStage.assign(schedule.stages, 0);
  for (auto [stage, rank] : rankOfStage)
    schedule.rankOfStage[stage] = rank;
  return schedule;
}

std::vector<std::vector<ScheduleField>>
pp::planner::splitFields(std::string_view text) {
  std::vector<std::vector<ScheduleField>> rows;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view row = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (row.empty() && text.empty())
      break;
    std::vector<ScheduleField> &fields = rows.emplace_back();
    for (size_t number = 1; !row.empty(); ++number) {
      size_t comma = row.find(',');
      fields.push_back({number, std::string(trim(row.substr(0, comma)))});
      row.remove_prefix(comma == std::string_view::npos ? row.size()
                                                        : comma + 1);
    }
  }
  return rows;
}

Result<Schedule> pp::planner::parseSchedule(std::string_view text,
                                            std::vector<Channel> channels,
                                            std::vector<RankGroup> groups) {
  return parseFields(splitFields(text), std::move(channels), std::move(groups));
}
