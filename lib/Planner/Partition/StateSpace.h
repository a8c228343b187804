//===- StateSpace.h - What the first stages of a plan use -----------------===//
#ifndef PP_LIB_PLANNER_PARTITION_STATESPACE_H
#define PP_LIB_PLANNER_PARTITION_STATESPACE_H

#include "CostModel.h"
#include <cstdint>

namespace pp::planner::partition {

/// What a prefix of a plan has used. Devices of each class and, where they do
/// not follow from those, stages and replicas.
///
/// States are numbered by the devices in use. Those that no plan can reach are
/// left out.
class StateSpace {
public:
  explicit StateSpace(const CostModel &model);

  struct State {
    uint32_t devices, stages, replicas;
    uint32_t code; // Mixed radix of the counts.
  };
  std::vector<State> states;
  /// The first state with at least that many devices, up to one more than
  /// there are.
  std::vector<uint32_t> firstWith;
  /// One class, nothing else: state = devices.
  bool isSimple = false;

  /// The state after a stage, or nothing.
  std::optional<size_t> next(size_t state, const Mode &mode,
                             int replicas) const;

private:
  size_t used(uint32_t code, size_t deviceClass) const {
    return code / stride[deviceClass] % (capacity[deviceClass] + 1);
  }

  const CostModel &model;
  std::vector<size_t> capacity, stride;
  bool countsStages = false, countsReplicas = false;
  size_t stageStride = 0, replicaStride = 0;
  std::vector<uint32_t> stateOf; // Per code.
};

/// How many states a search would have; without building them.
double countStates(const CostModel &model);

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_STATESPACE_H
