//===- PlanReport.cpp - Plans in words ------------------------------------===//

#include "PlanReport.h"
#include "pp/Report/Format.h"
#include "pp/Report/Table.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pp;
using namespace pp::planner;

namespace {

std::string percent(double share) {
  return llvm::formatv("{0:F1} %", 100 * share);
}

/// The devices in the order of the runtime's ranks, rank r of replica q is
/// number r * replicas + q, if that is not the order of the cluster.
void printProcesses(const PlanDraft &draft, llvm::raw_ostream &os) {
  const std::vector<int> &rankOfStage = draft.schedule.rankOfStage;
  std::vector<size_t> order;
  for (size_t rank = 0; rank < draft.schedule.ranks.size(); ++rank)
    for (size_t stage = 0; stage < rankOfStage.size(); ++stage)
      if (rankOfStage[stage] == static_cast<int>(rank)) {
        llvm::append_range(order, draft.devicesOf(static_cast<int>(stage)));
        break;
      }
  bool isOrdered = true;
  for (size_t i = 0; i < order.size(); ++i)
    isOrdered &= order[i] == i;
  if (isOrdered)
    return;
  os << "start processes 0, 1, ... on these devices, or it takes longer:";
  for (size_t device : order)
    os << " " << draft.cluster->devices[device].name;
  os << "\n";
}

/// Whether one device, replicas or a pipeline is best, and by how much.
void printKinds(const PlanSearchResult &result, llvm::raw_ostream &os) {
  const PlanCandidate &best = result.candidates.front();
  std::vector<std::string> seen;
  for (const PlanCandidate &candidate : result.candidates) {
    std::string kind = describeKind(candidate.plan);
    if (candidate.overflow || llvm::is_contained(seen, kind))
      continue;
    double step = candidate.plan.predicted.step;
    os << (seen.empty() ? "fastest is " : ", then ") << kind << ": "
       << formatTime(step);
    if (!seen.empty())
      os << " (+" << percent(step / best.plan.predicted.step - 1) << ")";
    seen.push_back(kind);
  }
  if (!seen.empty())
    os << "\n";
}

/// What another plan for the same model would train otherwise.
void printChanges(const PipelinePlan &plan, llvm::StringRef mixing,
                  llvm::raw_ostream &os) {
  if (!mixing.empty() && plan.microbatches() > 1)
    os << "note: " << mixing << ": with " << plan.microbatches()
       << " micro-batches this is another training than with one. "
          "--microbatches says how many to try; --batch-norm=frozen reads the "
          "running statistics instead\n";
  if (plan.replicas > 1 || !plan.schedule.replicas.empty())
    os << "note: " << plan.describeReplicas()
       << " replicas round sums of gradients in another order than one; "
          "--replicate=false leaves them out, pp-compile "
          "--gradient-lanes adds in one order, whatever their number is\n";
}

} // namespace

std::string pp::describeKind(const PipelinePlan &plan) {
  bool isPipeline = plan.schedule.ranks.size() > 1;
  std::string kind = isPipeline ? "a pipeline" : "one stage";
  if (plan.replicas > 1)
    kind = isPipeline ? "replicas of a pipeline" : "replicas";
  if (!plan.schedule.replicas.empty())
    kind = "a pipeline with replicas of stages";
  if (plan.threads > 1)
    kind += " of several threads";
  return kind;
}

