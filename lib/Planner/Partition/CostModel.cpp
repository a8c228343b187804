//===- CostModel.cpp - Costs of stages of a graph -------------------------===//
#include "CostModel.h"
#include <algorithm>
#include <set>

using namespace pp::planner;
using namespace pp::planner::partition;

static bool isSameClass(const Device &a, const Device &b) {
  return a.kind == b.kind && a.memoryBytes == b.memoryBytes &&
         a.speed == b.speed && a.communicates == b.communicates;
}

CostModel::CostModel(const PartitionProblem &problem) : problem(problem) {
  const std::vector<Device> &devices = problem.cluster->devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    auto found = std::find_if(classes.begin(), classes.end(),
                              [&](const DeviceClass &known) {
                                return isSameClass(known.device, devices[i]);
                              });
    if (found == classes.end())
      found = classes.insert(classes.end(), {devices[i], {}});
    found->members.push_back(i);
  }
  std::set<int> degrees = {1};
  for (const Kernel &kernel : problem.graph->kernels)
    for (const KernelVariant &variant : kernel.variants)
      degrees.insert(variant.devices);
  bool oneDeviceEach = !problem.replicate && degrees.size() == 1;
  maxStages = problem.maxStages ? problem.maxStages : devices.size();
  maxStages = std::min(maxStages, devices.size());
  maxDevices = oneDeviceEach ? maxStages : devices.size();
  link = problem.cluster->slowestLink(
      classes.size() == 1 && oneDeviceEach ? maxStages : devices.size());
  linksDiffer = problem.objective != Objective::Memory &&
                problem.communication != Communication::Ignored &&
                problem.cluster->fastestLink(devices.size()) !=
                    problem.cluster->slowestLink(devices.size());
  for (size_t c = 0; c < classes.size(); ++c)
    for (int degree : degrees) {
      size_t most = classes[c].members.size() / degree;
      if (most > 0)
        modes.push_back(
            {c, degree, problem.replicate ? static_cast<int>(most) : 1});
    }
  for (const Kernel &kernel : problem.graph->kernels)
    hasHints |= kernel.stageHint.has_value();
  needsMemory = problem.objective == Objective::Memory;
  if (problem.limitMemory)
    for (const DeviceClass &candidate : classes)
      needsMemory |=
          mostMemory() > static_cast<double>(candidate.device.memoryBytes);
  for (const Mode &mode : modes)
    for (size_t k = 0; k < problem.graph->kernels.size() && !hasChoices; ++k)
      hasChoices |= !problem.graph->kernels[k].variants.empty() &&
                    choices(k, mode).size() > 1;
}

double CostModel::transfer(const Value &value, const Link &there,
                           const Link &back) const {
  if (problem.communication == Communication::Ignored ||
      problem.objective == Objective::Memory ||
      problem.objective == Objective::PipeDream)
    return 0;
  double time = 0;
  if (value.bytes > 0)
    time += there.transferTime(value.bytes);
  if (value.gradientBytes > 0)
    time += back.transferTime(value.gradientBytes);
  return time;
}

double CostModel::crossing(const Value &value, const Link &there,
                           const Link &back) const {
  if (problem.objective != Objective::PipeDream)
    return 0;
  return static_cast<double>(value.bytes) / there.bandwidth +
         static_cast<double>(value.gradientBytes) / back.bandwidth;
}

