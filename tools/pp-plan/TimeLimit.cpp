//===- TimeLimit.cpp - How long a search may take -------------------------===//

#include "TimeLimit.h"
#include "pp/Driver/Errors.h"
#include "pp/Report/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pp;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

llvm::Expected<std::optional<Clock::time_point>>
pp::readDeadline(const Flags &flags) {
  double seconds = flags.timeLimit;
  if (!(seconds >= 0 && seconds <= 1e8))
    return makeError(exitUsage, "--time-limit: must be from 0 (none) to 1e8 "
                                "seconds");
  if (seconds == 0)
    return std::nullopt;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

std::function<void(const planner::PartitionProgress &)>
pp::makeProgressReport(planner::Objective objective, llvm::raw_ostream &os) {
  auto begin = Clock::now();
  return [begin, objective, &os, next = std::make_shared<double>(2)](
             const planner::PartitionProgress &progress) {
    double seconds = Seconds(Clock::now() - begin).count();
    if (seconds < *next)
      return;
    *next = seconds + 10;
    os << llvm::formatv("note: searching for {0:F0} s", seconds);
    if (progress.ideals > 0)
      os << ", " << progress.done << " of " << progress.ideals
         << " downsets in this round";
    if (progress.value > 0) {
      os << ", best so far "
         << (objective == planner::Objective::Memory
                 ? formatBytes(static_cast<int64_t>(progress.value))
                 : formatTime(progress.value));
      if (progress.lowerBound > 0)
        os << llvm::formatv(", at most {0:F1} % above what is possible",
                            100 * (progress.value / progress.lowerBound - 1));
    }
    os << "\n";
    os.flush();
  };
}
