//===- Program.cpp --------------------------------------------------------===//
#include "core/Program.h"
#include "support/Error.h"

#include <cstring>
#include <map>

using namespace pp::runtime;

Program::Program(const pp_program &program, Device &device)
    : functions(program), device(device), plan(Plan::parse(getPlanText())) {
  if (functions.stage_count != plan.stages.size())
    failInternal("stages: the plan has {}, the binary {}", plan.stages.size(),
                 functions.stage_count);
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const pp_stage_functions &stage = functions.stages[i];
    const auto &phases = plan.stages[i].phases;
    auto isMissing = [&](pp_phase_function function, Phase phase) {
      return !function && !phases[static_cast<size_t>(phase)].outputs.empty();
    };
    // A phase that has nothing to do has no function.
    if (!stage.forward || isMissing(stage.backward_input, Phase::I) ||
        isMissing(stage.backward_weight, Phase::W))
      failInternal("stages[{}]: the binary lacks a phase function", i);
  }
  for (size_t i = 0; i < plan.stages.size(); ++i)
    if (plan.isTraining() && !functions.optimizer &&
        plan.stages[i].areas.parameters.bytes &&
        !plan.stages[i].optimizerKernel)
      failInternal("stages[{}]: the binary lacks the optimizer's function", i);
  if (!device.runs(plan.target))
    failUsage("--device {}: the model was compiled for {}", device.getName(),
              plan.target);
  code = device.load(functions);
}

void Program::allocate(const std::string &weightsDirectory) {
  memories.clear();
  WeightFiles files(plan, weightsDirectory);
  for (const PlanStage &stage : plan.stages) {
    memories.emplace_back(stage, device);
    files.load(memories.back());
    if (const PlanScalar *scale = plan.findLossScale())
      memories.back().lossScale()->scale = static_cast<float>(scale->value);
  }
  upload();
}

void Program::download() const {
  for (const StageMemory &memory : memories)
    memory.download();
}

void Program::upload() const {
  for (const StageMemory &memory : memories)
    memory.upload();
}

void Program::copyWeightsFrom(const Program &other) {
  struct Value {
    const PlanTensor *tensor;
    const char *data;
  };
  std::map<std::string, Value> values;
  other.download();
  for (const StageMemory &memory : other.memories) {
    for (const PlanTensor &tensor : memory.getPlan().parameters)
      values.emplace(tensor.name, Value{&tensor, memory.parameter(tensor)});
    for (const PlanTensor &tensor : memory.getPlan().buffers)
      values.emplace(tensor.name, Value{&tensor, memory.buffer(tensor)});
  }
  auto copy = [&](const PlanTensor &tensor, char *target, bool isParameter) {
    auto it = values.find(tensor.name);
    bool fits = it != values.end() && it->second.tensor->type == tensor.type &&
                it->second.tensor->shape == tensor.shape;
    if (fits && tensor.bytes)
      std::memcpy(target, it->second.data, tensor.bytes);
    else if (!fits && (isParameter || it != values.end()))
      failInternal("'{}' of the inference program has no counterpart in the "
                   "training program",
                   tensor.name);
  };
  for (const StageMemory &memory : memories) {
    for (const PlanTensor &tensor : memory.getPlan().parameters)
      copy(tensor, memory.parameter(tensor), true);
    for (const PlanTensor &tensor : memory.getPlan().buffers)
      copy(tensor, memory.buffer(tensor), false);
  }
  upload();
}
