//===- PipelineModel.cpp - A pipeline as tables of numbers ----------------===//
#include "PipelineModel.h"
#include <algorithm>
#include <limits>

using namespace pp::planner;

int64_t PipelineModel::leastCapacity(int rank) const {
  int64_t all = 0, excess = 0;
  for (int stage : stagesOfRank[rank]) {
    all += forwardBytes[stage];
    excess = std::max(excess, weightBytes[stage] - forwardBytes[stage]);
  }
  return all + excess;
}

PipelineModel pp::planner::buildModel(const Schedule &schedule,
                                      const SimulationInput &input) {
  PipelineModel model;
  model.stages = schedule.stages;
  model.microbatches = schedule.microbatches;
  model.rankOfStage = schedule.rankOfStage;
  int ranks = 1 + *std::max_element(schedule.rankOfStage.begin(),
                                    schedule.rankOfStage.end());
  model.stagesOfRank.resize(ranks);
  model.readers.resize(ranks);
  for (std::vector<std::vector<PipelineModel::Edge>> &edges : model.incoming)
    edges.resize(schedule.stages);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    model.stagesOfRank[schedule.rankOfStage[stage]].push_back(stage);
    const StageTimes &times =
        input.stages[input.stages.size() == 1 ? 0 : stage];
    model.duration[0].push_back(times.forward);
    model.duration[1].push_back(times.backwardInput);
    model.duration[2].push_back(times.backwardWeight);
    model.update.push_back(times.update);
  }
  for (size_t c = 0; c < schedule.channels.size(); ++c) {
    const Channel &channel = schedule.channels[c];
    bool crosses = schedule.crossesRanks(channel);
    double delay = !crosses || input.transfers.empty()
                       ? 0
                       : input.transfers[input.transfers.size() == 1 ? 0 : c];
    model.incoming[static_cast<size_t>(channel.toPhase)][channel.to].push_back(
        {channel.fromPhase, channel.from, delay});
    if (crosses)
      model.readers[schedule.rankOfStage[channel.from]].push_back(
          schedule.rankOfStage[channel.to]);
  }
  for (std::vector<int> &ranksOf : model.readers) {
    std::sort(ranksOf.begin(), ranksOf.end());
    ranksOf.erase(std::unique(ranksOf.begin(), ranksOf.end()), ranksOf.end());
  }
  model.forwardBytes.assign(schedule.stages, 0);
  model.weightBytes.assign(schedule.stages, 0);
  model.capacity.assign(ranks, std::numeric_limits<int64_t>::max());
  return model;
}