void pp::printCandidates(const PlanSearchResult &result, llvm::StringRef mixing,
                         size_t top, llvm::raw_ostream &os) {
  // Most plans have one thread in each rank.
  bool showsThreads =
      llvm::any_of(result.candidates, [](const PlanCandidate &candidate) {
        return candidate.plan.threads > 1;
      });
  auto withThreads = [&](std::vector<std::string> row, std::string threads) {
    if (showsThreads)
      row.insert(row.begin() + 4, std::move(threads));
    return row;
  };
  const bool isTraining = result.candidates.front().plan.training;
  Table table(
      withThreads({"", "micro-batches", "replicas", "ranks", "stages",
                   "schedule", isTraining ? "recompute" : "latency", "step",
                   "samples/s", "bubble", "peak memory", "bound", ""},
                  "threads"));
  size_t number = 0;
  for (const PlanCandidate &candidate : result.candidates) {
    if (++number > top)
      break;
    const PipelinePlan &plan = candidate.plan;
    int64_t peak = 0;
    for (int64_t bytes : plan.predicted.peakBytes)
      peak = std::max(peak, bytes);
    table.add(withThreads(
        {std::to_string(number), std::to_string(plan.microbatches()),
         plan.describeReplicas(), std::to_string(plan.schedule.ranks.size()),
         std::to_string(plan.schedule.parts()), plan.scheduleName,
         isTraining ? std::string(nameOf(plan.checkpoint))
                    : formatTime(plan.predicted.latency),
         formatTime(plan.predicted.step),
         llvm::formatv("{0:F1}", plan.predicted.throughput),
         percent(plan.predicted.bubble), formatBytes(peak),
         formatTime(plan.predicted.lowerBound),
         candidate.overflow ? "does not fit: " + *candidate.overflow : ""},
        std::to_string(plan.threads)));
  }
  table.print(os);
  os << result.candidates.size() + result.duplicates << " plans simulated, "
     << result.pruned
     << " left out because they cannot be better than the best of their kind";
  if (result.unsearched > 0)
    os << ", " << result.unsearched << " orders not searched";
  os << "\n";
  if (result.outOfTime)
    os << "the time limit ended the search with " << result.skipped
       << " shapes left: another run may find another plan; --time-limit gives "
          "it more\n";
  const PlanCandidate &best = result.candidates.front();
  os << "no plan takes less than " << formatTime(result.lowerBound)
     << " (all devices busy all the time)";
  if (!best.overflow && result.lowerBound > 0)
    os << "; the best is "
       << percent(best.plan.predicted.step / result.lowerBound - 1) << " above";
  os << "\n";
  printKinds(result, os);
  printChanges(best.plan, mixing, os);
}

/// "3,1".
static std::string stageReplicas(const PlanDraft &draft) {
  return llvm::join(llvm::map_range(draft.devices,
                                    [](const std::vector<size_t> &devices) {
                                      return std::to_string(devices.size());
                                    }),
                    ",");
}

void pp::printStalePlans(const std::vector<StalePlan> &plans,
                         const PlanCandidate &best, int64_t batch,
                         llvm::raw_ostream &os) {
  os << "\nwithout a flush, each of them another training:\n";
  Table table({"", "micro-batches", "ranks", "schedule", "step", "samples/s",
               "utilisation", "weight versions", "updates missed",
               "peak memory", ""});
  auto range = [](auto first, auto last) {
    return first == last ? llvm::formatv("{0}", first).str()
                         : llvm::formatv("{0} ... {1}", first, last).str();
  };
  auto peakOf = [](const std::vector<int64_t> &bytes) {
    return formatBytes(*llvm::max_element(bytes));
  };
  size_t number = 0;
  for (const StalePlan &plan : plans) {
    const Schedule &schedule = plan.draft.schedule;
    int workers = plan.workers;
    std::string name = plan.scheduleName;
    if (workers > 1)
      name += llvm::formatv(", {0} workers", workers);
    if (!schedule.replicas.empty())
      name += ", replicas " + stageReplicas(plan.draft);
    table.add({std::to_string(++number),
               std::to_string(schedule.microbatches * workers),
               std::to_string(schedule.ranks.size() * workers), name,
               formatTime(plan.step),
               llvm::formatv("{0:F1}", static_cast<double>(batch) / plan.step),
               percent(plan.utilization),
               range(schedule.versions.front(), schedule.versions.back()),
               range(plan.delays.front(), plan.delays.back()),
               peakOf(plan.peakBytes),
               plan.overflow ? "does not fit: " + *plan.overflow : ""});
  }
  const PlanPrediction &flushed = best.plan.predicted;
  double step = flushed.period > 0 ? flushed.period : flushed.step;
  table.add({"", std::to_string(best.plan.microbatches()),
             std::to_string(best.plan.schedule.ranks.size()),
             best.plan.scheduleName, formatTime(step),
             llvm::formatv("{0:F1}", static_cast<double>(batch) / step),
             percent(1 - flushed.bubble), "1", "0", peakOf(flushed.peakBytes),
             "with a flush"});
  table.print(os);
  if (plans.empty())
    os << "there is none for these numbers of ranks and micro-batches\n";
  for (const StalePlan &plan : plans) {
    const Schedule &schedule = plan.draft.schedule;
    os << plan.scheduleName << ": pp-compile --schedule=" << plan.scheduleName
       << " --allow-stale --stages=" << schedule.parts()
       << " --microbatches=" << schedule.microbatches * plan.workers
       << " --batch=" << batch;
    if (plan.workers > 1)
      os << " --replicas=" << plan.workers
         << " --clock-distance=" << *schedule.clockDistance;
    if (!schedule.replicas.empty())
      os << " --replicas=" << stageReplicas(plan.draft);
    os << "\n";
  }
}

