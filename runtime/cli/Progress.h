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

  /// What is told of a step.
  struct Line {
    uint64_t step, epoch; // both counted from 1
    uint64_t rows;        // samples
    double loss;
    std::optional<uint64_t> bits; // the hash of the losses, in both forms
    std::optional<LossScaleState> lossScale; // after the step
    std::optional<double> learningRate;
    std::optional<double> gradientNorm;
  };
  void step(const Line &line);
  /// Ends the bar's line, so that other output can follow.
  void finish();

private:
  uint64_t first, total, samples = 0;
  bool isTerminal, lineOpen = false;
  std::chrono::steady_clock::time_point start, lastDraw;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_PROGRESS_H
