//===- PyTorchNotation.cpp - Schedules of torch.distributed.pipelining ----===//
#include "ScheduleFields.h"
#include "pp/Planner/Schedule/Verify.h"
#include <algorithm>
#include <optional>
#include <set>

using namespace pp;
using namespace pp::planner;

namespace {

constexpr std::string_view overlap = "OVERLAP_F_B";

class Importer {
public:
  Result<ImportedSchedule> run(std::string_view text,
                               std::vector<Channel> channels,
                               std::vector<RankGroup> groups) {
    keepReductions = !groups.empty();
    if (std::string error = readRows(text); !error.empty())
      return Failure{error};
    return finish(std::move(channels), std::move(groups));
  }

  /// With the channels that PyTorch has.
  Result<ImportedSchedule> run(std::string_view text) {
    if (std::string error = readRows(text); !error.empty())
      return Failure{error};
    int last = -1;
    bool training = false;
    for (const std::vector<ScheduleField> &row : rows)
      for (const ScheduleField &field : row) {
        // What is none is for parseFields to refuse.
        std::optional<ActionText> action = parseActionText(field.text);
        if (!action || action->stage > largestActionNumber)
          continue;
        last = std::max(last, action->stage);
        training |= action->kind == ActionKind::Backward ||
                    action->kind == ActionKind::BackwardInput;
      }
    if (last < 0)
      return Failure{"there are no actions"};
    std::vector<Channel> channels;
    if (last < mostStages)
      channels = neighborChannels(last + 1, training);
    return finish(std::move(channels), {});
  }

private:
  std::string readRows(std::string_view text) {
    for (const std::vector<ScheduleField> &row : splitFields(text)) {
      std::vector<ScheduleField> &plain = rows.emplace_back();
      for (const ScheduleField &field : row)
        if (!readField(field, plain))
          return "line " + std::to_string(rows.size()) + ", field " +
                 std::to_string(field.number) + ": '" +
                 field.text.substr(0, 40) +
                 "': expected (action;action)OVERLAP_F_B";
    }
    return "";
  }

  Result<ImportedSchedule> finish(std::vector<Channel> channels,
                                  std::vector<RankGroup> groups) {
    Result<Schedule> schedule =
        parseFields(rows, std::move(channels), std::move(groups));
    if (!schedule)
      return Failure{schedule.error()};
    result.schedule = std::move(*schedule);
    renameBackward();
    addUpdates();
    return std::move(result);
  }

  /// Appends what parseFields reads as none, one or, after an overlap, two
  /// fields.
  bool readField(const ScheduleField &source,
                 std::vector<ScheduleField> &plain) {
    std::string_view field = source.text;
    if (field.starts_with('(')) {
      size_t close = field.find(')');
      if (close == std::string_view::npos || field.substr(close + 1) != overlap)
        return false;
      std::string_view inside = field.substr(1, close - 1);
      size_t middle = inside.find(';');
      if (middle == std::string_view::npos ||
          inside.find_first_of("();", middle + 1) != std::string_view::npos)
        return false;
      auto part = [&](std::string_view text) {
        return ScheduleField{source.number, std::string(trim(text))};
      };
      return readField(part(inside.substr(0, middle)), plain) &&
             readField(part(inside.substr(middle + 1)), plain);
    }
    size_t letters = field.find_first_not_of("0123456789");
    std::string_view kind = letters == std::string_view::npos || letters == 0
                                ? std::string_view()
                                : field.substr(letters);
    std::string stage(field.substr(0, field.size() - kind.size()));
    for (std::string_view sharding : {"UNSHARD", "RESHARD", "REDUCE_GRAD"})
      if (kind.starts_with(sharding) &&
          kind.find_first_not_of("0123456789", sharding.size()) ==
              std::string_view::npos) {
        if (keepReductions && sharding == "REDUCE_GRAD")
          plain.push_back({source.number, stage + "REDUCE_GRAD"});
        else
          ++skipped;
        return true;
      }
    if (kind.starts_with("BW")) {
      ++joined;
      plain.push_back(
          {source.number, stage + "B" + std::string(kind.substr(2))});
      return true;
    }
    plain.push_back(source);
    return true;
  }

