//===- Schedule.cpp - What every rank does in one step --------------------===//
#include "pp/Planner/Schedule/Schedule.h"
#include <algorithm>

using namespace pp::planner;

bool Schedule::hasTransfers() const {
  for (const std::vector<Action> &rank : ranks)
    for (const Action &action : rank)
      if (action.isTransfer())
        return true;
  return false;
}

bool Schedule::isTraining() const {
  for (const std::vector<Action> &rank : ranks)
    for (const Action &action : rank)
      if (!action.isTransfer() && action.kind != ActionKind::Forward &&
          action.kind != ActionKind::Prepare)
        return true;
  return false;
}

int Schedule::parts() const {
  int count = replicas.empty() ? stages : 0;
  for (const Replica &replica : replicas)
    count = std::max(count, replica.part + 1);
  return count;
}

std::vector<int> Schedule::ranksOf(const RankGroup &group) const {
  std::vector<int> result;
  for (int stage : group.stages)
    result.push_back(rankOfStage[stage]);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::string Schedule::describe(int stage) const {
  std::string text = "stage " + std::to_string(stage);
  Replica replica = replicaOf(stage);
  if (replica.count > 1)
    text += " (replica " + std::to_string(replica.number) + " of part " +
            std::to_string(replica.part) + ")";
  return text;
}

std::vector<Channel> pp::planner::neighborChannels(int stages, bool training,
                                                   Phase lastReader,
                                                   int64_t bytes) {
  std::vector<Channel> channels;
  for (int stage = 0; stage + 1 < stages; ++stage)
    channels.push_back({stage, stage + 1, Phase::Forward, Phase::Forward,
                        training ? lastReader : Phase::Forward,
                        "activation" + std::to_string(stage), bytes});
  for (int stage = stages - 1; training && stage > 0; --stage)
    channels.push_back({stage, stage - 1, Phase::BackwardInput,
                        Phase::BackwardInput, Phase::BackwardWeight,
                        "gradient" + std::to_string(stage), bytes});
  return channels;
}
