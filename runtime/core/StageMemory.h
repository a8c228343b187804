//===- StageMemory.h - The one allocation of a stage ----------------------===//
#ifndef PP_RUNTIME_CORE_STAGEMEMORY_H
#define PP_RUNTIME_CORE_STAGEMEMORY_H

#include "core/Plan.h"

#include <cstdint>
#include <memory>

namespace pp::runtime {

/// Owns exactly `memory_bytes` bytes, zeroed, at a multiple of 64. Not
/// synchronised: the rank of the stage uses it, except for receive slots, which
/// the transport hands over.
class StageMemory {
public:
  explicit StageMemory(const PlanStage &stage);

  const PlanStage &getPlan() const { return *plan; }
  /// Bytes that were allocated for the stage.
  uint64_t getBytes() const { return bytes; }

  char *at(uint64_t offset) const { return base.get() + offset; }
  char *at(const PlanArea &area) const { return base.get() + area.offset; }
  char *parameter(const PlanTensor &tensor) const;
  char *buffer(const PlanTensor &tensor) const;
  float *gradient(const PlanTensor &parameter) const;
  /// Optimizer state `state` of a parameter.
  float *optimizerState(const PlanTensor &parameter, unsigned state) const;

private:
  struct Free {
    void operator()(char *pointer) const;
  };
  const PlanStage *plan;
  std::unique_ptr<char, Free> base;
  uint64_t bytes = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CORE_STAGEMEMORY_H