std::vector<Choice> CostModel::choices(size_t index, const Mode &mode) const {
  const Kernel &kernel = problem.graph->kernels[index];
  const Device &device = classes[mode.deviceClass].device;
  std::vector<Choice> all;
  for (size_t v = 0; v <= kernel.variants.size(); ++v) {
    if ((v ? kernel.variants[v - 1].devices : 1) != mode.degree)
      continue;
    Choice choice;
    choice.variant = static_cast<int>(v);
    choice.load.time = kernel.timeOn(device.kind, device.speed, v);
    if (v) {
      const KernelVariant &variant = kernel.variants[v - 1];
      choice.load.parameterBytes = static_cast<double>(variant.parameterBytes);
      choice.load.savedBytes = static_cast<double>(variant.savedBytes);
      choice.load.workspaceBytes = static_cast<double>(variant.workspaceBytes);
    } else {
      choice.load.parameterBytes = static_cast<double>(kernel.parameterBytes);
      choice.load.savedBytes = static_cast<double>(kernel.savedBytes);
      choice.load.workspaceBytes = static_cast<double>(kernel.workspaceBytes);
    }
    all.push_back(choice);
  }
  std::sort(all.begin(), all.end(), [](const Choice &a, const Choice &b) {
    return std::pair(a.load.time, a.variant) <
           std::pair(b.load.time, b.variant);
  });
  std::vector<Choice> kept;
  for (const Choice &choice : all) {
    bool isDominated = false;
    for (const Choice &other : kept)
      isDominated |= !needsMemory ||
                     (other.load.parameterBytes <= choice.load.parameterBytes &&
                      other.load.savedBytes <= choice.load.savedBytes &&
                      other.load.workspaceBytes <= choice.load.workspaceBytes);
    if (!isDominated)
      kept.push_back(choice);
  }
  return kept;
}

double CostModel::memory(const Load &load, int inFlight) const {
  const MemoryModel &model = problem.memory;
  return (model.parameterCopies +
          model.stashedCopies * std::max(0, inFlight - 1)) *
             load.parameterBytes +
         inFlight * load.savedBytes + load.workspaceBytes;
}

int CostModel::leastInFlight() const {
  const std::vector<int> &table = problem.memory.inFlight;
  if (problem.memory.rule == InFlightRule::Replicas || table.empty())
    return 1;
  return *std::min_element(table.begin(), table.end());
}

int CostModel::mostInFlight() const {
  const std::vector<int> &table = problem.memory.inFlight;
  if (problem.memory.rule == InFlightRule::Replicas)
    return static_cast<int>(maxDevices);
  return table.empty() ? 1 : *std::max_element(table.begin(), table.end());
}

double CostModel::mostMemory() const {
  Load all;
  for (const Kernel &kernel : problem.graph->kernels) {
    Load most;
    auto meet = [&](const auto &way) {
      most.parameterBytes = std::max(most.parameterBytes,
                                     static_cast<double>(way.parameterBytes));
      most.savedBytes =
          std::max(most.savedBytes, static_cast<double>(way.savedBytes));
      most.workspaceBytes = std::max(most.workspaceBytes,
                                     static_cast<double>(way.workspaceBytes));
    };
    meet(kernel);
    for (const KernelVariant &variant : kernel.variants)
      meet(variant);
    all.add(most);
  }
  return memory(all, mostInFlight());
}

CostParts CostModel::cost(const Mode &mode, int replicas, const Load &load,
                          const Surroundings &around, const Link &among) const {
  double m = replicas;
  CostParts parts;
  parts.compute = load.time / m;
  bool communicates = classes[mode.deviceClass].device.communicates;
  if (problem.objective == Objective::PipeDream) {
    double seconds = load.parameterBytes / among.bandwidth;
    double before = communicates ? around.cutBefore : 0;
    double after = communicates ? around.cutAfter : 0;
    if (problem.form == PipeDreamForm::Code) {
      parts.sync = 4 * (m - 1) / m * seconds / m;
      parts.communication = std::max(before, around.first ? 0 : after) / m;
      parts.total = std::max(parts.compute + parts.sync, parts.communication);
    } else {
      parts.sync = 2 * (m - 1) * seconds / m;
      parts.communication = std::max(before, after);
      parts.total = std::max({parts.compute, parts.sync, parts.communication});
    }
    return parts;
  }
  if (problem.communication == Communication::Ignored) {
    parts.total = parts.compute;
    return parts;
  }
  parts.communication = communicates ? around.communication / m : 0;
  if (replicas > 1)
    parts.sync = (problem.allReduceFactor * (m - 1) / m * load.parameterBytes /
                      among.bandwidth +
                  2 * (m - 1) * among.latency) /
                 problem.microbatches;
  parts.total = (problem.communication == Communication::Added
                     ? parts.compute + parts.communication
                     : std::max(parts.compute, parts.communication)) +
                parts.sync;
  return parts;
}

double CostModel::value(double largest, double sum) const {
  return problem.objective == Objective::FlushLatency
             ? sum + (problem.microbatches - 1) * largest
             : largest;
}
