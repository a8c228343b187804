//===- Collectives.cpp - What ranks add up together -----------------------===//
#include "pp/Planner/Schedule/Collectives.h"
#include "Replay.h"
#include <algorithm>
#include <optional>

using namespace pp::planner;

namespace {

class Inserter {
public:
  Inserter(const Schedule &schedule, const CollectiveOptions &options)
      : schedule(schedule), options(options) {}

  Result<Schedule> run() {
    if (std::optional<std::string> fault = check())
      return Failure{*fault};
    addGroups();
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      addActions(static_cast<int>(rank));
    return deferred();
  }

private:
  std::optional<std::string> check() const {
    if (!schedule.isTraining())
      return "a schedule for inference has no gradients to add up";
    if (!schedule.groups.empty())
      return "the schedule has collectives already";
    size_t sizes = options.gradientBytes.size();
    int parts = schedule.parts();
    if (sizes > 1 && sizes != static_cast<size_t>(parts))
      return "there are bytes of gradients for " + std::to_string(sizes) +
             " parts, not " + std::to_string(parts);
    for (const TiedParameter &tied : options.tied) {
      bool good = tied.parts.size() > 1;
      for (size_t i = 0; i < tied.parts.size(); ++i)
        good &= tied.parts[i] >= 0 && tied.parts[i] < parts &&
                (i == 0 || tied.parts[i - 1] < tied.parts[i]);
      if (!good)
        return "the tied parameter '" + tied.name +
               "' does not list two or more parts in ascending order";
    }
    return std::nullopt;
  }

  std::vector<int> stagesOf(const std::vector<int> &parts) const {
    std::vector<int> stages;
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (std::binary_search(parts.begin(), parts.end(),
                             schedule.replicaOf(stage).part))
        stages.push_back(stage);
    return stages;
  }

  void addGroup(RankGroup group) {
    if (schedule.ranksOf(group).size() > 1)
      schedule.groups.push_back(std::move(group));
  }

  void addGroups() {
    int parts = schedule.parts();
    // In the order in which the backward pass completes them.
    std::vector<std::vector<int>> replicas(parts);
    for (int stage = 0; stage < schedule.stages; ++stage)
      replicas[schedule.replicaOf(stage).part].push_back(stage);
    const std::vector<int64_t> &bytes = options.gradientBytes;
    for (int part = parts - 1; part >= 0; --part)
      addGroup({"gradients of part " + std::to_string(part),
                RankGroup::Kind::Gradients, replicas[part],
                bytes.empty() ? 0 : bytes[bytes.size() == 1 ? 0 : part]});
    for (const TiedParameter &tied : options.tied)
      addGroup({tied.name, RankGroup::Kind::TiedGradients, stagesOf(tied.parts),
                tied.bytes});
    if (!options.globalNorm)
      return;
    RankGroup norm{"norm", RankGroup::Kind::Norm, {}, sizeof(float)};
    for (int stage = 0; stage < schedule.stages; ++stage)
      norm.stages.push_back(stage);
    addGroup(std::move(norm));
  }

  Action actionOf(size_t number, int rank) const {
    const RankGroup &group = schedule.groups[number];
    Action action{group.kind == RankGroup::Kind::Gradients
                      ? ActionKind::ReduceGradients
                      : ActionKind::AllReduce};
    action.group = static_cast<int>(number);
    action.stage =
        *std::find_if(group.stages.begin(), group.stages.end(), [&](int stage) {
          return schedule.rankOfStage[stage] == rank;
        });
    return action;
  }

  void addActions(int rank) {
    // Per group of the rank: the position after which it may come.
    std::vector<std::pair<size_t, size_t>> groups;
    const std::vector<Action> &list = schedule.ranks[rank];
    std::vector<size_t> lastWeight(schedule.stages, 0);
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].performs(Phase::BackwardWeight))
        lastWeight[list[i].stage] = i;
    for (size_t g = 0; g < schedule.groups.size(); ++g) {
      std::optional<size_t> ready;
      for (int stage : schedule.groups[g].stages)
        if (schedule.rankOfStage[stage] == rank)
          ready = std::max(ready.value_or(0), lastWeight[stage]);
      if (ready)
        groups.push_back({g, *ready});
    }
    if (groups.empty())
      return;
    std::vector<Action> result, updates;
    size_t next = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      bool update = list[i].kind == ActionKind::Update;
      (update ? updates : result).push_back(list[i]);
      for (; next < groups.size() && groups[next].second <= i; ++next)
        result.push_back(actionOf(groups[next].first, rank));
    }
    result.insert(result.end(), updates.begin(), updates.end());
    schedule.ranks[rank] = std::move(result);
  }

  /// The first action of a rank that could run instead of the collective in
  /// which it stands.
  static std::optional<size_t> workBehind(const Replay &replay, int rank) {
    const std::vector<Action> &list = replay.list(rank);
    size_t at = replay.position(rank);
    if (at == list.size() || !list[at].isCollective())
      return std::nullopt;
    while (at < list.size() && list[at].isCollective())
      ++at;
    if (at == list.size() || list[at].kind == ActionKind::Update)
      return std::nullopt;
    return at;
  }

  Result<Schedule> deferred() {
    SendRule rendezvous;
    Replay replay(schedule, rendezvous);
    while (!replay.run()) {
      bool moved = false;
      for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
        if (auto behind = workBehind(replay, static_cast<int>(rank))) {
          replay.hoist(static_cast<int>(rank), *behind);
          moved = true;
        }
      if (!moved)
        return Failure{replay.explain()};
    }
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      schedule.ranks[rank] = replay.list(static_cast<int>(rank));
    return std::move(schedule);
  }

  Schedule schedule;
  const CollectiveOptions &options;
};

} // namespace

Result<Schedule>
pp::planner::insertCollectives(const Schedule &schedule,
                               const CollectiveOptions &options) {
  return Inserter(schedule, options).run();
}
