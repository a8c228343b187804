//===- Program.cpp --------------------------------------------------------===//
#include "program/Program.h"
#include "plan/SharePlan.h"
#include "support/AddressSpace.h"
#include "support/Error.h"
#include "support/Thread.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unistd.h>

using namespace pp::runtime;

Program::Program(const pp_pipeline &program, Device &device,
                 ProcessGroup &group)
    : functions(program), device(device), group(group),
      plan(Plan::parse(getPlanText())),
      placement(plan, group.process(), group.size()) {
  size_t codes = plan.stages.back().code + 1;
  if (functions.stage_count != codes)
    failInternal("stages: the plan has {}, the binary {}", codes,
                 functions.stage_count);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const pp_stage_functions &stage = functions.stages[plan.stages[i].code];
    const auto &phases = plan.stages[i].phases;
    auto isMissing = [&](pp_phase_function function, Phase phase) {
      return !function && !phases[static_cast<size_t>(phase)].outputs.empty();
    };
    // A phase that has nothing to do has no function.
    if (!stage.forward ||
        isMissing(stage.backward_input, Phase::BackwardInput) ||
        isMissing(stage.backward_weight, Phase::BackwardWeight) ||
        (plan.stages[i].prepares && !stage.prepare))
      failInternal("stages[{}]: the binary lacks a phase function", i);
  }
  for (size_t i = 0; i < plan.stages.size(); ++i)
    if (plan.isTraining() && !functions.optimizer &&
        plan.stages[i].areas.parameters.bytes &&
        !plan.stages[i].optimizerKernel)
      failInternal("stages[{}]: the binary lacks the optimizer's function", i);
  for (size_t i = 0; i < plan.stages.size(); ++i)
    if (!functions.round &&
        std::ranges::any_of(plan.stages[i].parameters,
                            [](const PlanTensor &parameter) {
                              return parameter.prepared.has_value();
                            }))
      failInternal("stages[{}]: the binary lacks the function that rounds "
                   "parameters",
                   i);
  if (!device.runs(plan.target))
    failUsage("--device {}: the model was compiled for {}", device.getName(),
              plan.target);
  if (!plan.flushes && !device.isHostMemory())
    failUsage("--device {}: schedule '{}' has no flush, which runs on the "
              "processor only",
              device.getName(), plan.schedule);
  code = device.load(functions);
  cores.resize(plan.ranks.size());
}

void Program::pin() {
  cores = assignCores(plan, placement, group.getLaunch(),
                      nearestFirst(usableCores()),
                      static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN)));
}

/// Whether another process may write into the memory of a stage.
bool Program::receivesFromPeer(unsigned stage) const {
  if (!group.sharesMemory())
    return false;
  for (const PlanChannel &channel : plan.channels)
    if (channel.to == stage && placement.isBorder(channel) &&
        group.isOnThisMachine(placement.peerOf(channel)))
      return true;
  return false;
}

uint64_t Program::bytesToStart() const {
  // Measured for models of 15 to 63 kernels: 0.2 to 0.7 MB for each, and 10 MB.
  constexpr uint64_t perKernel = 750'000, constant = 16'000'000;
  uint64_t bytes = constant;
  for (unsigned r = 0; r < plan.ranks.size(); ++r) {
    if (!placement.hasRank(r))
      continue;
    bytes += headroomPerRank;
    // The mock device has a thread for each stream.
    bytes += (device.isHostMemory() ? plan.threads : 4) * threadStackBytes();
    for (unsigned s : plan.ranks[r].stages)
      bytes += plan.stages[s].kernels.size() * perKernel;
  }
  return bytes;
}

unsigned Program::rankOf(unsigned stage) const {
  for (unsigned r = 0; r < plan.ranks.size(); ++r)
    if (std::ranges::count(plan.ranks[r].stages, stage))
      return r;
  failInternal("stages[{}] is on no rank", stage);
}