  void note(size_t count, const std::string &what) {
    if (count > 0)
      result.notes.push_back(std::to_string(count) + " " + what);
  }

  void renameBackward() {
    note(skipped, "actions that shard parameters or gradients are skipped");
    note(joined, "actions BW are read as B");
    std::set<std::pair<int, int>> weights;
    for (const std::vector<Action> &rank : result.schedule.ranks)
      for (const Action &action : rank)
        if (action.kind == ActionKind::BackwardWeight)
          weights.insert({action.stage, action.microbatch});
    size_t renamed = 0;
    for (std::vector<Action> &rank : result.schedule.ranks)
      for (Action &action : rank)
        if (action.kind == ActionKind::Backward &&
            weights.count({action.stage, action.microbatch})) {
          action.kind = ActionKind::BackwardInput;
          ++renamed;
        }
    note(renamed, "actions B that have a W are read as I");
  }

  void addUpdates() {
    Schedule &schedule = result.schedule;
    if (!schedule.isTraining())
      return;
    for (const std::vector<Action> &rank : schedule.ranks)
      for (const Action &action : rank)
        if (action.kind == ActionKind::Update)
          return;
    for (int stage = 0; stage < schedule.stages; ++stage)
      schedule.ranks[schedule.rankOfStage[stage]].push_back(
          {ActionKind::Update, stage});
    note(schedule.stages, "updates are added at the end");
  }

  static constexpr int mostStages = 1 << 12;

  ImportedSchedule result;
  std::vector<std::vector<ScheduleField>> rows;
  size_t skipped = 0, joined = 0;
  bool keepReductions = false;
};

} // namespace

Result<ImportedSchedule>
pp::planner::importPyTorchSchedule(std::string_view text,
                                   std::vector<Channel> channels,
                                   std::vector<RankGroup> groups) {
  return Importer().run(text, std::move(channels), std::move(groups));
}

Result<ImportedSchedule> pp::planner::importComputation(std::string_view text) {
  Result<ImportedSchedule> result = Importer().run(text);
  if (!result)
    return result;
  Schedule &schedule = result->schedule;
  std::vector<std::string> faults =
      verifySchedule(schedule, {SendRule::Kind::Unbounded});
  if (!faults.empty()) {
    constexpr size_t mostNamed = 5;
    std::string text;
    for (size_t i = 0; i < std::min(faults.size(), mostNamed); ++i)
      text += (i ? "\n  " : "") + faults[i];
    if (faults.size() > mostNamed)
      text += "\n  and " + std::to_string(faults.size() - mostNamed) + " more";
    return Failure{text};
  }
  size_t removed = 0;
  for (std::vector<Action> &rank : schedule.ranks)
    removed += std::erase_if(
        rank, [](const Action &action) { return action.isTransfer(); });
  schedule.channels.clear();
  if (removed)
    result->notes.push_back(std::to_string(removed) +
                            " sends and receives are placed anew");
  return result;
}

Result<std::string>
pp::planner::exportPyTorchSchedule(const Schedule &schedule) {
  Schedule compute = schedule;
  for (std::vector<Action> &rank : compute.ranks) {
    for (const Action &action : rank) {
      if (action.kind == ActionKind::AllReduce)
        return Failure{toString(action, schedule.channels) +
                       ": PyTorch's notation only has the sum of a stage's "
                       "gradients over its replicas, REDUCE_GRAD"};
      if (action.kind == ActionKind::Recompute)
        return Failure{toString(action, schedule.channels) +
                       ": PyTorch does not schedule recomputation; use the "
                       "checkpoint mode 'never'"};
    }
    std::erase_if(rank, [](const Action &action) {
      return action.kind == ActionKind::Update ||
             action.kind == ActionKind::Prepare;
    });
  }
  std::string text = toString(compute);
  if (size_t hash = text.find('#'); hash != std::string::npos) {
    size_t begin = text.find_last_of(",\n", hash);
    begin = begin == std::string::npos ? 0 : begin + 1;
    return Failure{text.substr(begin, hash - begin) +
                   ": PyTorch has one value per stage and direction, but the "
                   "stage has several channels"};
  }
  return text;
}
