//===- Report.cpp - The plan in words -------------------------------------===//

#include "pp/Driver/Report.h"
#include "plan/ReplicatePlan.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Planner/Simulator.h"
#include "pp/Report/Format.h"
#include "pp/Target/MakePlan.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace pp;

/// The actions of a copy that is listed, or of all copies of all stages.
static planner::Schedule scheduleOf(const runtime::Plan &plan) {
  planner::Schedule schedule;
  schedule.microbatches = static_cast<int>(plan.microbatchesListed());
  schedule.stages = static_cast<int>(plan.stages.size());
  if (!plan.flushes)
    for (const runtime::PlanStage &stage : plan.stages)
      schedule.versions.push_back(static_cast<int>(stage.versions));
  if (plan.clockDistance)
    schedule.clockDistance = static_cast<int>(*plan.clockDistance);
  if (plan.replicas > 1 && plan.isTraining() && plan.flushes) {
    schedule.groups = planner::gradientGroups(schedule.stages);
    for (auto [stage, group] : llvm::zip(plan.stages, schedule.groups))
      group.bytes = static_cast<int64_t>(stage.areas.gradients.bytes);
  }
  for (const runtime::PlanChannel &channel : plan.channels)
    schedule.channels.push_back(
        {static_cast<int>(channel.from), static_cast<int>(channel.to),
         channel.fromPhase, channel.toPhase, /*lastReader=*/channel.toPhase,
         channel.name, static_cast<int64_t>(channel.bytes)});
  schedule.rankOfStage.resize(schedule.stages);
  // Of virtual workers that are not alike, the first.
  std::vector<unsigned> workers = plan.workersOfRanks();
  for (auto [number, rank] : llvm::enumerate(plan.ranks)) {
    if (workers[number] > 0)
      break;
    for (unsigned stage : rank.stages)
      schedule.rankOfStage[stage] = static_cast<int>(number);
    std::vector<planner::Action> &actions = schedule.ranks.emplace_back();
    for (const runtime::PlanAction &action : rank.actions) {
      planner::Action own{action.kind, static_cast<int>(action.stage)};
      own.lag = static_cast<int>(action.lag);
      own.version = action.version;
      if (!own.isPerStep())
        own.microbatch = static_cast<int>(action.microbatch);
      if (own.isTransfer())
        own.channel = static_cast<int>(action.channel);
      if (own.isCollective())
        own.group = own.stage;
      actions.push_back(own);
    }
  }
  return schedule;
}

/// A name from the model, with control characters escaped.
static std::string printable(llvm::StringRef name) {
  std::string text;
  for (char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      text += "\\" + llvm::toHex(llvm::StringRef(&c, 1));
    else
      text += c;
  }
  return text;
}

/// What is trained and what is not, and why.
static void printTensors(const runtime::Plan &plan, llvm::raw_ostream &os) {
  if (!plan.isTraining())
    return;
  auto print = [&](llvm::StringRef kind, const runtime::PlanTensor &tensor) {
    os << kind << " " << printable(tensor.name) << ": "
       << (tensor.reason.empty() ? "of the graph" : tensor.reason) << "\n";
  };
  for (const runtime::PlanStage &stage : plan.stages)
    for (const runtime::PlanTensor &tensor : stage.parameters)
      print("trained", tensor);
  for (const runtime::PlanStage &stage : plan.stages)
    for (const runtime::PlanTensor &tensor : stage.buffers)
      print("constant", tensor);
}

