//===- ModelInput.cpp - The best plan for a model -------------------------===//

#include "ModelInput.h"
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
#include "llvm/Support/Path.h"

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
  if (!flags.cluster.empty())
    if (auto error = refuse({&flags.cores}, "--cluster"))
      return error;
  if (!flags.saveProblem.empty())
    if (auto error = refuse(
            {&flags.minRanks, &flags.stagesPerRank,
             std::addressof(flags.schedules), std::addressof(flags.checkpoints),
             &flags.replicate, &flags.top, &flags.explain,
             std::addressof(flags.slow), &flags.output, &flags.annotate,
             &flags.csv, &flags.html, &flags.trace},
            "--save-problem"))
      return error;
  if (!flags.saveProblem.empty() && flags.microbatches.size() != 1)
    return makeError(exitUsage, "--save-problem needs one number of "
                                "micro-batches, such as --microbatches=4");
  auto options = getCompileOptions();
  if (!options)
    return options.takeError();
  auto cluster = readCluster(flags, *options);
  if (!cluster)
    return cluster.takeError();
  std::vector<int64_t> microbatches(flags.microbatches.begin(),
                                    flags.microbatches.end());
  for (int64_t count : microbatches)
    if (count < 1 || count > (1 << 20))
      return makeError(exitUsage, "--microbatches=" + llvm::Twine(count) +
                                      ": must be from 1 to 1048576");
  auto import = ModelImport::read(&context, flags.input, options->import,
                                  options->hasTraining);
  if (!import)
    return import.takeError();
  auto space = buildPlanSpace(&context, *import, *options, microbatches,
                              !flags.annotate.empty(), llvm::errs());
  if (!space)
    return space.takeError();
  space->cluster = &*cluster;
  if (auto error = restrict(*space, flags))
    return error;
  if (!flags.saveProblem.empty())
    return saveProblem(flags, *space);
  auto deadline = readDeadline(flags);
  if (!deadline)
    return deadline.takeError();
  space->deadline = *deadline;
  space->report = makeProgressReport(planner::Objective::Time, llvm::errs());
  auto result = planner::searchPlans(*space);
  if (!result)
    return makeError(exitInvalid, result.error());
  for (planner::PlanCandidate &candidate : result->candidates)
    candidate.plan.model = llvm::sys::path::stem(flags.input).str();
  if (auto error = chooseByMemory(*result, *import, *options, context))
    return error;
  planner::PlanCandidate &best = result->candidates.front();
  auto evaluation = planner::evaluatePlan(best.draft);
  if (!evaluation)
    return makeError(exitInternal, evaluation.error());
  if (auto period =
          planner::stepPeriod(evaluation->schedule, evaluation->input))
    best.plan.predicted.period = *period;

  llvm::outs() << best.plan.model << ", "
               << (space->training ? "training" : "inference") << ", batch "
               << space->batch << ", " << cluster->devices.size()
               << " devices\n";
  printCandidates(*result, flags.top, llvm::outs());
  printPlan(best, *evaluation, llvm::outs());
  if (flags.explain)
    printCuts(best, planner::explainCuts(best), llvm::outs());
  if (auto error = printSlowRanks(flags.slow, *evaluation, llvm::outs()))
    return error;
  if (best.overflow)
    return makeError(exitInvalid, "no plan fits into the devices' memory: " +
                                      *best.overflow);
  return writePlan(flags, *options, *import, best, *evaluation, context);
}
