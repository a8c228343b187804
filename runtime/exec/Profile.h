//===- Profile.h - Times of a program's kernels ---------------------------===//
#ifndef PP_RUNTIME_EXEC_PROFILE_H
#define PP_RUNTIME_EXEC_PROFILE_H

#include "program/Program.h"

#include <optional>
#include <vector>

namespace pp::runtime {

/// What a typical step took, in seconds.
struct Profile {
  /// From the end of a step to the end of the next.
  double step = 0;
  /// By number of the kernel: one run, in one micro-batch. Nothing for a kernel
  /// that did not run: a sum, where there is one micro-batch.
  std::vector<std::optional<double>> kernels;
  /// Between two kernels whose times are taken: what taking them costs.
  double gap = 0;
  /// Of all stages together: what their ranks do between the last backward
  /// action of a step and the first action of the next, and the bytes of the
  /// parameters.
  double update = 0;
  double parameterBytes = 0;
  /// From the end of a send to the end of a receive that slept until then.
  std::optional<double> latency;
};

/// Runs `steps` steps of a program that marks its kernels, on synthetic data,
/// after a few others. Steps are sorted by the time of all their kernels; the
/// time of a kernel is its average over the middle half of the steps. So the
/// times of all kernels are of the same steps and add up to a step, which
/// medians of single kernels would not. The program needs memory. Throws Error.
Profile profileProgram(Program &program, unsigned steps);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_PROFILE_H
