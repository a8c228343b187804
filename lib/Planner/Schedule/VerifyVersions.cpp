//===- VerifyVersions.cpp - Prove which weights every pass reads ----------===//
#include "pp/Planner/Schedule/Asynchronous.h"
#include <algorithm>
#include <optional>

using namespace pp::planner;

namespace {

class VersionVerifier {
public:
  explicit VersionVerifier(const AsynchronousSchedule &schedule)
      : schedule(schedule) {}

  std::vector<std::string> run() {
    using Check = void (VersionVerifier::*)();
    for (Check check :
         {&VersionVerifier::checkShape, &VersionVerifier::checkCompleteness,
          &VersionVerifier::checkVersions, &VersionVerifier::checkMemory,
          &VersionVerifier::checkTermination}) {
      (this->*check)();
      if (!errors.empty())
        return std::move(errors);
    }
    return {};
  }

private:
  void error(std::string message) { errors.push_back(std::move(message)); }

  static std::string name(const VersionedAction &action) {
    const char *kind = action.kind == ActionKind::Forward    ? "F"
                       : action.kind == ActionKind::Backward ? "B"
                                                             : "U";
    return std::to_string(action.stage) + kind +
           std::to_string(action.microbatch) + " (version " +
           std::to_string(action.version) + ")";
  }
  size_t cell(int stage, int microbatch) const {
    return size_t(stage) * schedule.microbatches + microbatch;
  }

  void checkShape() {
    stageOfRank.assign(schedule.ranks.size(), -1);
    bool good =
        schedule.stages >= 1 && schedule.microbatches >= 1 &&
        schedule.microbatchesPerUpdate >= 1 &&
        schedule.ranksOfStage.size() == static_cast<size_t>(schedule.stages);
    for (size_t stage = 0; good && stage < schedule.ranksOfStage.size();
         ++stage) {
      good = !schedule.ranksOfStage[stage].empty();
      for (int rank : schedule.ranksOfStage[stage]) {
        good = good && rank >= 0 &&
               rank < static_cast<int>(stageOfRank.size()) &&
               stageOfRank[rank] < 0;
        if (good)
          stageOfRank[rank] = static_cast<int>(stage);
      }
    }
    for (int stage : stageOfRank)
      good &= stage >= 0;
    if (!good)
      error("every rank must run one stage, and every stage needs a rank");
  }

  void checkCompleteness() {
    size_t cells = cell(schedule.stages, 0);
    forwards.assign(cells, std::nullopt);
    backwards.assign(cells, std::nullopt);
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (const VersionedAction &action : schedule.ranks[rank]) {
        bool known = action.kind == ActionKind::Forward ||
                     action.kind == ActionKind::Backward ||
                     action.kind == ActionKind::Update;
        if (!known || action.stage != stageOfRank[rank] ||
            action.microbatch < 0 ||
            action.microbatch >= schedule.microbatches) {
          error(name(action) + " does not belong to rank " +
                std::to_string(rank));
          continue;
        }
        const std::vector<int> &replicas = schedule.ranksOfStage[action.stage];
        if (replicas[action.microbatch % replicas.size()] !=
            static_cast<int>(rank))
          error(name(action) + " is on rank " + std::to_string(rank) +
                ", its replica on rank " +
                std::to_string(replicas[action.microbatch % replicas.size()]));
        if (action.kind == ActionKind::Update)
          continue;
        std::optional<int> &version =
            (action.kind == ActionKind::Forward
                 ? forwards
                 : backwards)[cell(action.stage, action.microbatch)];
        if (version)
          error(name(action) + " is in the schedule twice");
        else if (action.kind == ActionKind::Backward &&
                 !forwards[cell(action.stage, action.microbatch)])
          error(name(action) + " comes before its forward pass");
        version = action.version;
      }
    for (int stage = 0; stage < schedule.stages; ++stage)
      for (int i = 0; i < schedule.microbatches; ++i)
        if (!forwards[cell(stage, i)] || !backwards[cell(stage, i)])
          error("stage " + std::to_string(stage) +
                " does not run both passes of micro-batch " +
                std::to_string(i));
  }

