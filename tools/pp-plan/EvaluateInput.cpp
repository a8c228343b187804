//===- EvaluateInput.cpp - What a given plan costs ------------------------===//

#include "EvaluateInput.h"
#include "MemoryChoice.h"
#include "PlanOutputs.h"
#include "PlanReport.h"
#include "SlowRanks.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/PlanSpace.h"
#include "pp/Planner/PlacementFaults.h"
#include "pp/Planner/Schedule/Verify.h"
#include "llvm/ADT/StringExtras.h"

using namespace pp;
using namespace pp::planner;

namespace {

/// Makes the draft of a plan for a graph and a cluster.
class DraftReader {
public:
  DraftReader(llvm::StringRef path, const PipelinePlan &plan,
              const PlanSpace &space)
      : path(path), plan(plan), space(space) {}

  llvm::Expected<PlanDraft> run() {
    draft.graph = &space.graphs.front().graph;
    draft.cluster = space.cluster;
    draft.schedule = plan.schedule;
    draft.checkpoint = plan.checkpoint;
    draft.parameterCopies = space.parameterCopies;
    draft.updateSecondsPerByte = space.updateSecondsPerByte;
    if (auto error = placeKernels())
      return std::move(error);
    if (auto error = findDevices())
      return std::move(error);
    if (auto faults = verifySchedule(plan.schedule); !faults.empty())
      return fail(llvm::join(faults, "\n  "));
    return std::move(draft);
  }

private:
  llvm::Error fail(const llvm::Twine &why) const {
    return makeError(exitInvalid, "'" + path + "': " + why);
  }

  llvm::Error placeKernels() {
    const std::vector<Kernel> &kernels = draft.graph->kernels;
    for (size_t k = 0; k < std::min(kernels.size(), plan.kernels.size()); ++k) {
      if (plan.kernels[k].name != kernels[k].name)
        return fail("kernels[" + llvm::Twine(k) + "] is '" +
                    plan.kernels[k].name + "', but the model has '" +
                    kernels[k].name +
                    "' there: it was made for another model or other options");
      draft.stageOf.push_back(plan.kernels[k].stage);
    }
    if (kernels.size() != plan.kernels.size())
      return fail("has " + llvm::Twine(plan.kernels.size()) +
                  " kernels, but the model has " + llvm::Twine(kernels.size()) +
                  ": it was made for another model or other options");
    if (auto faults = findPlacementFaults(*draft.graph, draft.stageOf,
                                          plan.schedule.parts());
        !faults.empty())
      return fail(llvm::join(faults, "\n  "));
    return llvm::Error::success();
  }

  llvm::Error findDevices() {
    const std::vector<Device> &devices = space.cluster->devices;
    std::vector<std::string> unknown;
    for (const PlanStage &stage : plan.stages) {
      std::vector<size_t> &found = draft.devices.emplace_back();
      for (const std::string &name : stage.devices) {
        size_t index = 0;
        while (index < devices.size() && devices[index].name != name)
          ++index;
        found.push_back(index);
        if (index == devices.size() && !llvm::is_contained(unknown, name))
          unknown.push_back(name);
      }
    }
    if (unknown.empty())
      return llvm::Error::success();
    return fail("its stages are on " + llvm::join(unknown, ", ") +
                ", which the machine does not have; --cores or --cluster says "
                "what it has");
  }

  llvm::StringRef path;
  const PipelinePlan &plan;
  const PlanSpace &space;
  PlanDraft draft;
};

} // namespace

llvm::Error pp::evaluateGivenPlan(const Flags &flags, CompileOptions options,
                                  ModelImport &import,
                                  mlir::MLIRContext &context) {
  auto plan = readPlanFile(flags.evaluate);
  if (!plan)
    return plan.takeError();
  if (plan->training != options.hasTraining)
    return makeError(exitUsage,
                     "'" + flags.evaluate +
                         (plan->training ? "' is for training; add --loss"
                                         : "' is for inference; remove "
                                           "--loss"));
  if (options.batch != 0 && options.batch != plan->batch)
    return makeError(exitUsage, "--batch=" + llvm::Twine(options.batch) +
                                    ": '" + flags.evaluate +
                                    "' is for a batch of " +
                                    llvm::Twine(plan->batch));
  options.batch = plan->batch;
  options.replicas = plan->replicas;
  std::vector<int> counts = plan->stageReplicas();
  options.stageReplicas.assign(counts.begin(), counts.end());
  options.schedule.threads = plan->threads;
  options.cost.alone = plan->schedule.ranks.size() == 1 && plan->replicas == 1;
  auto cluster = readCluster(flags, options);
  if (!cluster)
    return cluster.takeError();
  auto space = buildPlanSpace(&context, import, options, {plan->microbatches()},
                              !flags.annotate.empty(), llvm::errs());
  if (!space)
    return space.takeError();
  space->cluster = &*cluster;
  auto draft = DraftReader(flags.evaluate, *plan, *space).run();
  if (!draft)
    return draft.takeError();
  auto evaluation = evaluatePlan(*draft);
  if (!evaluation)
    return makeError(exitInvalid,
                     "'" + flags.evaluate + "': " + evaluation.error());
  PlanSearchResult result;
  PlanCandidate &candidate = result.candidates.emplace_back();
  candidate.draft = *draft;
  candidate.plan =
      makePlan(*draft, *evaluation, space->batch, plan->scheduleName);
  candidate.plan.model = plan->model;
  candidate.plan.threads = plan->threads;
  if (auto period = stepPeriod(evaluation->schedule, evaluation->input))
    candidate.plan.predicted.period = *period;
  candidate.overflow = evaluation->overflow;
  // What it says after this is what the compiler counts.
  if (auto error = chooseByMemory(result, import, options, context))
    return error;
  printEvaluation(candidate, *evaluation, llvm::outs());
  if (flags.explain)
    printCuts(candidate, explainCuts(candidate), llvm::outs());
  if (auto error = printSlowRanks(flags.slow, *evaluation, llvm::outs()))
    return error;
  if (candidate.overflow)
    return makeError(exitInvalid, "the plan does not fit into the devices' "
                                  "memory: " +
                                      *candidate.overflow);
  return writePlan(flags, options, import, candidate, *evaluation, context);
}
