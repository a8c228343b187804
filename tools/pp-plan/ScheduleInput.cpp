//===- ScheduleInput.cpp - A schedule instead of a model ------------------===//

#include "ScheduleInput.h"
#include "NamedSchedule.h"
#include "OutputFile.h"
#include "RollingTimeline.h"
#include "ScheduleFile.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/ChromeTrace.h"
#include "pp/Planner/Schedule/Rolling.h"

using namespace pp;

namespace {

llvm::Error saveTrace(const Flags &flags, const SimulatedSchedule &simulated) {
  if (flags.trace.empty())
    return llvm::Error::success();
  return writeFile(flags.trace, [&](llvm::raw_ostream &os) {
    os << planner::toChromeTrace(simulated.schedule, simulated.simulation);
  });
}

llvm::Error showSchedule(const Flags &flags,
                         llvm::Expected<SimulatedSchedule> simulated) {
  if (!simulated)
    return simulated.takeError();
  printSchedule(*simulated, llvm::outs());
  return saveTrace(flags, *simulated);
}

} // namespace

llvm::Error pp::showTimeline(const Flags &flags) {
  if (!flags.input.empty())
    return makeError(exitUsage, "--timeline needs no '" + flags.input + "'");
  // cl::list has an operator& of its own.
  if (auto error = refuseAllBut({&flags.timeline, &flags.ranks, &flags.stages,
                                 std::addressof(flags.microbatches),
                                 std::addressof(flags.times), &flags.transfer,
                                 &flags.trace, &flags.minimize, &flags.kept,
                                 &flags.clockDistance},
                                flags, "--timeline"))
    return error;
  // Its short name.
  const std::string name =
      flags.timeline == "2bw" ? "pipedream-2bw" : flags.timeline.getValue();
  if (name != "auto")
    if (auto error = refuse({&flags.minimize, &flags.kept},
                            "--timeline=" + flags.timeline +
                                ": only --timeline=auto is a search"))
      return error;
  bool hasWorkers = planner::weightRuleOf(name) == planner::WeightRule::Waves;
  if (!hasWorkers)
    if (auto error = refuse({&flags.clockDistance},
                            "--timeline=" + flags.timeline +
                                ": only wsp has virtual workers"))
      return error;
  if (flags.clockDistance < 0 || flags.clockDistance > 1024)
    return makeError(exitUsage,
                     "--clock-distance=" + llvm::Twine(flags.clockDistance) +
                         ": must be from 0 to 1024");
  if (flags.kept.getNumOccurrences() && flags.kept < 1)
    return makeError(exitUsage, "--kept=" + llvm::Twine(flags.kept) +
                                    ": must be 1 or more");
  auto times = readTimes(flags);
  if (!times)
    return times.takeError();
  if (flags.microbatches.size() > 1)
    return makeError(exitUsage, "--timeline shows one number of "
                                "--microbatches");
  int64_t microbatches =
      flags.microbatches.empty() ? 8 : flags.microbatches.front();
  constexpr int64_t most = 4096;
  if (microbatches < 1 || microbatches > most)
    return makeError(exitUsage, "--microbatches=" + llvm::Twine(microbatches) +
                                    ": must be from 1 to 4096");
  if (flags.ranks < 1 || flags.ranks > most)
    return makeError(exitUsage, "--ranks=" + llvm::Twine(flags.ranks) +
                                    ": must be from 1 to 4096");
  if (flags.stages.getNumOccurrences() &&
      (flags.stages < 1 || flags.stages > most))
    return makeError(exitUsage, "--stages=" + llvm::Twine(flags.stages) +
                                    ": must be from 1 to 4096");
  planner::PipelineShape shape{flags.stages, static_cast<int>(microbatches),
                               flags.ranks, flags.clockDistance};
  if (planner::weightRuleOf(name)) {
    auto drawn = showRollingTimeline(name, shape, *times, llvm::outs());
    return drawn ? saveTrace(flags, *drawn) : drawn.takeError();
  }
  return showSchedule(flags, makeNamedSchedule(name, shape, *times,
                                               {flags.minimize, flags.kept},
                                               llvm::outs()));
}

llvm::Error pp::showScheduleFile(const Flags &flags) {
  if (auto error = refuseAllBut(
          {std::addressof(flags.times), &flags.transfer, &flags.trace}, flags,
          "a schedule"))
    return error;
  auto times = readTimes(flags);
  if (!times)
    return times.takeError();
  return showSchedule(flags,
                      readScheduleFile(flags.input, *times, llvm::outs()));
}
