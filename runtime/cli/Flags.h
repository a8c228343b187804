//===- Flags.h - Flags of several commands, and of the library --*- C++ -*-===//
#ifndef PP_RUNTIME_CLI_FLAGS_H
#define PP_RUNTIME_CLI_FLAGS_H

#include "cli/CommandLine.h"

#include <CLI/CLI.hpp>

namespace pp::runtime {

/// An unsigned number, which CLI11 by itself lets -1 and too many digits be.
extern const CLI::Validator natural;

/// Not NaN, nor infinite: CLI11's own ranges let NaN pass.
CLI::Validator realNumber(double least, double most, const std::string &range);

// What clocks can count, with room to add.
inline constexpr double mostSeconds = 1e9;

/// --weights and --no-verify-weights.
void addWeightFlags(CLI::App &command, std::string &weights,
                    bool &noVerifyWeights);

/// Where and how a program runs, and its weights.
void addDeviceFlags(CLI::App &command, RunOptions &options);

/// What inputs are before a step has them.
void addNormalizationFlags(CLI::App &command, RunOptions &options);

/// --pad, of programs for several sizes of a dimension.
void addPads(CLI::App &command, std::vector<std::string> &pads);

/// --ema: the averages of parameters in the file of --load.
CLI::Option *addAverages(CLI::App &command, bool &averages);

/// What a step of a training is: values of the optimizer, and what is random.
void addTrainingFlags(CLI::App &command, TrainOptions &options);

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_FLAGS_H
