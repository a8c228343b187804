//===- CostModel.h - Costs of stages of a graph ---------------------------===//
#ifndef PP_LIB_PLANNER_PARTITION_COSTMODEL_H
#define PP_LIB_PLANNER_PARTITION_COSTMODEL_H

#include "pp/Planner/Partition/GraphPartitioner.h"

namespace pp::planner::partition {

struct DeviceClass {
  Device device;
  std::vector<size_t> members; // Indices in the cluster, ascending.
};

/// A class of devices and a tensor-parallel degree: with the replicas, what
/// the cost of a set of kernels depends on.
struct Mode {
  size_t deviceClass = 0;
  int degree = 1;
  int maxReplicas = 1;
};

/// What sums up over the kernels of a stage (workspace: the largest).
struct Load {
  double time = 0;
  double parameterBytes = 0;
  double savedBytes = 0;
  double workspaceBytes = 0;

  void add(const Load &other) {
    time += other.time;
    parameterBytes += other.parameterBytes;
    savedBytes += other.savedBytes;
    if (other.workspaceBytes > workspaceBytes)
      workspaceBytes = other.workspaceBytes;
  }
};

struct Choice {
  int variant = 0;
  Load load;
};

/// Where a stage lies between its neighbours.
struct Surroundings {
  double communication = 0;           // Seconds.
  double cutBefore = 0, cutAfter = 0; // Seconds, for PipeDream.
  bool first = true;
};

struct CostParts {
  double compute = 0, communication = 0, sync = 0, total = 0;
};

/// The one place where the parts of a stage are put together to its cost.
class CostModel {
public:
  explicit CostModel(const PartitionProblem &problem);

  const PartitionProblem &problem;
  /// The slowest: for all stages alike, while it is open where they run.
  Link link;
  /// Some links are faster than others, and the objective counts them: plans
  /// are then judged by the links of their devices.
  bool linksDiffer = false;
  std::vector<DeviceClass> classes;
  std::vector<Mode> modes;
  size_t maxStages = 0;
  /// Devices that can be in use at once.
  size_t maxDevices = 0;
  /// Memory is the objective, or limited such that not every stage fits.
  bool needsMemory = false;
  /// Some kernel has a choice in some mode.
  bool hasChoices = false;
  /// Some kernel wants a stage.
  bool hasHints = false;

  /// Of a value: seconds to send it over one link and its gradient over
  /// another one.
  double transfer(const Value &value, const Link &there,
                  const Link &back) const;
  double transfer(const Value &value) const {
    return transfer(value, link, link);
  }
  /// Of a value: the same without latency, for PipeDream.
  double crossing(const Value &value, const Link &there,
                  const Link &back) const;
  double crossing(const Value &value) const {
    return crossing(value, link, link);
  }

  /// The choices of a kernel in a mode that no other dominates, fastest first;
  /// none if it has no variant of the degree. Memory counts only if needed.
  std::vector<Choice> choices(size_t kernel, const Mode &mode) const;

  double memory(const Load &load, int inFlight) const;
  bool fits(const Mode &mode, double memoryBytes) const {
    return !problem.limitMemory ||
           memoryBytes <= static_cast<double>(
                              classes[mode.deviceClass].device.memoryBytes);
  }
  int leastInFlight() const;
  int mostInFlight() const;
  /// Of a device with all kernels and the largest variants of each.
  double mostMemory() const;
  bool allows(int replicas) const {
    return !problem.replicasDivideMicrobatches ||
           problem.microbatches % replicas == 0;
  }

  /// Seconds; not for Objective::Memory. `among` is the link of its replicas.
  CostParts cost(const Mode &mode, int replicas, const Load &load,
                 const Surroundings &around, const Link &among) const;
  CostParts cost(const Mode &mode, int replicas, const Load &load,
                 const Surroundings &around) const {
    return cost(mode, replicas, load, around, link);
  }

  /// The value of the whole plan.
  double value(double largest, double sum) const;
};

} // namespace pp::planner::partition

#endif // PP_LIB_PLANNER_PARTITION_COSTMODEL_H
