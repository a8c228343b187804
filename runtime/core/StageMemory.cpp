//===- StageMemory.cpp ----------------------------------------------------===//
#include "core/StageMemory.h"
#include "support/Error.h"

#include <cstdlib>
#include <cstring>

using namespace pp::runtime;

void StageMemory::Free::operator()(char *pointer) const { std::free(pointer); }

StageMemory::StageMemory(const PlanStage &stage) : plan(&stage) {
  if (stage.memoryBytes == 0)
    return;
  base.reset(static_cast<char *>(std::aligned_alloc(64, stage.memoryBytes)));
  if (!base)
    throw Error(ErrorKind::IO,
                fmt::format("stage '{}': cannot allocate {} bytes", stage.name,
                            stage.memoryBytes));
  // Also touches every page, so that a step never pays for page faults.
  std::memset(base.get(), 0, stage.memoryBytes);
  bytes = stage.memoryBytes;
}

char *StageMemory::parameter(const PlanTensor &tensor) const {
  return at(plan->areas.parameters.offset + tensor.offset);
}

char *StageMemory::buffer(const PlanTensor &tensor) const {
  return at(plan->areas.buffers.offset + tensor.offset);
}

float *StageMemory::gradient(const PlanTensor &parameter) const {
  return reinterpret_cast<float *>(
      at(plan->areas.gradients.offset + parameter.offset));
}

float *StageMemory::optimizerState(const PlanTensor &parameter,
                                   unsigned state) const {
  return reinterpret_cast<float *>(at(plan->areas.optimizer.offset +
                                      state * plan->areas.parameters.bytes +
                                      parameter.offset));
}
