//===- Schedule.cpp - What every rank does in one step --------------------===//
#include "pp/Planner/Schedule/Schedule.h"

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
      if (!action.isTransfer() && action.kind != ActionKind::Forward)
        return true;
  return false;
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
