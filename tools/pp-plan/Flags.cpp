//===- Flags.cpp - The command line of pp-plan ----------------------------===//

#include "Flags.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Interfaces/CostFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace pp;

llvm::Expected<planner::Cluster>
pp::readCluster(const Flags &flags, const CompileOptions &options) {
  if (flags.cluster.empty()) {
    if (flags.cores < 1 || flags.cores > 4096)
      return makeError(exitUsage, "--cores=" + llvm::Twine(flags.cores) +
                                      ": must be from 1 to 4096");
    planner::Cluster cluster = planner::Cluster::cpuCores(
        flags.cores / static_cast<unsigned>(options.schedule.threads));
    if (!options.hasCostFile())
      return cluster;
    auto costs = CostFile::read(options.cost.costFile, options.target.str());
    if (!costs)
      return makeError(exitInvalid, llvm::toString(costs.takeError()));
    if (costs->transferLatency)
      cluster.defaultLink.latency = *costs->transferLatency;
    return cluster;
  }
  auto buffer = llvm::MemoryBuffer::getFile(flags.cluster, /*IsText=*/true);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + flags.cluster +
                                          "': " + buffer.getError().message());
  auto cluster = planner::Cluster::fromJson((*buffer)->getBuffer());
  if (!cluster)
    return makeError(exitInvalid,
                     "'" + flags.cluster + "': " + cluster.error());
  return *cluster;
}

llvm::Expected<std::vector<int64_t>>
pp::readThreads(const Flags &flags, const CompileOptions &options) {
  if (flags.threads.empty()) {
    std::vector<int64_t> threads{1};
    // What is measured afterwards need not be known before.
    if (flags.measure > 0 && !options.hasCostFile())
      for (int64_t count = 2; flags.cores % count == 0; count *= 2)
        threads.push_back(count);
    if (!options.hasCostFile() || !flags.cluster.empty())
      return threads;
    auto costs = CostFile::read(options.cost.costFile, options.target.str());
    if (!costs)
      return makeError(exitInvalid, llvm::toString(costs.takeError()));
    for (int64_t count : costs->threads)
      if (count > 1 && flags.cores % count == 0)
        threads.push_back(count);
    return threads;
  }
  std::vector<int64_t> threads(flags.threads.begin(), flags.threads.end());
  llvm::sort(threads);
  threads.erase(llvm::unique(threads), threads.end());
  if (!flags.cluster.empty() && threads != std::vector<int64_t>{1})
    return makeError(exitUsage,
                     "--threads-per-stage cannot be used with --cluster: a "
                     "device of a cluster is what one stage runs on");
  for (int64_t count : threads) {
    if (llvm::Error error = checkThreads(count, options.target))
      return error;
    if (flags.cores % count != 0)
      return makeError(exitUsage, "--threads-per-stage=" + llvm::Twine(count) +
                                      ": must divide the " +
                                      llvm::Twine(flags.cores) +
                                      " cores of --cores");
  }
  return threads;
}

llvm::Error pp::restrict(planner::PlanSpace &space, const Flags &flags) {
  space.minRanks = flags.minRanks;
  space.maxRanks = flags.maxRanks;
  space.maxStagesPerRank = flags.stagesPerRank;
  space.replicate = flags.replicate;
  space.schedules.assign(flags.schedules.begin(), flags.schedules.end());
  space.checkpoints.clear();
  for (const std::string &name : flags.checkpoints) {
    auto mode = parseCheckpointMode(name);
    if (!mode)
      return makeError(exitUsage, "--checkpoints=" + name +
                                      ": expected always, except_last or "
                                      "never");
    space.checkpoints.push_back(*mode);
  }
  if (space.checkpoints.empty())
    space.checkpoints = {planner::CheckpointMode::Never};
  if (space.training && flags.checkpoints.empty())
    space.checkpoints = {planner::CheckpointMode::Never,
                         planner::CheckpointMode::ExceptLast,
                         planner::CheckpointMode::Always};
  return llvm::Error::success();
}

llvm::Expected<PipelineTimes> pp::readTimes(const Flags &flags) {
  PipelineTimes times{{1, 1, 1, 1, 0}, flags.transfer};
  if (!flags.times.empty()) {
    if (flags.times.size() != 3)
      return makeError(exitUsage, "--times: expected three numbers, F,I,W");
    times.stage = {flags.times[0], flags.times[1], flags.times[2],
                   flags.times[0], 0};
  }
  for (double seconds : {times.stage.forward, times.stage.backwardInput,
                         times.stage.backwardWeight})
    if (!(seconds >= 0 && seconds < 1e12))
      return makeError(exitUsage, "--times: must be 0 or more seconds");
  if (!(times.transfer >= 0 && times.transfer < 1e12))
    return makeError(exitUsage, "--transfer: must be 0 or more seconds");
  return times;
}

llvm::Error pp::refuse(llvm::ArrayRef<const llvm::cl::Option *> unused,
                       llvm::StringRef input) {
  std::vector<std::string> names;
  for (const llvm::cl::Option *option : unused)
    if (option->getNumOccurrences())
      names.push_back((option->ArgStr.size() == 1 ? "-" : "--") +
                      option->ArgStr.str());
  if (names.empty())
    return llvm::Error::success();
  llvm::sort(names);
  return makeError(exitUsage,
                   llvm::join(names, ", ") + " cannot be used with " + input);
}

llvm::Error pp::refuseAllBut(llvm::ArrayRef<const llvm::cl::Option *> used,
                             const Flags &flags, llvm::StringRef input) {
  llvm::SmallVector<llvm::cl::OptionCategory *> ours = getCompileCategories();
  ours.push_back(const_cast<llvm::cl::OptionCategory *>(&flags.category));
  std::vector<const llvm::cl::Option *> unused;
  for (const auto &entry : llvm::cl::getRegisteredOptions())
    if (!llvm::is_contained(used, entry.second) &&
        llvm::any_of(entry.second->Categories,
                     [&](llvm::cl::OptionCategory *category) {
                       return llvm::is_contained(ours, category);
                     }))
      unused.push_back(entry.second);
  return refuse(unused, input);
}
