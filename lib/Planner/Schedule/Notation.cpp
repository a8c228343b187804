//===- Notation.cpp - Schedules as text -----------------------------------===//
#include "pp/Planner/Schedule/Schedule.h"
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

using namespace pp::planner;

static bool isForward(const Channel &channel) {
  return channel.fromPhase == Phase::Forward;
}

/// What stands between stage and micro-batch.
static std::string_view letters(ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward:
    return "F";
  case ActionKind::Recompute:
    return "R";
  case ActionKind::BackwardInput:
    return "I";
  case ActionKind::BackwardWeight:
    return "W";
  case ActionKind::Backward:
    return "B";
  case ActionKind::Send:
    return "SEND_";
  case ActionKind::Receive:
    return "RECV_";
  case ActionKind::Update:
    return "U";
  }
  return "?";
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
      std::to_string(action.stage) + std::string(letters(action.kind));
  if (action.kind == ActionKind::Update)
    return text;
  if (!action.isTransfer())
    return text + std::to_string(action.microbatch);
  bool known =
      action.channel >= 0 && action.channel < static_cast<int>(channels.size());
  bool forward = !known || isForward(channels[action.channel]);
  text += (forward ? "F" : "B") + std::to_string(action.microbatch);
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
      text += letters(action.kind);
      text += (forward ? "F" : "B") + std::to_string(action.microbatch);
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

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\"";
  size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// The largest number that makes sense: later tables have this many entries.
constexpr int largest = 1 << 24;

std::optional<Action> parseAction(std::string_view text,
                                  const std::vector<Channel> &channels,
                                  std::string &reason) {
  FieldReader field(text);
  Action action;
  reason = "expected an action such as 0F0, 1B3 or 0SEND_F1";
  if (!field.number(action.stage))
    return std::nullopt;
  bool found = false;
  // RECV before R.
  for (ActionKind kind :
       {ActionKind::Send, ActionKind::Receive, ActionKind::Forward,
        ActionKind::Recompute, ActionKind::BackwardInput,
        ActionKind::BackwardWeight, ActionKind::Backward, ActionKind::Update})
    if (!found && field.word(letters(kind))) {
      action.kind = kind;
      found = true;
    }
  if (!found)
    return std::nullopt;
  bool forward = true;
  if (action.isTransfer()) {
    forward = field.word("F");
    if (!forward && !field.word("B"))
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

Result<Schedule> pp::planner::parseSchedule(std::string_view text,
                                            std::vector<Channel> channels) {
  Schedule schedule;
  schedule.channels = std::move(channels);
  for (const Channel &channel : schedule.channels)
    schedule.stages =
        std::max({schedule.stages, channel.from + 1, channel.to + 1});
  size_t line = 0;
  std::map<int, int> rankOfStage;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view row = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line;
    if (row.empty() && text.empty())
      break;
    std::vector<Action> &rank = schedule.ranks.emplace_back();
    for (size_t number = 1; !row.empty(); ++number) {
      size_t comma = row.find(',');
      std::string_view field = trim(row.substr(0, comma));
      row.remove_prefix(comma == std::string_view::npos ? row.size()
                                                        : comma + 1);
      if (field.empty())
        continue;
      std::string reason;
      std::optional<Action> action =
          parseAction(field, schedule.channels, reason);
      if (!action)
        return Failure{"line " + std::to_string(line) + ", field " +
                       std::to_string(number) + ": '" +
                       std::string(field.substr(0, 40)) + "': " + reason};
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