void Program::allocate(const std::string &weightsDirectory,
                       bool verifyWeights) {
  memories.clear();
  uint64_t bytes = 0;
  for (unsigned s = 0; s < plan.stages.size(); ++s)
    if (placement.hasStage(s))
      bytes += plan.stages[s].memoryBytes;
  for (uint64_t file : plan.weightsBytes)
    bytes += file;
  requireAddressSpace(bytes + bytesToStart(),
                      fmt::format("the {} program, with its stages, weights, "
                                  "threads and kernels,",
                                  plan.mode));
  WeightFiles files(plan, weightsDirectory, verifyWeights);
  for (unsigned s = 0; s < plan.stages.size(); ++s) {
    memories.emplace_back(plan.stages[s], device, placement.hasStage(s),
                          receivesFromPeer(s));
    if (!placement.hasStage(s))
      continue;
    // Pages lie where they are touched first; all others are by the rank.
    ScopedBinding binding(cores[rankOf(s)]);
    files.load(memories.back());
    if (const PlanScalar *scale = plan.findLossScale())
      memories.back().lossScale()->scale = static_cast<float>(scale->value);
  }
  startAverages();
  upload();
}

void Program::startAverages() const {
  std::optional<unsigned> average = plan.optimizer.averageState();
  if (!average)
    return;
  for (const StageMemory &memory : memories)
    if (memory.isHere())
      for (const PlanTensor &tensor : memory.getPlan().parameters)
        if (tensor.bytes)
          std::memcpy(memory.optimizerState(plan.optimizer, tensor, *average),
                      memory.parameter(tensor), tensor.bytes);
}

void Program::download() const {
  for (const StageMemory &memory : memories)
    memory.download();
}

void Program::leaveShared() {
  for (StageMemory &memory : memories)
    memory.leaveShared();
}

void Program::upload() const {
  ++uploads;
  for (const StageMemory &memory : memories) {
    memory.upload();
    if (plan.clockDistance && memory.isHere())
      fillShard(memory);
  }
}

void Program::fillShard(const StageMemory &memory) const {
  const PlanStage &stage = memory.getPlan();
  SharedLayout layout = sharedLayout(plan, stage);
  if (uint64_t bytes = layout.bytesOf(stage.replica))
    std::memcpy(memory.at(stage.areas.shared) + layout.shard(),
                memory.at(stage.areas.parameters) + layout.begin(stage.replica),
                bytes);
}

void Program::copyWeightsFrom(const Program &other, bool averages) {
  /// Where the other program has a tensor.
  struct Source {
    const PlanTensor *tensor;
    unsigned process;
    const char *data; // null in other processes
  };
  std::map<std::string, Source> sources;
  other.download();
  for (unsigned s = 0; s < other.memories.size(); ++s) {
    const StageMemory &memory = other.memories[s];
    const PlanStage &stage = other.plan.stages[s];
    unsigned process = other.placement.processOfStage(s);
    for (const PlanTensor &tensor : stage.parameters) {
      const char *data = nullptr;
      if (memory.isHere())
        data = averages
                   ? memory.optimizerState(other.plan.optimizer, tensor,
                                           *other.plan.optimizer.averageState())
                   : memory.parameter(tensor);
      sources.emplace(tensor.name, Source{&tensor, process, data});
    }
    for (const PlanTensor &tensor : stage.buffers)
      sources.emplace(
          tensor.name,
          Source{&tensor, process,
                 memory.isHere() ? memory.buffer(tensor) : nullptr});
  }
  // All processes walk the same tensors in the same order, so whoever waits
  // waits for one that is on its way to the same tensor.
  auto copy = [&](unsigned s, const PlanTensor &tensor, bool isParameter) {
    auto it = sources.find(tensor.name);
    bool fits = it != sources.end() && it->second.tensor->type == tensor.type &&
                it->second.tensor->shape == tensor.shape;
    if (!fits && (isParameter || it != sources.end()))
      failInternal("'{}' of the inference program has no counterpart in the "
                   "training program",
                   tensor.name);
    if (!fits || tensor.bytes == 0)
      return;
    const Source &source = it->second;
    char *target = nullptr;
    if (memories[s].isHere())
      target = isParameter ? memories[s].parameter(tensor)
                           : memories[s].buffer(tensor);
    if (target && source.data)
      std::memcpy(target, source.data, tensor.bytes);
    else if (target)
      group.receive(source.process, target, tensor.bytes);
    else if (source.data)
      group.send(placement.processOfStage(s), source.data, tensor.bytes);
  };
  for (unsigned s = 0; s < plan.stages.size(); ++s) {
    for (const PlanTensor &tensor : plan.stages[s].parameters)
      copy(s, tensor, true);
    for (const PlanTensor &tensor : plan.stages[s].buffers)
      copy(s, tensor, false);
  }
  upload();
}
