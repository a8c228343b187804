//===- Asynchronous.cpp - Schedules without a flush -----------------------===//
#include "pp/Planner/Schedule/Asynchronous.h"
#include <algorithm>
#include <numeric>
#include <optional>

using namespace pp::planner;

static std::optional<std::string> checkNumbers(int stages, int microbatches,
                                               int updates) {
  if (stages < 1 || microbatches < 1 || updates < 1 ||
      int64_t(stages) * microbatches * updates > 100'000'000)
    return std::to_string(stages) + " stages, " + std::to_string(microbatches) +
           " micro-batches per update and " + std::to_string(updates) +
           " updates make no schedule";
  return std::nullopt;
}

static std::vector<std::vector<int>> ranksOf(const std::vector<int> &replicas) {
  std::vector<std::vector<int>> ranks;
  int next = 0;
  for (int count : replicas) {
    std::vector<int> &ofStage = ranks.emplace_back(count);
    std::iota(ofStage.begin(), ofStage.end(), next);
    next += count;
  }
  return ranks;
}

/// Forwards before the first backward.
static int warmup(const std::vector<int> &replicas, int stage) {
  int rest = std::accumulate(replicas.begin() + stage, replicas.end(), 0);
  return (rest - 1) / replicas[stage];
}

int pp::planner::pipeDreamVersions(const std::vector<int> &replicas,
                                   int stage) {
  int rest = std::accumulate(replicas.begin() + stage, replicas.end(), 0);
  return (rest + replicas[stage] - 1) / replicas[stage];
}

Result<AsynchronousSchedule>
pp::planner::pipeDreamSchedule(const std::vector<int> &replicas,
                               int minibatches, bool verticalSync) {
  int stages = static_cast<int>(replicas.size());
  if (std::optional<std::string> fault = checkNumbers(stages, 1, minibatches))
    return Failure{*fault};
  for (int stage = 0; stage < stages; ++stage) {
    int count = replicas[stage];
    if (count < 1 || count > 1 << 20)
      return Failure{"stage " + std::to_string(stage) + " has " +
                     std::to_string(count) + " replicas"};
    if (minibatches % count != 0)
      return Failure{"the " + std::to_string(count) + " replicas of stage " +
                     std::to_string(stage) + " cannot share " +
                     std::to_string(minibatches) + " mini-batches equally"};
    if (verticalSync && count != 1)
      return Failure{"vertical sync needs one replica per stage, but stage " +
                     std::to_string(stage) + " has " + std::to_string(count)};
  }
  AsynchronousSchedule schedule;
  schedule.rule =
      verticalSync ? WeightRule::VerticalSync : WeightRule::Stashing;
  schedule.stages = stages;
  schedule.microbatches = minibatches;
  schedule.ranksOfStage = ranksOf(replicas);
  for (int stage = 0; stage < stages; ++stage) {
    int count = replicas[stage], local = minibatches / count;
    int ahead = std::min(warmup(replicas, stage), local);
    // The version that F of the k-th micro-batch finds.
    int behind = verticalSync ? warmup(replicas, 0) : ahead;
    for (int replica = 0; replica < count; ++replica) {
      std::vector<VersionedAction> &list = schedule.ranks.emplace_back();
      auto add = [&](ActionKind kind, int k, int version) {
        list.push_back({kind, stage, k * count + replica, version});
      };
      for (int k = 0; k < local + ahead; ++k) {
        if (k < local)
          add(ActionKind::Forward, k, std::max(k - behind, 0));
        if (int done = k - ahead; done >= 0) {
          add(ActionKind::Backward, done, std::max(done - behind, 0));
          add(ActionKind::Update, done, done + 1);
        }
      }
    }
  }
  return schedule;
}

/// One stage per rank, and no actions yet.
static AsynchronousSchedule withoutReplicas(WeightRule rule, int stages,
                                            int microbatchesPerUpdate,
                                            int updates) {
  return {rule,
          stages,
          microbatchesPerUpdate * updates,
          microbatchesPerUpdate,
          ranksOf(std::vector<int>(stages, 1)),
          std::vector<std::vector<VersionedAction>>(stages)};
}

