//===- StageMemory.h - The one allocation of a stage ----------------------===//
#ifndef PP_RUNTIME_PROGRAM_STAGEMEMORY_H
#define PP_RUNTIME_PROGRAM_STAGEMEMORY_H

#include "device/Device.h"
#include "plan/Plan.h"
#include "program/LossScale.h"

#include <cstdint>
#include <memory>

namespace pp::runtime {

/// Owns exactly `memory_bytes` bytes of the device, zeroed, at a multiple of
/// 64. Not synchronised: the rank of the stage uses it, except for receive
/// slots, which the transport hands over.
///
/// What lives longer than a step (parameters, buffers, gradients, optimizer
/// state, loss scale) is also reached from the host, through an image: where
/// the device has host memory, the image is the memory itself; elsewhere it is
/// a copy that download() and upload() bring up to date.
class StageMemory {
public:
  /// Without `isHere`, another process has the stage: nothing is allocated, and
  /// there are no addresses.
  /// `isShared`: other processes may open the memory.
  StageMemory(const PlanStage &stage, Device &device, bool isHere = true,
              bool isShared = false);

  const PlanStage &getPlan() const { return *plan; }
  bool isHere() const { return here; }
  /// Empty where the memory is not shared.
  const SharedHandle &getHandle() const { return handle; }
  /// After a failure of the processes: other ones may still have the memory
  /// open, so it is not freed before this process ends.
  void leaveShared();
  /// Bytes that were allocated for the stage.
  uint64_t getBytes() const { return bytes; }

  // Addresses on the device.
  char *at(uint64_t offset) const { return base.get() + offset; }
  char *at(const PlanArea &area) const { return base.get() + area.offset; }

  // Addresses in the image.
  char *parameter(const PlanTensor &tensor) const;
  char *buffer(const PlanTensor &tensor) const;
  char *gradient(const PlanTensor &parameter) const;
  /// Optimizer state `state` of a parameter.
  char *optimizerState(const PlanOptimizer &optimizer,
                       const PlanTensor &parameter, unsigned state) const;

  /// Only where the plan has a loss scale.
  LossScaleState *lossScale() const;

  /// Device to image, and back. No step may run.
  void download() const { copyImage(/*toDevice=*/false); }
  void upload() const;
  /// Copies the weights in one slot to all others. Only where no step uses
  /// them, and the device has host memory if there are several.
  void fillVersions(unsigned from) const;

private:
  void copyImage(bool toDevice) const;
  char *inImage(const PlanArea &area, uint64_t offset) const;

  const PlanStage *plan;
  Device *device;
  bool here;
  DeviceMemory base;
  SharedHandle handle;
  DeviceMemory separateImage; // null where the device has host memory
  uint64_t bytes = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROGRAM_STAGEMEMORY_H