static void printStages(const runtime::Plan &plan, llvm::raw_ostream &os) {
  for (auto [number, stage] : llvm::enumerate(plan.stages)) {
    const runtime::PlanAreas &areas = stage.areas;
    os << "stage " << number;
    if (!plan.stageReplicas.empty())
      os << " in " << plan.replicasOf(number) << " replicas";
    os << ": " << printable(stage.nodes.front()) << " ... "
       << printable(stage.nodes.back()) << "\n"
       << llvm::format("  forward %.3f ms, backward %.3f ms",
                       stage.forwardSeconds * 1e3, stage.backwardSeconds * 1e3)
       << " per micro-batch";
    if (stage.prepares)
      os << llvm::format(", prepare %.3f ms per step",
                         stage.prepareSeconds * 1e3);
    os << " (predicted)\n"
       << "  memory " << stage.memoryBytes << " bytes ("
       << formatBytes(stage.memoryBytes) << "): parameters "
       << formatBytes(areas.parameters.bytes) << ", gradients "
       << formatBytes(areas.gradients.bytes) << ", optimizer "
       << formatBytes(areas.optimizer.bytes) << ", activations "
       << areas.residualSlots << " x " << formatBytes(areas.residualSlotBytes)
       << ", scratch " << formatBytes(areas.scratch.bytes) << ", channels "
       << formatBytes(areas.channels.bytes);
    if (areas.prepared.bytes)
      os << ", prepared " << formatBytes(areas.prepared.bytes);
    if (areas.versions.bytes)
      os << ", " << stage.versions - 1 << " more weight versions "
         << formatBytes(areas.versions.bytes);
    if (areas.corrected.bytes)
      os << ", corrected weights " << formatBytes(areas.corrected.bytes);
    if (areas.lanes.bytes)
      os << ", " << plan.lanesOf(number) - 1 << " more sums of gradients "
         << formatBytes(areas.lanes.bytes);
    if (areas.shared.bytes)
      os << ", shared with workers " << formatBytes(areas.shared.bytes);
    if (areas.exchange.bytes)
      os << ", exchange " << formatBytes(areas.exchange.bytes);
    os << "\n";
  }
  for (const runtime::PlanChannel &channel : plan.channels)
    os << "channel " << channel.from << " -> " << channel.to << " ("
       << channel.kind << "): " << printable(channel.name) << ", "
       << formatBytes(channel.bytes) << "\n";
}

/// Of a run without a flush, in the middle of it.
static llvm::Error printSteadyState(const planner::Schedule &schedule,
                                    planner::SimulationInput input,
                                    llvm::raw_ostream &os) {
  planner::Cluster cluster = planner::Cluster::cpuCores(schedule.ranks.size());
  int steps = 2 * planner::largestLag(schedule) + 8;
  double seconds[2], busy[2];
  for (int i = 0; i < 2; ++i) {
    planner::Schedule run = planner::unroll(schedule, (i + 1) * steps);
    input.transfers = planner::transferTimes(run, cluster);
    auto simulation = planner::simulate(run, input);
    if (!simulation)
      return makeError(exitInternal,
                       "the plan cannot be simulated: " + simulation.error());
    seconds[i] = simulation->makespan;
    busy[i] = simulation->makespan * simulation->utilization();
  }
  double step = (seconds[1] - seconds[0]) / steps;
  os << llvm::format("predicted step %.3f ms, bubble %.1f %% (no flush: in the "
                     "middle of a training)\n",
                     step * 1e3,
                     100 * (1 - (busy[1] - busy[0]) / (step * steps)));
  return llvm::Error::success();
}

/// With replicas of stages: what each of them does.
static planner::Schedule scheduleOfReplicas(const runtime::Plan &plan) {
  runtime::Plan all = runtime::replicate(plan, /*addsUp=*/false);
  planner::Schedule schedule = scheduleOf(all);
  std::vector<int> groupOf(plan.stages.size(), -1);
  for (auto [number, stage] : llvm::enumerate(all.stages)) {
    schedule.replicas.push_back({static_cast<int>(stage.code),
                                 static_cast<int>(stage.replica),
                                 static_cast<int>(stage.replicas)});
    if (stage.replicas == 1 || !plan.isTraining())
      continue;
    if (stage.replica == 0) {
      groupOf[stage.code] = static_cast<int>(schedule.groups.size());
      schedule.groups.push_back(
          {"gradients of " + plan.stages[stage.code].name,
           planner::RankGroup::Kind::Gradients,
           {},
           static_cast<int64_t>(stage.areas.gradients.bytes)});
    }
    schedule.groups.back().stages.push_back(static_cast<int>(number));
  }
  for (std::vector<planner::Action> &rank : schedule.ranks)
    for (planner::Action &action : rank)
      if (action.isCollective())
        action.group = groupOf[all.stages[action.stage].code];
  return schedule;
}