  /// What the rule wants F or B to read, if the newest version is `newest`.
  int wanted(const VersionedAction &action, int newest) const {
    switch (schedule.rule) {
    case WeightRule::Latest:
      return newest;
    case WeightRule::DoubleBuffered:
      return std::max(action.microbatch / schedule.microbatchesPerUpdate - 1,
                      0);
    case WeightRule::Stashing:
      return action.kind == ActionKind::Forward
                 ? newest
                 : *forwards[cell(action.stage, action.microbatch)];
    case WeightRule::VerticalSync:
      return action.stage == 0 && action.kind == ActionKind::Forward
                 ? newest
                 : *forwards[cell(0, action.microbatch)];
    case WeightRule::Waves:
      return std::max(action.microbatch - schedule.microbatchesInFlight + 1, 0);
    }
    return newest;
  }

  void checkVersions() {
    for (const std::vector<VersionedAction> &list : schedule.ranks) {
      int newest = 0, gradients = 0, last = -1;
      for (const VersionedAction &action : list) {
        if (action.kind == ActionKind::Update) {
          if (action.version != newest + 1)
            error(name(action) + " follows version " + std::to_string(newest));
          if (gradients != schedule.microbatchesPerUpdate)
            error(name(action) + " has " + std::to_string(gradients) +
                  " gradients, not " +
                  std::to_string(schedule.microbatchesPerUpdate));
          else if (action.microbatch != last)
            error(name(action) + " follows the backward pass of micro-batch " +
                  std::to_string(last));
          newest = action.version;
          gradients = 0;
          continue;
        }
        if (action.kind == ActionKind::Backward) {
          // Gradients have one order.
          if (action.microbatch < last)
            error(name(action) + " comes after micro-batch " +
                  std::to_string(last));
          last = action.microbatch;
          ++gradients;
        }
        if (action.version < 0 || action.version > newest)
          error(name(action) +
                " reads a version that is not written; the "
                "newest is " +
                std::to_string(newest));
        else if (int version = wanted(action, newest);
                 action.version != version)
          error(name(action) + " must read version " + std::to_string(version));
      }
      if (gradients != 0)
        error("the last " + std::to_string(gradients) +
              " gradients of a rank are in no update");
    }
  }

  void checkMemory() {
    if (schedule.rule != WeightRule::DoubleBuffered)
      return;
    std::vector<int> kept = keptVersions(schedule);
    for (size_t rank = 0; rank < kept.size(); ++rank)
      if (kept[rank] > 2)
        error("rank " + std::to_string(rank) + " needs " +
              std::to_string(kept[rank]) + " versions, not two");
  }

  /// Values are buffered; replicas of a stage update together.
  void checkTermination() {
    std::vector<size_t> heads(schedule.ranks.size(), 0);
    std::vector<int> updates(schedule.ranks.size(), 0);
    std::vector<bool> forwardDone(cell(schedule.stages, 0), false);
    std::vector<bool> backwardDone = forwardDone;
    auto head = [&](int rank) -> const VersionedAction * {
      const std::vector<VersionedAction> &list = schedule.ranks[rank];
      return heads[rank] < list.size() ? &list[heads[rank]] : nullptr;
    };
    auto step = [&](int rank) {
      const VersionedAction *action = head(rank);
      if (!action)
        return false;
      int stage = action->stage, i = action->microbatch;
      switch (action->kind) {
      case ActionKind::Forward:
        if (stage > 0 && !forwardDone[cell(stage - 1, i)])
          return false;
        forwardDone[cell(stage, i)] = true;
        break;
      case ActionKind::Backward:
        if (stage + 1 < schedule.stages && !backwardDone[cell(stage + 1, i)])
          return false;
        backwardDone[cell(stage, i)] = true;
        break;
      default:
        // The others stand at the same update, or have passed it with it.
        for (int replica : schedule.ranksOfStage[stage]) {
          const VersionedAction *other = head(replica);
          bool there = updates[replica] > updates[rank] ||
                       (updates[replica] == updates[rank] && other &&
                        other->kind == ActionKind::Update);
          if (!there)
            return false;
        }
        ++updates[rank];
      }
      ++heads[rank];
      return true;
    };
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
        while (step(static_cast<int>(rank)))
          moved = true;
    }
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      if (const VersionedAction *action = head(static_cast<int>(rank)))
        error("rank " + std::to_string(rank) + " waits forever in " +
              name(*action));
  }

  const AsynchronousSchedule &schedule;
  std::vector<int> stageOfRank;
  /// Versions read, by stage and micro-batch.
  std::vector<std::optional<int>> forwards, backwards;
  std::vector<std::string> errors;
};

} // namespace

std::vector<std::string>
pp::planner::verifyVersions(const AsynchronousSchedule &schedule) {
  return VersionVerifier(schedule).run();
}
