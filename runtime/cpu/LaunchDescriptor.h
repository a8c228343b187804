//===- LaunchDescriptor.h - What a descriptor `launch` says -----*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_LAUNCHDESCRIPTOR_H
#define PP_RUNTIME_CPU_LAUNCHDESCRIPTOR_H

#include "cpu/Descriptor.h"

namespace pp::runtime {

/// Launches of generated kernels, one after the other; see
/// docs/plan-format.md.
struct LaunchDescriptor {
  struct Launch {
    std::string function;
    int64_t grid, block;
  };

  /// Throws DescriptorError. Does not check that all keys are used.
  static LaunchDescriptor read(Descriptor &descriptor);

  size_t tensors = 0;
  std::vector<Launch> launches;
  /// What the kernels take behind the tensors and the scratchpad: an optimizer
  /// how many elements it changes, and how many lie from one state to the next.
  std::vector<int64_t> numbers;
};

/// A number of at least 0 that may be larger than what Descriptor::getInteger
/// takes.
int64_t getCount(Descriptor &descriptor, const std::string &key);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_LAUNCHDESCRIPTOR_H
