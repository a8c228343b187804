//===- Notation.cpp - Schedules as text -----------------------------------===//
#include "ScheduleFields.h"
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

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

std::string pp::planner::toString(const Action &action,
                                  const std::vector<Channel> &channels) {
  std::string text =
      std::to_string(action.stage) + std::string(nameOf(action.kind));
  if (action.kind == ActionKind::Update ||
      action.kind == ActionKind::ReduceGradients)
    return text;
  if (action.kind == ActionKind::AllReduce)
    return text + "#" + std::to_string(action.group);
  if (!action.isTransfer())
    return text + std::to_string(action.microbatch);
  bool known =
      action.channel >= 0 && action.channel < static_cast<int>(channels.size());
  bool forward = !known || isForward(channels[action.channel]);
  text += (forward ? "_F" : "_B") + std::to_string(action.microbatch);
  if (!known ||
      candidates(channels, action.kind, action.stage, forward).size() > 1)
    text += "#" + std::to_string(action.channel);
  return text;
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
      text += separator;
      separator = ",";
      if (!action.isTransfer()) {
        text += toString(action, {});
        continue;
      }
      bool forward = isForward(schedule.channels[action.channel]);
      text += std::to_string(action.stage);
      text += nameOf(action.kind);
      text += (forward ? "_F" : "_B") + std::to_string(action.microbatch);
      if (counts[{action.kind, action.stage, forward}] > 1)
        text += "#" + std::to_string(action.channel);
    }
    text += "\n";
  }
  return text;
}

namespace {

/// Takes tokens off the front of a field.
class FieldReader {
public:
  explicit FieldReader(std::string_view text) : text(text) {}

  bool number(int &value) {
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0)
      return false;
    text.remove_prefix(end - text.data());
    return true;
  }
  bool word(std::string_view expected) {
    if (text.substr(0, expected.size()) != expected)
      return false;
    text.remove_prefix(expected.size());
    return true;
  }
  bool atEnd() const { return text.empty(); }

private:
  std::string_view text;
};

/// The largest number that makes sense: later tables have this many entries.
constexpr int largest = 1 << 24;

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
  FieldReader field(text);
  Action action;
  reason = "expected an action such as 0F0, 1B3 or 0SEND_F1";
  if (!field.number(action.stage))
    return std::nullopt;
  bool found = false;
  // RECV and REDUCE_GRAD before R.
  for (ActionKind kind :
       {ActionKind::Send, ActionKind::Receive, ActionKind::ReduceGradients,
        ActionKind::AllReduce, ActionKind::Forward, ActionKind::Recompute,
        ActionKind::BackwardInput, ActionKind::BackwardWeight,
        ActionKind::Backward, ActionKind::Update})
    if (!found && field.word(nameOf(kind))) {
      action.kind = kind;
      found = true;
    }
  if (!found)
    return std::nullopt;
  if (action.isCollective()) {
    bool gradients = action.kind == ActionKind::ReduceGradients;
    if (gradients)
      action.group = gradientGroup(groups, action.stage);
    else if (!field.word("#") || !field.number(action.group))
      return std::nullopt;
    if (!field.atEnd())
      return std::nullopt;
    if (action.group < 0 || action.group >= static_cast<int>(groups.size()) ||
        action.stage > largest) {
      reason = gradients ? "no replicas of the stage add up their gradients"
                         : "there is no such group of ranks";
      return std::nullopt;
    }
    return action;
  }
  bool forward = true;
  if (action.isTransfer()) {
    forward = field.word("_F");
    if (!forward && !field.word("_B"))
      return std::nullopt;
  }
  if (action.kind != ActionKind::Update && !field.number(action.microbatch))
    return std::nullopt;
  if (action.stage > largest || action.microbatch > largest) {
    reason = "the number is too large";
    return std::nullopt;
  }
  if (action.isTransfer()) {
    std::vector<int> fitting =
        candidates(channels, action.kind, action.stage, forward);
    if (field.word("#")) {
      if (!field.number(action.channel))
        return std::nullopt;
      bool fits = false;
      for (int channel : fitting)
        fits |= channel == action.channel;
      if (!fits) {
        reason = "channel " + std::to_string(action.channel) +
                 " does not fit the action";
        return std::nullopt;
      }
    } else if (fitting.size() == 1) {
      action.channel = fitting.front();
    } else {
      reason = fitting.empty()
                   ? "there is no such channel"
                   : "several channels fit: append # and its number";
      return std::nullopt;
    }
  }
  if (!field.atEnd())
    return std::nullopt;
  return action;
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
