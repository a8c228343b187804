//===- StateSpace.cpp - What the first stages of a plan use ---------------===//
#include "StateSpace.h"
#include <algorithm>

using namespace pp::planner;
using namespace pp::planner::partition;

static bool hasDegrees(const CostModel &model) {
  return std::any_of(model.modes.begin(), model.modes.end(),
                     [](const Mode &mode) { return mode.degree > 1; });
}

static bool isPositional(const CostModel &model) {
  const MemoryModel &memory = model.problem.memory;
  if (!model.needsMemory || memory.rule == InFlightRule::Replicas ||
      memory.inFlight.empty())
    return false;
  return std::any_of(memory.inFlight.begin(), memory.inFlight.end(),
                     [&](int n) { return n != memory.inFlight.front(); });
}

static bool mustCountStages(const CostModel &model) {
  if (!model.problem.replicate && !hasDegrees(model))
    return false; // As many as devices.
  return model.maxStages < model.maxDevices || model.problem.exactStageCount ||
         isPositional(model) || model.hasHints;
}

static bool mustCountReplicas(const CostModel &model) {
  return model.needsMemory && hasDegrees(model) &&
         model.problem.memory.rule == InFlightRule::Replicas;
}

double pp::planner::partition::countStates(const CostModel &model) {
  double size = 1;
  for (const DeviceClass &deviceClass : model.classes)
    size *= static_cast<double>(
        std::min(deviceClass.members.size(), model.maxDevices) + 1);
  if (mustCountStages(model))
    size *= static_cast<double>(model.maxStages + 1);
  if (mustCountReplicas(model))
    size *= static_cast<double>(model.maxDevices + 1);
  return size;
}

StateSpace::StateSpace(const CostModel &model) : model(model) {
  size_t size = 1;
  for (const DeviceClass &deviceClass : model.classes) {
    capacity.push_back(std::min(deviceClass.members.size(), model.maxDevices));
    stride.push_back(size);
    size *= capacity.back() + 1;
  }
  countsStages = mustCountStages(model);
  if (countsStages) {
    stageStride = size;
    size *= model.maxStages + 1;
  }
  countsReplicas = mustCountReplicas(model);
  if (countsReplicas) {
    replicaStride = size;
    size *= model.maxDevices + 1;
  }
  isSimple = model.classes.size() == 1 && !countsStages && !countsReplicas;
  for (uint32_t code = 0; code < size; ++code) {
    State state = {0, 0, 0, code};
    for (size_t c = 0; c < capacity.size(); ++c)
      state.devices += static_cast<uint32_t>(used(code, c));
    state.stages =
        countsStages
            ? static_cast<uint32_t>(code / stageStride % (model.maxStages + 1))
            : state.devices;
    state.replicas = countsReplicas
                         ? static_cast<uint32_t>(code / replicaStride)
                         : state.devices;
    // Every stage has a replica, every replica a device.
    if (state.devices <= model.maxDevices && state.replicas <= state.devices &&
        (!countsStages || state.stages <= state.replicas))
      states.push_back(state);
  }
  std::sort(states.begin(), states.end(), [](const State &a, const State &b) {
    return std::pair(a.devices, a.code) < std::pair(b.devices, b.code);
  });
  stateOf.assign(size, 0);
  firstWith.assign(model.maxDevices + 2, static_cast<uint32_t>(states.size()));
  for (size_t s = states.size(); s-- > 0;) {
    stateOf[states[s].code] = static_cast<uint32_t>(s);
    firstWith[states[s].devices] = static_cast<uint32_t>(s);
  }
  for (size_t d = model.maxDevices + 1; d-- > 0;)
    firstWith[d] = std::min(firstWith[d], firstWith[d + 1]);
}

std::optional<size_t> StateSpace::next(size_t state, const Mode &mode,
                                       int replicas) const {
  size_t devices = static_cast<size_t>(mode.degree) * replicas;
  const State &from = states[state];
  if (used(from.code, mode.deviceClass) + devices >
          capacity[mode.deviceClass] ||
      from.devices + devices > model.maxDevices)
    return std::nullopt;
  size_t code = from.code + devices * stride[mode.deviceClass];
  if (countsStages) {
    if (from.stages == model.maxStages)
      return std::nullopt;
    code += stageStride;
  }
  if (countsReplicas)
    code += replicas * replicaStride;
  return stateOf[code];
}
