//===- CommandLine.h - The options of a pipeline binary -------------------===//
#ifndef PP_RUNTIME_CLI_COMMANDLINE_H
#define PP_RUNTIME_CLI_COMMANDLINE_H

#include "exec/LearningRate.h"
#include "pprt/pprt.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pp::runtime {

/// Options that train, infer and bench share.
struct RunOptions {
  std::string data;                // --data
  std::vector<std::string> inputs; // --input NAME=FILE.npy
  /// --input-scale, --input-mean, --input-std: NAME=NUMBER,...
  std::vector<std::string> inputScales, inputMeans, inputDeviations;
  std::string weights;            // --weights
  bool noVerifyWeights = false;   // --no-verify-weights
  std::string trace, report;      // --trace, --report
  std::optional<double> watchdog; // --watchdog, seconds
  std::string device;             // --device; empty: as compiled
  bool noGraphs = false;          // --no-graphs
  bool pin = false;               // --pin
  unsigned processes = 1;         // --processes
  std::string launcher = "auto";  // --launcher
  double joinTimeout = 60;        // --join-timeout, seconds
  std::string transport = "auto"; // --transport
  std::string secretFile;         // --secret-file
};

struct TrainOptions : RunOptions {
  std::optional<uint64_t> epochs, steps, seed;
  std::vector<std::string> set; // NAME=VALUE; --lr X is lr=X
  std::optional<double> learningRate;
  LearningRateSchedule::Settings schedule; // --lr-schedule and what it takes
  std::string scheduleFile;                // --lr-file
  /// 0: off, also where a resumed training had it.
  std::optional<double> clipNorm, clipValue;
  bool logGradientNorm = false;
  std::vector<std::string> groups; // --group
  bool noShuffle = false, dropLast = false, logBits = false;
  bool allowOtherModel = false, allowNotFinite = false; // of --resume
  bool averages = false; // --ema: of --eval-data and --export
  std::string save, resume, load, evalData, dumpGradients;
  std::vector<std::string> metrics; // of --eval-data
  std::string exportTo, model;      // --export FILE.onnx, --model FILE.onnx
  std::vector<std::string> pads;    // --pad NAME=VALUE
  std::string onNan; // stop, skip, continue, or empty: the plan's default
  uint64_t saveEvery = 0, evalEvery = 1;
  uint64_t evalSteps = 0;       // between evaluations; 0: as evalEvery says
  std::string keepBest, bestOf; // --keep-best, --best-metric
  uint64_t patience = 0;        // evaluations; 0: without end
  /// Without a flush: steps at the start that have one, and over how many the
  /// learning rates of delayed stages grow to the full one.
  uint64_t flushedSteps = 0, annealedSteps = 0;
};

struct InferOptions : RunOptions {
  std::string output, load;
  bool averages = false;         // --ema: of --load
  std::vector<std::string> pads; // --pad NAME=VALUE
  bool noVerifyPadding = false;
};

struct EvalOptions : RunOptions {
  std::string load, target, prediction;
  bool averages = false; // --ema: of --load
  std::vector<std::string> metrics, pads;
  std::optional<int64_t> ignoreIndex;
};

struct BenchOptions : RunOptions {
  std::string mode;
  uint64_t steps = 20, warmup = 3;
  double duration = 0;  // in seconds, instead of `steps`; 0: none
  uint64_t kernels = 0; // the rows of a table of kernels; 0: none
  bool json = false;
};

struct ProfileOptions {
  std::string output, weights, device;
  bool noVerifyWeights = false; // --no-verify-weights
  uint64_t repetitions = 50;    // steps
};

struct ExportOptions {
  std::string load, output;   // --load, -o
  std::string model, weights; // --model, --weights
  bool noVerifyWeights = false;
  bool averages = false; // --ema: of --load
};

struct LinksOptions : RunOptions {
  std::string output; // -o
};

struct VerifyOptions {
  std::string first, second;
};

struct InfoOptions {
  bool plan = false, json = false;
  std::string mode;
};

// The subcommands; each returns the exit code and throws Error.
int runInfo(const pp_binary &binary, const InfoOptions &options);
int runTrain(const pp_binary &binary, const TrainOptions &options);
int runInfer(const pp_binary &binary, const InferOptions &options);
int runEval(const pp_binary &binary, const EvalOptions &options);
int runBench(const pp_binary &binary, const BenchOptions &options);
int runProfile(const pp_binary &binary, const ProfileOptions &options);
int runVerify(const VerifyOptions &options);
int runExport(const pp_binary &binary, const ExportOptions &options);
int runLinks(const LinksOptions &options);

/// Reads the flags that an opened program takes (pp_runtime.h), those of a
/// training with `trains`. Throws Error(Usage).
TrainOptions parseProgramFlags(const std::vector<std::string> &flags,
                               bool trains);

/// Everything that `main` does; errors go to stderr and become the exit code.
int runCommandLine(int argc, const char *const *argv, const pp_binary &binary);

/// The same for `links` alone, which needs no model: what follows argv[0] are
/// its options.
int runLinksCommandLine(int argc, const char *const *argv);

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_COMMANDLINE_H
