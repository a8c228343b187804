//===- StageMemory.cpp ----------------------------------------------------===//
#include "program/StageMemory.h"
#include "device/KeptShares.h"
#include "plan/OptimizerStates.h"
#include "support/Error.h"

#include <cstdlib>
#include <cstring>

using namespace pp::runtime;

StageMemory::StageMemory(const PlanStage &stage, Device &device, bool isHere,
                         bool isShared)
    : plan(&stage), device(&device), here(isHere) {
  if (stage.memoryBytes == 0 || !isHere)
    return;
  std::string what = fmt::format("stage '{}'", stage.name);
  if (isShared)
    try {
      base = device.allocateShared(stage.memoryBytes, what, handle);
    } catch (const Error &) {
      // Without a handle, values take another way.
      handle.clear();
    }
  if (!base)
    base = device.allocate(stage.memoryBytes, what);
  bytes = stage.memoryBytes;
  if (device.isHostMemory())
    return;
  // As large as the stage, so that offsets agree; pages that nobody touches
  // cost nothing.
  separateImage = DeviceMemory(static_cast<char *>(std::calloc(bytes, 1)),
                               [](char *pointer) { std::free(pointer); });
  if (!separateImage)
    throw Error(ErrorKind::IO,
                fmt::format("stage '{}': cannot allocate {} bytes of host "
                            "memory for its image",
                            stage.name, bytes));
}

void StageMemory::leaveShared() {
  if (!handle.empty())
    keepUntilTheEnd(base);
}

void StageMemory::fillVersions(unsigned from) const {
  const PlanAreas &areas = plan->areas;
  for (unsigned slot = 0; here && slot < plan->versions; ++slot)
    if (slot != from)
      std::memcpy(at(areas.parametersOf(slot)), at(areas.parametersOf(from)),
                  areas.parameters.bytes);
  if (!here || !areas.corrected.bytes)
    return;
  std::memset(at(areas.changes()), 0, areas.parameters.bytes);
  std::memcpy(at(areas.correctedParameters()), at(areas.parametersOf(from)),
              areas.parameters.bytes);
}

void StageMemory::upload() const {
  copyImage(/*toDevice=*/true);
  fillVersions(/*from=*/0);
}

void StageMemory::copyImage(bool toDevice) const {
  if (!separateImage)
    return;
  std::unique_ptr<Stream> stream = device->createStream();
  std::unique_ptr<Event> done = device->createEvent();
  const PlanAreas &areas = plan->areas;
  for (const PlanArea *area :
       {&areas.parameters, &areas.buffers, &areas.gradients, &areas.optimizer,
        &areas.lossScale}) {
    if (area->bytes == 0)
      continue;
    char *image = separateImage.get() + area->offset;
    if (toDevice)
      stream->copy(at(*area), image, area->bytes);
    else
      stream->copy(image, at(*area), area->bytes);
  }
  stream->record(*done);
  done->synchronize();
}

char *StageMemory::inImage(const PlanArea &area, uint64_t offset) const {
  char *image = separateImage ? separateImage.get() : base.get();
  return image + area.offset + offset;
}

char *StageMemory::parameter(const PlanTensor &tensor) const {
  return inImage(plan->areas.parameters, tensor.offset);
}

char *StageMemory::buffer(const PlanTensor &tensor) const {
  return inImage(plan->areas.buffers, tensor.offset);
}

char *StageMemory::gradient(const PlanTensor &parameter) const {
  return inImage(plan->areas.gradients, parameter.offset);
}

char *StageMemory::optimizerState(const PlanOptimizer &optimizer,
                                  const PlanTensor &parameter,
                                  unsigned state) const {
  return inImage(plan->areas.optimizer,
                 stateOffset(optimizer, *plan, parameter, state));
}

LossScaleState *StageMemory::lossScale() const {
  return reinterpret_cast<LossScaleState *>(
      inImage(plan->areas.lossScale, /*offset=*/0));
}
