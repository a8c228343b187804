//===- CompilePhase.h - The phases of the compiler --------------*- C++ -*-===//

#ifndef PP_DRIVER_COMPILEPHASE_H
#define PP_DRIVER_COMPILEPHASE_H

#include "pp/Support/NamedEnum.h"

namespace pp {

/// Where compilation can stop and start, in order.
enum class CompilePhase {
  Import,
  Graph,
  Differentiate,
  Kernels,
  Cost,
  Partition,
  Schedule,
  Lower,
  Binary,
};

template <> struct EnumNames<CompilePhase> {
  static constexpr NamedValue<CompilePhase> values[] = {
      {CompilePhase::Import, "import", "ONNX read"},
      {CompilePhase::Graph, "graph", "static shapes of a micro-batch"},
      {CompilePhase::Differentiate, "differentiate", "with the backward pass"},
      {CompilePhase::Kernels, "kernels", "fused"},
      {CompilePhase::Cost, "cost", "with costs"},
      {CompilePhase::Partition, "partition", "stages"},
      {CompilePhase::Schedule, "schedule", "with a proven schedule"},
      {CompilePhase::Lower, "lower", "LLVM dialect"},
      {CompilePhase::Binary, "binary", "the binary"}};
};

} // namespace pp

#endif // PP_DRIVER_COMPILEPHASE_H
