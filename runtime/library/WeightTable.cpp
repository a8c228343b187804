//===- WeightTable.cpp ----------------------------------------------------===//
#include "library/WeightTable.h"
#include "exec/Snapshot.h"
#include "support/Error.h"

#include <cstring>

using namespace pp::runtime;

WeightTable::WeightTable(const Program &program) : program(program) {
  auto add = [&](const StageMemory &stage, const PlanTensor &tensor,
                 bool isTrained) {
    Weight &weight =
        weights.try_emplace(tensor.name, Weight{&tensor, isTrained, {}})
            .first->second;
    weight.stages.push_back(&stage);
  };
  for (const StageMemory &stage : program.getMemories()) {
    for (const PlanTensor &tensor : stage.getPlan().parameters)
      add(stage, tensor, true);
    for (const PlanTensor &tensor : stage.getPlan().buffers)
      if (tensor.isMutable)
        add(stage, tensor, false);
  }
  for (const auto &[name, weight] : weights)
    order.push_back(&weight);
}

const WeightTable::Weight &WeightTable::find(const std::string &name) const {
  auto found = weights.find(name);
  if (found == weights.end())
    failUsage("the model has no weight '{}'", name);
  return found->second;
}

/// In the stage's image. A stage has a plan of its own for the tensor.
char *WeightTable::in(const Weight &weight, const StageMemory &stage) const {
  const PlanStage &plan = stage.getPlan();
  for (const PlanTensor &tensor : plan.parameters)
    if (tensor.name == weight.tensor->name)
      return stage.parameter(tensor);
  for (const PlanTensor &tensor : plan.buffers)
    if (tensor.name == weight.tensor->name)
      return stage.buffer(tensor);
  failInternal("stage '{}' has no '{}'", plan.name, weight.tensor->name);
}

void WeightTable::read(const Weight &weight, void *target) const {
  program.download();
  std::memcpy(target, in(weight, *weight.stages.front()), weight.tensor->bytes);
}

void WeightTable::write(const Weight &weight, const void *source) {
  program.download();
  for (const StageMemory *stage : weight.stages)
    std::memcpy(in(weight, *stage), source, weight.tensor->bytes);
  program.upload();
}

std::vector<char> WeightTable::gradient(const Weight &weight) const {
  if (!weight.isTrained)
    failUsage("'{}' is not trained, so it has no gradient",
              weight.tensor->name);
  program.download();
  const StageMemory &stage = *weight.stages.front();
  for (const PlanTensor &tensor : stage.getPlan().parameters)
    if (tensor.name == weight.tensor->name)
      return readGradient(program, stage, tensor);
  failInternal("stage '{}' has no '{}'", stage.getPlan().name,
               weight.tensor->name);
}

uint64_t WeightTable::parametersBytes() const {
  uint64_t bytes = 0;
  for (const Weight *weight : order)
    bytes += weight->isTrained ? weight->tensor->bytes : 0;
  return bytes;
}

void WeightTable::readParameters(char *target) const {
  program.download();
  for (const Weight *weight : order) {
    if (!weight->isTrained)
      continue;
    std::memcpy(target, in(*weight, *weight->stages.front()),
                weight->tensor->bytes);
    target += weight->tensor->bytes;
  }
}

void WeightTable::writeParameters(const char *source) {
  program.download();
  for (const Weight *weight : order) {
    if (!weight->isTrained)
      continue;
    for (const StageMemory *stage : weight->stages)
      std::memcpy(in(*weight, *stage), source, weight->tensor->bytes);
    source += weight->tensor->bytes;
  }
  program.upload();
}
