//===- ModelInput.cpp - The best plan for a model -------------------------===//

#include "ModelInput.h"
#include "EvaluateInput.h"
#include "MeasuredChoice.h"
#include "MemoryChoice.h"
#include "OutputFile.h"
#include "PlanOutputs.h"
#include "PlanReport.h"
#include "ProblemFile.h"
#include "SlowRanks.h"
#include "TimeLimit.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/PlanSpace.h"
#include "pp/Interfaces/CostFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"
#include <deque>
#include <thread>

using namespace pp;

namespace {

llvm::Error saveProblem(const Flags &flags, const planner::PlanSpace &space) {
  if (auto error = writeFile(flags.saveProblem, [&](llvm::raw_ostream &os) {
        os << problemToJson(space);
      }))
    return error;
  llvm::outs() << "wrote " << flags.saveProblem << ": "
               << space.graphs.front().graph.kernels.size() << " kernels, "
               << space.graphs.front().microbatches << " micro-batches\n";
  return llvm::Error::success();
}

/// On how many devices a search looks for plans. A stage that has the machine
/// for itself is faster than one beside others, so times of the two are
/// different, if the cost file has both.
enum class Devices { Any, One, Several };

std::vector<Devices> listDevices(const Flags &flags,
                                 const CompileOptions &options,
                                 const CostFile &costs) {
  int64_t threads = options.schedule.threads;
  if (!costs.knowsAlone(threads))
    return {Devices::Any};
  std::vector<Devices> result;
  if (flags.minRanks <= 1)
    result.push_back(Devices::One);
  if (flags.cores / threads > 1 && (flags.maxRanks != 1 || flags.replicate))
    result.push_back(Devices::Several);
  return result.empty() ? std::vector<Devices>{Devices::Any} : result;
}

/// The plans of one number of threads per stage; they point into it.
struct Search {
  planner::Cluster cluster;
  planner::PlanSpace space;
  planner::PlanSearchResult result;
  /// Why there is no plan, where the result has none.
  std::string failure;
};

/// Searches with the threads of `options`. `space` is filled only, where a
/// problem is to be saved.
llvm::Error search(Search &search, const Flags &flags, CompileOptions options,
                   Devices devices, ModelImport &import,
                   mlir::MLIRContext &context) {
  options.cost.alone = devices == Devices::One;
  auto cluster = readCluster(flags, options);
  if (!cluster)
    return cluster.takeError();
  search.cluster = std::move(*cluster);
  std::vector<int64_t> microbatches(flags.microbatches.begin(),
                                    flags.microbatches.end());
  auto space = buildPlanSpace(&context, import, options, microbatches,
                              !flags.annotate.empty(), llvm::errs());
  if (!space)
    return space.takeError();
  search.space = std::move(*space);
  search.space.cluster = &search.cluster;
  if (auto error = restrict(search.space, flags))
    return error;
  if (devices == Devices::One) {
    search.space.maxRanks = 1;
    search.space.replicate = false;
  }
  if (devices == Devices::Several)
    search.space.minDevices = 2;
  if (!flags.saveProblem.empty())
    return llvm::Error::success();
  auto deadline = readDeadline(flags);
  if (!deadline)
    return deadline.takeError();
  search.space.deadline = *deadline;
  search.space.report =
      makeProgressReport(planner::Objective::Time, llvm::errs());
  auto result = planner::searchPlans(search.space);
  if (!result) {
    search.failure = result.error();
    return llvm::Error::success();
  }
  search.result = std::move(*result);
  for (planner::PlanCandidate &candidate : search.result.candidates) {
    candidate.plan.model = llvm::sys::path::stem(flags.input).str();
    candidate.plan.threads = static_cast<int>(options.schedule.threads);
  }
  return llvm::Error::success();
}

/// All plans in one order: those that fit first, the fastest first. Fails as
/// the first search did where none has a plan.
llvm::Expected<planner::PlanSearchResult> merge(std::deque<Search> &searches) {
  planner::PlanSearchResult all;
  for (Search &search : searches) {
    planner::PlanSearchResult &more = search.result;
    if (more.candidates.empty())
      continue;
    all.lowerBound = all.candidates.empty()
                         ? more.lowerBound
                         : std::min(all.lowerBound, more.lowerBound);
    std::move(more.candidates.begin(), more.candidates.end(),
              std::back_inserter(all.candidates));
    all.pruned += more.pruned;
    all.unsearched += more.unsearched;
    all.outOfTime |= more.outOfTime;
    all.skipped += more.skipped;
    all.duplicates += more.duplicates;
    llvm::append_range(all.failures, more.failures);
  }
  if (all.candidates.empty())
    return makeError(exitInvalid, searches.front().failure);
  auto rank = [](const planner::PlanCandidate &candidate) {
    return std::pair(candidate.overflow.has_value(),
                     candidate.plan.predicted.step);
  };
  llvm::stable_sort(all.candidates, [&](const auto &a, const auto &b) {
    return rank(a) < rank(b);
  });
  return all;
}

/// Whether the plans can run here.
llvm::Error checkMeasuring(const Flags &flags, const CompileOptions &options) {
  if (flags.measure == 0)
    return llvm::Error::success();
  if (!options.target.isCpu())
    return makeError(exitUsage,
                     "--measure and --target=" + options.target.str() +
                         ": it is for processors");
  if (!flags.cluster.empty())
    return makeError(exitUsage, "--measure and --cluster: plans are measured "
                                "on this machine; --cores says how much of it");
  unsigned cores = std::thread::hardware_concurrency();
  if (flags.cores > cores)
    return makeError(exitUsage,
                     "--measure and --cores=" + llvm::Twine(flags.cores) +
                         ": this machine has " + llvm::Twine(cores));
  return llvm::Error::success();
}

} // namespace