static llvm::Error printTimeline(const runtime::Plan &plan,
                                 llvm::raw_ostream &os) {
  bool hasStageReplicas = !plan.stageReplicas.empty();
  planner::Schedule schedule =
      hasStageReplicas ? scheduleOfReplicas(plan) : scheduleOf(plan);
  if (!schedule.isRolling() && !hasStageReplicas) {
    auto all =
        planner::replicatePipeline(schedule, static_cast<int>(plan.replicas));
    if (!all)
      return makeError(exitInternal, all.error());
    schedule = *all;
  }
  planner::SimulationInput input;
  for (auto [number, stage] : llvm::enumerate(plan.stages)) {
    planner::StageTimes times;
    times.forward = stage.forwardSeconds;
    times.recompute = times.forward;
    times.backwardInput = stage.backwardSeconds;
    // Parameters that nobody changes are prepared before the first step.
    times.prepare = plan.isTraining() ? stage.prepareSeconds : 0;
    // Of virtual workers, one is shown.
    input.stages.insert(input.stages.end(),
                        plan.clockDistance ? 1 : plan.replicasOf(number),
                        times);
  }
  if (schedule.isRolling())
    return printSteadyState(schedule, std::move(input), os);
  planner::Cluster cluster = planner::Cluster::cpuCores(schedule.ranks.size());
  input.transfers = planner::transferTimes(schedule, cluster);
  input.collectives = planner::collectiveTimes(schedule, cluster);
  auto simulation = planner::simulate(schedule, input);
  if (!simulation)
    return makeError(exitInternal,
                     "the plan cannot be simulated: " + simulation.error());
  if (!plan.isTraining() && plan.replicas == 1 && !hasStageReplicas)
    if (auto period = planner::stepPeriod(scheduleOf(plan), input))
      os << llvm::format("predicted %.3f ms from result to result\n",
                         *period * 1e3);
  os << llvm::format("predicted step %.3f ms, bubble %.1f %%\n",
                     simulation->makespan * 1e3,
                     100 * (1 - simulation->utilization()))
     << planner::renderTimeline(*simulation, 100);
  return llvm::Error::success();
}

llvm::Error pp::printReport(mlir::ModuleOp module, llvm::raw_ostream &os) {
  for (auto program : module.getOps<mlir::ModuleOp>()) {
    auto plan = makePlan(program, module.getName().value_or("model"));
    if (mlir::failed(plan))
      return makeError(exitInvalid, "there is no plan to report");
    os << "== " << plan->mode << ": " << plan->stages.size()
       << " stages, batch " << plan->batch << " in " << plan->microbatches
       << " micro-batches";
    if (plan->replicas > 1)
      os << " in " << plan->replicas
         << (plan->clockDistance ? " workers" : " replicas");
    if (plan->clockDistance)
      os << " of clock distance " << *plan->clockDistance;
    if (!plan->stageReplicas.empty())
      os << " in replicas by stage";
    if (plan->threads > 1)
      os << ", " << plan->threads << " threads in each rank";
    os << ", schedule " << plan->schedule << ", checkpoint "
       << nameOf(plan->checkpoint) << "\n";
    printStages(*plan, os);
    printTensors(*plan, os);
    if (llvm::Error error = printTimeline(*plan, os))
      return error;
    os << "\n";
  }
  return llvm::Error::success();
}
