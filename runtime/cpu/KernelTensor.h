//===- KernelTensor.h - What a kernel expects of a caller's tensor --------===//
#ifndef PP_RUNTIME_CPU_KERNELTENSOR_H
#define PP_RUNTIME_CPU_KERNELTENSOR_H

#include "plan/DataType.h"

#include <cstdint>

namespace pp::runtime {

/// One of the caller's tensors, for those who try a kernel out.
struct KernelTensor {
  uint64_t bytes; ///< from its first number to the last
  DataType type;
  int64_t limit = 0; ///< integers are from 0 on, and below this
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_KERNELTENSOR_H
