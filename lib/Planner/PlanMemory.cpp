//===- PlanMemory.cpp -----------------------------------------------------===//
#include "PlanMemory.h"

using namespace pp::planner;

std::vector<int64_t> pp::planner::countMemory(const PlanDraft &draft,
                                              const Schedule &schedule,
                                              const SlotAssignment &slots,
                                              std::vector<StageLoad> &stages) {
  for (size_t c = 0; c < schedule.channels.size(); ++c) {
    const Channel &channel = schedule.channels[c];
    stages[channel.from].channelBytes +=
        slots.channels[c].sendCount * channel.bytes;
    stages[channel.to].channelBytes +=
        slots.channels[c].receiveCount * channel.bytes;
  }
  std::vector<int64_t> peaks(schedule.ranks.size(), 0);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    StageLoad &load = stages[stage];
    load.slots = slots.stages[stage].count;
    int64_t others = schedule.isRolling() ? schedule.versions[stage] - 1 : 0;
    load.memoryBytes =
        static_cast<int64_t>(draft.parameterCopies *
                             static_cast<double>(load.parameterBytes)) +
        load.preparedBytes +
        others * (load.parameterBytes + load.preparedBytes) +
        load.slots * load.savedBytes + load.channelBytes + load.workspaceBytes;
    peaks[schedule.rankOfStage[stage]] += load.memoryBytes;
  }
  return peaks;
}

std::optional<std::string>
pp::planner::findOverflow(const PlanDraft &draft,
                          const std::vector<int64_t> &peakBytes) {
  for (int stage = 0; stage < draft.schedule.stages; ++stage)
    for (size_t index : draft.devicesOf(stage)) {
      const Device &device = draft.cluster->devices[index];
      int rank = draft.schedule.rankOfStage[stage];
      if (peakBytes[rank] > device.memoryBytes)
        return "rank " + std::to_string(rank) + " needs " +
               std::to_string(peakBytes[rank]) + " bytes, '" + device.name +
               "' has " + std::to_string(device.memoryBytes);
    }
  return std::nullopt;
}
