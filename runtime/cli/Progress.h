//===- Progress.h - What the user sees while steps run --------------------===//
#ifndef PP_RUNTIME_CLI_PROGRESS_H
#define PP_RUNTIME_CLI_PROGRESS_H

#include "program/LossScale.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace pp::runtime {

/// A progress bar on stderr where that is a terminal, else one JSON object per
/// step on stdout.
class Progress {
public:
  Progress(uint64_t firstStep, uint64_t totalSteps);
  ~Progress();

  /// Reports that `step` (counted from 1), of `rows` samples, is done. `bits`
  /// adds the hash of the losses, which is printed in both forms; `lossScale`
  /// that after the step.
  void step(uint64_t step, uint64_t epoch, uint64_t rows, double loss,
            std::optional<uint64_t> bits,
            std::optional<LossScaleState> lossScale);
  /// Ends the bar's line, so that other output can follow.
  void finish();

private:
  uint64_t first, total, samples = 0;
  bool isTerminal, lineOpen = false;
  std::chrono::steady_clock::time_point start, lastDraw;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_PROGRESS_H
