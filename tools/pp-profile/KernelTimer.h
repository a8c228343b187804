//===- KernelTimer.h - Times a function on cold buffers ---------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PROFILE_KERNELTIMER_H
#define PP_TOOLS_PP_PROFILE_KERNELTIMER_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstdint>
#include <vector>

namespace pp {

/// The bytes of the tensors that a kernel is handed, in its order.
using TensorSizes = std::vector<uint64_t>;

/// The median of `repetitions` runs in seconds. Buffers are rotated so that a
/// kernel finds them outside of the caches, as it does in a step of a model
/// that does not fit there (kernels timed on warm buffers promise up to a third
/// too much). `run` gets the tensors and a scratchpad.
double timeKernel(const TensorSizes &sizes, uint64_t scratchpadBytes,
                  unsigned repetitions,
                  llvm::function_ref<void(void **, void *)> run);

} // namespace pp

#endif // PP_TOOLS_PP_PROFILE_KERNELTIMER_H