llvm::Error pp::planModel(const Flags &flags, mlir::MLIRContext &context) {
  if (flags.input.empty())
    return makeError(exitUsage, "expected a model.onnx, a schedule.csv, a "
                                "problem.json or --timeline=schedule");
  // cl::list has an operator& of its own.
  if (auto error = refuse({&flags.timeline, &flags.ranks, &flags.stages,
                           std::addressof(flags.times), &flags.transfer,
                           &flags.minimize, &flags.kept},
                          "a model"))
    return error;
  if (!flags.allowStale)
    if (auto error = refuse({&flags.clockDistance}, "a model, without "
                                                    "--allow-stale"))
      return error;
  if (flags.clockDistance < 0 || flags.clockDistance > 1024)
    return makeError(exitUsage,
                     "--clock-distance=" + llvm::Twine(flags.clockDistance) +
                         ": must be from 0 to 1024");
  if (!flags.cluster.empty())
    if (auto error = refuse({&flags.cores}, "--cluster"))
      return error;
  if (!flags.saveProblem.empty())
    if (auto error = refuse(
            {&flags.minRanks, &flags.stagesPerRank,
             std::addressof(flags.schedules), std::addressof(flags.checkpoints),
             &flags.replicate, &flags.allowStale, &flags.top, &flags.explain,
             &flags.measure, std::addressof(flags.slow), &flags.output,
             &flags.annotate, &flags.csv, &flags.html, &flags.trace},
            "--save-problem"))
      return error;
  if (!flags.saveProblem.empty() && flags.microbatches.size() != 1)
    return makeError(exitUsage, "--save-problem needs one number of "
                                "micro-batches, such as --microbatches=4");
  if (!flags.evaluate.empty())
    if (auto error = refuse(
            {std::addressof(flags.microbatches), std::addressof(flags.threads),
             &flags.minRanks, &flags.maxRanks, &flags.stagesPerRank,
             std::addressof(flags.schedules), std::addressof(flags.checkpoints),
             &flags.replicate, &flags.allowStale, &flags.timeLimit, &flags.top,
             &flags.measure, &flags.saveProblem},
            "--evaluate"))
      return error;
  auto options = getCompileOptions();
  if (!options)
    return options.takeError();
  if (!flags.evaluate.empty()) {
    auto import = ModelImport::read(&context, flags.input, options->import,
                                    options->hasTraining);
    if (!import)
      return import.takeError();
    return evaluateGivenPlan(flags, *options, *import, context);
  }
  if (flags.allowStale && (!options->hasTraining || options->target.isGpu()))
    return makeError(exitUsage,
                     "--allow-stale: only a training on processors goes "
                     "without a flush");
  if (auto error = checkMeasuring(flags, *options))
    return error;
  auto threads = readThreads(flags, *options);
  if (!threads)
    return threads.takeError();
  if (!flags.saveProblem.empty() && threads->size() != 1)
    return makeError(exitUsage,
                     "--save-problem needs one number of threads, such as "
                     "--threads-per-stage=1");
  for (int64_t count : flags.microbatches)
    if (llvm::Error error = checkCount("microbatches", count))
      return error;
  auto import = ModelImport::read(&context, flags.input, options->import,
                                  options->hasTraining);
  if (!import)
    return import.takeError();
  CostFile costs;
  if (options->hasCostFile()) {
    auto file = CostFile::read(options->cost.costFile, options->target.str());
    if (!file)
      return makeError(exitInvalid, llvm::toString(file.takeError()));
    costs = std::move(*file);
  }
  std::deque<Search> searches;
  for (int64_t count : *threads) {
    options->schedule.threads = count;
    for (Devices devices : listDevices(flags, *options, costs))
      if (auto error = search(searches.emplace_back(), flags, *options, devices,
                              *import, context))
        return error;
  }
  const planner::PlanSpace &space = searches.front().space;
  if (!flags.saveProblem.empty())
    return saveProblem(flags, space);
  auto merged = merge(searches);
  if (!merged)
    return merged.takeError();
  planner::PlanSearchResult result = std::move(*merged);
  if (auto error = chooseByMemory(result, *import, *options, context))
    return error;
  llvm::outs() << result.candidates.front().plan.model << ", "
               << (space.training ? "training" : "inference") << ", batch "
               << space.batch << ", "
               << searches.front().cluster.devices.size() *
                      static_cast<size_t>(threads->front())
               << " devices\n";
  printCandidates(result, space.mixing, flags.top, llvm::outs());
  if (flags.measure > 0)
    if (auto error =
            chooseByMeasuring(result, flags.measure, flags.linkFile, *import,
                              *options, context, llvm::outs()))
      return error;
  planner::PlanCandidate &best = result.candidates.front();
  options->schedule.threads = best.plan.threads;
  auto evaluation = planner::evaluatePlan(best.draft);
  if (!evaluation)
    return makeError(exitInternal, evaluation.error());
  if (auto period =
          planner::stepPeriod(evaluation->schedule, evaluation->input))
    best.plan.predicted.period = *period;
  printPlan(best, *evaluation, llvm::outs());
  if (flags.allowStale)
    printStalePlans(planner::findStalePlans(space, flags.clockDistance), best,
                    space.batch, llvm::outs());
  if (flags.explain)
    printCuts(best, planner::explainCuts(best), llvm::outs());
  if (auto error = printSlowRanks(flags.slow, *evaluation, llvm::outs()))
    return error;
  if (best.overflow)
    return makeError(exitInvalid, "no plan fits into the devices' memory: " +
                                      *best.overflow);
  return writePlan(flags, *options, *import, best, *evaluation, context);
}