static void printStages(const PlanCandidate &candidate,
                        const PlanEvaluation &evaluation,
                        llvm::raw_ostream &os) {
  const PipelinePlan &plan = candidate.plan;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlanStage &stage = plan.stages[s];
    const StageLoad &load = evaluation.stages[s];
    size_t count = 0;
    std::string first, last;
    for (const PlacedKernel &kernel : plan.kernels) {
      if (kernel.stage != static_cast<int>(s))
        continue;
      if (count++ == 0)
        first = kernel.name;
      last = kernel.name;
    }
    os << "stage " << s << " on " << llvm::join(stage.devices, ", ") << ": "
       << count << " kernels, " << first << " ... " << last << "\n  F "
       << formatTime(stage.forward) << ", I " << formatTime(stage.backwardInput)
       << ", W " << formatTime(stage.backwardWeight) << "; memory "
       << formatBytes(load.memoryBytes) << ": parameters "
       << formatBytes(stage.parameterBytes) << " x "
       << llvm::formatv("{0:F0}", candidate.draft.parameterCopies)
       << ", activations " << load.slots << " x "
       << formatBytes(stage.savedBytes) << ", channels "
       << formatBytes(load.channelBytes) << "\n";
  }
  printProcesses(candidate.draft, os);
  if (!plan.training)
    os << formatTime(plan.predicted.latency)
       << " from the inputs of a step to its results\n";
  else if (plan.predicted.period > 0)
    os << formatTime(plan.predicted.period)
       << " per step when steps follow each other\n";
  os << renderTimeline(evaluation.simulation, 100);
}

void pp::printPlan(const PlanCandidate &candidate,
                   const PlanEvaluation &evaluation, llvm::raw_ostream &os) {
  const PipelinePlan &plan = candidate.plan;
  os << "\nplan 1: " << plan.microbatches() << " micro-batches, schedule "
     << plan.scheduleName << ", partition "
     << (candidate.partitionExact
             ? "optimal for its objective"
             : "at most " + percent(candidate.partitionGap) + " above optimal");
  if (candidate.assumesAlikeLinks)
    os << " if all links were alike";
  if (candidate.movedKernels)
    os << ", then " << candidate.movedKernels
       << " kernels moved for a shorter step";
  os << "\n";
  os << "step " << formatTime(plan.predicted.step) << ", bubble "
     << percent(plan.predicted.bubble) << ", utilisation "
     << percent(1 - plan.predicted.bubble) << "\n";
  printStages(candidate, evaluation, os);
}

void pp::printEvaluation(const PlanCandidate &candidate,
                         const PlanEvaluation &evaluation,
                         llvm::raw_ostream &os) {
  const PipelinePlan &plan = candidate.plan;
  const PlanPrediction &predicted = plan.predicted;
  os << plan.model << ": " << plan.microbatches() << " micro-batches, "
     << plan.describeReplicas() << " replicas, " << plan.schedule.ranks.size()
     << " ranks, " << plan.schedule.parts() << " stages, schedule "
     << plan.scheduleName << ", recompute " << nameOf(plan.checkpoint)
     << ": proven\nstep " << formatTime(predicted.step) << ", "
     << llvm::formatv("{0:F1}", predicted.throughput) << " samples/s, bubble "
     << percent(predicted.bubble) << ", utilisation "
     << percent(1 - predicted.bubble) << "; no order of these stages takes "
     << "less than " << formatTime(predicted.lowerBound)
     << "\nmemory as compiled, by rank:";
  for (int64_t bytes : predicted.peakBytes)
    os << " " << formatBytes(bytes);
  os << "\n";
  printStages(candidate, evaluation, os);
}

void pp::printCuts(const PlanCandidate &candidate,
                   const std::vector<CutAlternative> &alternatives,
                   llvm::raw_ostream &os) {
  const PipelinePlan &plan = candidate.plan;
  int cut = -1;
  for (const CutAlternative &alternative : alternatives) {
    if (alternative.stage != cut) {
      cut = alternative.stage;
      os << "\ncut between stages " << cut - 1 << " and " << cut << ":\n";
    }
    std::string names;
    for (size_t kernel : alternative.kernels)
      names += (names.empty() ? "" : ", ") + plan.kernels[kernel].name;
    double change = alternative.step / plan.predicted.step - 1;
    os << "  " << names << " in stage " << alternative.to << ": "
       << formatTime(alternative.step) << ", "
       << llvm::formatv("{0}{1:F2} %", change < 0 ? "" : "+", 100 * change);
    if (alternative.overflow)
      os << ", does not fit: " << *alternative.overflow;
    os << "\n";
  }
}
