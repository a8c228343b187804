//===- Placement.h - Which process runs which rank ------------------------===//
#ifndef PP_RUNTIME_PROCESS_PLACEMENT_H
#define PP_RUNTIME_PROCESS_PLACEMENT_H

#include "plan/Plan.h"

#include <vector>

namespace pp::runtime {

/// Each process runs a block of consecutive ranks; blocks differ by one rank at
/// most. The rank of a shard is where the stage is whose memory it is in.
class Placement {
public:
  /// Throws Error(Usage) where there are more processes than ranks.
  Placement(const Plan &plan, unsigned process, unsigned processes);

  unsigned getProcess() const { return process; }
  unsigned processOfRank(unsigned rank) const { return ofRank[rank]; }
  unsigned processOfStage(unsigned stage) const { return ofStage[stage]; }
  bool hasRank(unsigned rank) const { return ofRank[rank] == process; }
  bool hasStage(unsigned stage) const { return ofStage[stage] == process; }
  /// Whether a channel has both ends in this process.
  bool isLocal(const PlanChannel &channel) const {
    return hasStage(channel.from) && hasStage(channel.to);
  }
  /// Whether a channel has one end in this process.
  bool isBorder(const PlanChannel &channel) const {
    return hasStage(channel.from) != hasStage(channel.to);
  }
  /// The process at the far end of a border channel.
  unsigned peerOf(const PlanChannel &channel) const {
    return ofStage[hasStage(channel.from) ? channel.to : channel.from];
  }
  /// The process that computes the losses of a replica.
  unsigned processOfLoss(unsigned replica) const { return ofLoss[replica]; }
  /// The process that computes a fetch of a micro-batch.
  unsigned processOfFetch(unsigned fetch, unsigned microbatch) const {
    return ofFetch[fetch][microbatch % ofFetch[fetch].size()];
  }

private:
  unsigned process;
  std::vector<unsigned> ofRank, ofStage, ofLoss;
  std::vector<std::vector<unsigned>> ofFetch;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROCESS_PLACEMENT_H
