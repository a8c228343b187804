//===- Workspace.h - A scratchpad as NVIDIA's libraries want it -----------===//
#ifndef PP_RUNTIME_CUDA_WORKSPACE_H
#define PP_RUNTIME_CUDA_WORKSPACE_H

#include "pprt/pprt.h"

namespace pp::cuda {

/// The libraries want multiples of 256, which a scratchpad need not be.
class Workspace {
public:
  explicit Workspace(uint64_t scratchpad)
      : bytes(scratchpad > alignment ? scratchpad - alignment : 0) {}

  uint64_t getBytes() const { return bytes; }
  void *in(void *scratchpad) const {
    auto address = reinterpret_cast<uintptr_t>(scratchpad);
    uint64_t beyond = address % alignment;
    return bytes ? static_cast<char *>(scratchpad) +
                       (beyond ? alignment - beyond : 0)
                 : nullptr;
  }

private:
  static constexpr uintptr_t alignment = 256;
  uint64_t bytes;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_WORKSPACE_H