/// One stage per rank and no replicas: 1F1B over `count` micro-batches from
/// `first` on. `version(k)` is called for F and B in the order of the list.
template <typename Version, typename Update>
static void addOneForwardOneBackward(int stage, int ahead, int first, int count,
                                     std::vector<VersionedAction> &list,
                                     const Version &version,
                                     const Update &update) {
  ahead = std::min(ahead, count);
  for (int k = 0; k < count + ahead; ++k) {
    if (k < count)
      list.push_back(
          {ActionKind::Forward, stage, first + k, version(first + k)});
    if (k >= ahead) {
      int done = first + k - ahead;
      list.push_back({ActionKind::Backward, stage, done, version(done)});
      update(done);
    }
  }
}

Result<AsynchronousSchedule>
pp::planner::doubleBufferedSchedule(int stages, int microbatchesPerUpdate,
                                    int updates) {
  if (std::optional<std::string> fault =
          checkNumbers(stages, microbatchesPerUpdate, updates))
    return Failure{*fault};
  if (microbatchesPerUpdate < stages)
    return Failure{"two weight versions are enough only for at least as many "
                   "micro-batches per update as stages, but there are " +
                   std::to_string(microbatchesPerUpdate) +
                   " micro-batches and " + std::to_string(stages) + " stages"};
  int m = microbatchesPerUpdate;
  AsynchronousSchedule schedule =
      withoutReplicas(WeightRule::DoubleBuffered, stages, m, updates);
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<VersionedAction> &list = schedule.ranks[stage];
    addOneForwardOneBackward(
        stage, stages - 1 - stage, 0, m * updates, list,
        [&](int k) { return std::max(k / m - 1, 0); },
        [&](int done) {
          if (done % m == m - 1)
            list.push_back({ActionKind::Update, stage, done, done / m + 1});
        });
  }
  return schedule;
}

Result<AsynchronousSchedule>
pp::planner::pipeMareSchedule(int stages, int microbatchesPerUpdate,
                              int updates, int synchronousUpdates) {
  if (std::optional<std::string> fault =
          checkNumbers(stages, microbatchesPerUpdate, updates))
    return Failure{*fault};
  if (synchronousUpdates < 0 || synchronousUpdates > updates)
    return Failure{std::to_string(synchronousUpdates) + " of " +
                   std::to_string(updates) + " updates cannot be synchronous"};
  int m = microbatchesPerUpdate;
  AsynchronousSchedule schedule =
      withoutReplicas(WeightRule::Latest, stages, m, updates);
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<VersionedAction> &list = schedule.ranks[stage];
    int newest = 0;
    auto version = [&](int) { return newest; };
    auto update = [&](int done) {
      if (done % m == m - 1)
        list.push_back({ActionKind::Update, stage, done, ++newest});
    };
    int ahead = stages - 1 - stage;
    for (int step = 0; step < synchronousUpdates; ++step)
      addOneForwardOneBackward(stage, ahead, step * m, m, list, version,
                               update);
    addOneForwardOneBackward(stage, ahead, synchronousUpdates * m,
                             (updates - synchronousUpdates) * m, list, version,
                             update);
  }
  return schedule;
}

std::vector<int>
pp::planner::keptVersions(const AsynchronousSchedule &schedule) {
  std::vector<int> kept;
  for (const std::vector<VersionedAction> &list : schedule.ranks) {
    int newest = 0;
    for (const VersionedAction &action : list)
      newest = std::max(newest, action.version);
    std::vector<size_t> lastRead(newest + 1, 0);
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].kind != ActionKind::Update)
        lastRead[list[i].version] = i + 1;
    // A version dies when it is neither the newest nor to be read again.
    int alive = 1, most = 1;
    int current = 0;
    std::vector<bool> dead(newest + 1, false);
    auto settle = [&](int version, size_t done) {
      if (version != current && !dead[version] && lastRead[version] <= done) {
        dead[version] = true;
        --alive;
      }
    };
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].kind == ActionKind::Update) {
        int before = current;
        current = list[i].version;
        ++alive;
        // The old one may go while the new one is written only if in place.
        settle(before, i + 1);
      } else {
        settle(list[i].version, i + 1);
      }
      most = std::max(most, alive);
    }
    kept.push_back(most);
  }
  return kept;
}
