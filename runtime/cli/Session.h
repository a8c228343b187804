//===- Session.h - What the subcommands share -----------------------------===//
#ifndef PP_RUNTIME_CLI_SESSION_H
#define PP_RUNTIME_CLI_SESSION_H

#include "cli/CommandLine.h"
#include "exec/DataSet.h"
#include "exec/Executor.h"

#include <map>
#include <string>

namespace pp::runtime {

/// Reads --data and --input; the latter win.
std::map<std::string, Array> readArrays(const RunOptions &options);

/// What --input-scale and its like say.
Normalizations normalizationsOf(const RunOptions &options);

/// Executor options: tracing, and a watchdog that prints and ends the process
/// with code 70 (a rank may sit in a kernel that never returns).
Executor::Options executorOptions(const RunOptions &options, const Plan &plan);

/// What one run did, for the table at its end and for --report.
class RunSummary {
public:
  /// All processes call it together; `seconds` of stepping,
  /// `lossScale` after the last step.
  RunSummary(const Program &program, const Executor &executor, double seconds,
             uint64_t steps, uint64_t samples,
             std::optional<LossScaleState> lossScale = {});
  const Program &getProgram() const { return program; }
  const Executor &getExecutor() const { return executor; }
  /// Prints the table to stderr, in the first process.
  void print() const;
  /// JSON: steps, seconds, stages with memory and utilisation, channels.
  std::string toJson() const;

private:
  const Program &program;
  const Executor &executor;
  double seconds;
  uint64_t steps, samples;
  std::optional<LossScaleState> lossScale;
  std::vector<StageStatistics> statistics; // by stage
  std::vector<ChannelTraffic> traffic;     // by channel
  std::vector<uint64_t> memoryBytes;       // by stage
};

/// Writes --trace and --report. All processes call it together.
void writeOutputs(const RunOptions &options, const RunSummary &summary);

/// Makes SIGINT, SIGTERM and SIGHUP (unless it is ignored, as by nohup) set a
/// flag while the object lives.
class InterruptFlag {
public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag &) = delete;
  InterruptFlag &operator=(const InterruptFlag &) = delete;
  /// The signal that arrived, or 0.
  static int get();
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_SESSION_H
