//===- ProgramRun.h - Times of a pipeline's kernels -------------*- C++ -*-===//
//
// Exceptions of the runtime do not cross this interface, and no LLVM header is
// needed for it.
//
//===----------------------------------------------------------------------===//

#ifndef PP_TOOLS_PP_PROFILE_PROGRAMRUN_H
#define PP_TOOLS_PP_PROFILE_PROGRAMRUN_H

#include "pprt/pprt.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pp {

/// What a typical step took, in seconds.
struct ProgramTimes {
  /// From the end of a step to the end of the next.
  double step = 0;
  /// By number of the kernel: one run, in one micro-batch.
  std::vector<double> kernels;
  /// Of all stages together: what their ranks do between the last backward
  /// action of a step and the first action of the next, and the bytes of the
  /// parameters.
  double update = 0;
  double parameterBytes = 0;
  /// From the end of a send to the end of a receive that slept until then.
  std::optional<double> latency;
};

/// Runs `steps` steps of a program that marks its kernels (pp-lower-stages), on
/// synthetic data, as a pipeline binary would. A kernel's time is the average
/// over the half of the steps that took neither the least nor the most time in
/// all kernels together: times that belong to one state of the machine add up
/// to a step, medians of single kernels would not. Returns false and sets
/// `error` if the program cannot run. One at a time.
bool runProgram(const pp_program &program, unsigned kernelCount, unsigned steps,
                ProgramTimes &times, std::string &error) noexcept;

/// What the code of a program calls before each kernel, with its number, and
/// with -1 after the last one of a phase. Any thread.
void markKernel(int64_t kernel) noexcept;

} // namespace pp

#endif // PP_TOOLS_PP_PROFILE_PROGRAMRUN_H
