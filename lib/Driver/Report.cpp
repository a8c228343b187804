//===- Report.cpp - The plan in words -------------------------------------===//

#include "pp/Driver/Report.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/Format.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Simulator.h"
#include "pp/Target/PlanWriter.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace pp;
namespace json = llvm::json;

/// The plan is what the runtime will read, so the report is made from it.
static planner::Action actionOf(const json::Array &entry) {
  static const llvm::StringRef names[] = {
      "F", "R", "I", "W", "B", "SEND", "RECV", "U", "REDUCE_GRAD"};
  planner::Action action;
  llvm::StringRef name = *entry[0].getAsString();
  for (size_t kind = 0; kind < std::size(names); ++kind)
    if (names[kind] == name)
      action.kind = static_cast<planner::ActionKind>(kind);
  if (action.isTransfer())
    action.channel = *entry[1].getAsInteger();
  else
    action.stage = *entry[1].getAsInteger();
  if (entry.size() > 2)
    action.microbatch = *entry[2].getAsInteger();
  if (action.isCollective())
    action.group = action.stage;
  return action;
}

static planner::Phase phaseOf(llvm::StringRef letter) {
  return letter == "F"   ? planner::Phase::Forward
         : letter == "I" ? planner::Phase::BackwardInput
                         : planner::Phase::BackwardWeight;
}

/// Copies of the pipeline.
static int64_t replicasOf(const json::Object &plan) {
  return plan.getInteger("replicas").value_or(1);
}

/// Of one copy.
static planner::Schedule scheduleOf(const json::Object &plan) {
  planner::Schedule schedule;
  schedule.microbatches = *plan.getInteger("microbatches") / replicasOf(plan);
  schedule.stages = plan.getArray("stages")->size();
  if (replicasOf(plan) > 1 && *plan.getString("mode") == "train") {
    schedule.groups = planner::gradientGroups(schedule.stages);
    for (auto [stage, group] :
         llvm::zip(*plan.getArray("stages"), schedule.groups))
      group.bytes = *stage.getAsObject()
                         ->getObject("areas")
                         ->getObject("gradients")
                         ->getInteger("bytes");
  }
  schedule.rankOfStage.resize(schedule.stages);
  for (const json::Value &value : *plan.getArray("channels")) {
    const json::Object &entry = *value.getAsObject();
    planner::Channel channel;
    channel.from = *entry.getInteger("from");
    channel.to = *entry.getInteger("to");
    channel.fromPhase = phaseOf(*entry.getString("from_phase"));
    channel.toPhase = phaseOf(*entry.getString("to_phase"));
    channel.lastReader = channel.toPhase;
    channel.bytes = *entry.getInteger("bytes");
    schedule.channels.push_back(channel);
  }
  int rank = 0;
  for (const json::Value &value : *plan.getArray("ranks")) {
    const json::Object &entry = *value.getAsObject();
    for (const json::Value &stage : *entry.getArray("stages"))
      schedule.rankOfStage[*stage.getAsInteger()] = rank;
    schedule.ranks.emplace_back();
    for (const json::Value &action : *entry.getArray("actions")) {
      planner::Action parsed = actionOf(*action.getAsArray());
      if (parsed.isTransfer()) {
        const planner::Channel &channel = schedule.channels[parsed.channel];
        parsed.stage = parsed.kind == planner::ActionKind::Send ? channel.from
                                                                : channel.to;
      }
      schedule.ranks.back().push_back(parsed);
    }
    ++rank;
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
static void printTensors(const json::Object &plan, llvm::raw_ostream &os) {
  if (*plan.getString("mode") != "train")
    return;
  for (auto [list, kind] :
       {std::pair("parameters", "trained"), std::pair("buffers", "constant")})
    for (const json::Value &stage : *plan.getArray("stages"))
      for (const json::Value &value : *stage.getAsObject()->getArray(list)) {
        const json::Object &tensor = *value.getAsObject();
        os << kind << " " << printable(*tensor.getString("name")) << ": "
           << tensor.getString("reason").value_or("of the graph") << "\n";
      }
}

static void printStages(const json::Object &plan, llvm::raw_ostream &os) {
  int64_t number = 0;
  for (const json::Value &value : *plan.getArray("stages")) {
    const json::Object &stage = *value.getAsObject();
    const json::Object &areas = *stage.getObject("areas");
    auto area = [&](llvm::StringRef name) {
      return *areas.getObject(name)->getInteger("bytes");
    };
    const json::Array &nodes = *stage.getArray("nodes");
    os << "stage " << number++ << ": " << printable(*nodes[0].getAsString())
       << " ... " << printable(*nodes[1].getAsString()) << "\n"
       << llvm::format("  forward %.3f ms, backward %.3f ms",
                       *stage.getNumber("forward_seconds") * 1e3,
                       *stage.getNumber("backward_seconds") * 1e3)
       << " per micro-batch (predicted)\n"
       << "  memory " << *stage.getInteger("memory_bytes") << " bytes ("
       << formatBytes(*stage.getInteger("memory_bytes")) << "): parameters "
       << formatBytes(area("parameters")) << ", gradients "
       << formatBytes(area("gradients")) << ", optimizer "
       << formatBytes(area("optimizer")) << ", activations "
       << *areas.getObject("residuals")->getInteger("slots") << " x "
       << formatBytes(*areas.getObject("residuals")->getInteger("slot_bytes"))
       << ", scratch " << formatBytes(area("scratch")) << ", channels "
       << formatBytes(area("channels"));
    if (areas.getObject("exchange"))
      os << ", exchange " << formatBytes(area("exchange"));
    os << "\n";
  }
  for (const json::Value &value : *plan.getArray("channels")) {
    const json::Object &channel = *value.getAsObject();
    os << "channel " << *channel.getInteger("from") << " -> "
       << *channel.getInteger("to") << " (" << *channel.getString("kind")
       << "): " << printable(*channel.getString("name")) << ", "
       << formatBytes(*channel.getInteger("bytes")) << "\n";
  }
}

static llvm::Error printTimeline(const json::Object &plan,
                                 llvm::raw_ostream &os) {
  int64_t replicas = replicasOf(plan);
  auto all =
      planner::replicatePipeline(scheduleOf(plan), static_cast<int>(replicas));
  if (!all)
    return makeError(exitInternal, all.error());
  planner::Schedule schedule = *all;
  planner::SimulationInput input;
  for (const json::Value &value : *plan.getArray("stages")) {
    const json::Object &stage = *value.getAsObject();
    planner::StageTimes times;
    times.forward = *stage.getNumber("forward_seconds");
    times.recompute = times.forward;
    times.backwardInput = *stage.getNumber("backward_seconds");
    input.stages.insert(input.stages.end(), replicas, times);
  }
  planner::Cluster cluster = planner::Cluster::cpuCores(schedule.ranks.size());
  input.transfers = planner::transferTimes(schedule, cluster);
  input.collectives = planner::collectiveTimes(schedule, cluster);
  auto simulation = planner::simulate(schedule, input);
  if (!simulation)
    return makeError(exitInternal,
                     "the plan cannot be simulated: " + simulation.error());
  os << llvm::format("predicted step %.3f ms, bubble %.1f %%\n",
                     simulation->makespan * 1e3,
                     100 * (1 - simulation->utilization()))
     << planner::renderTimeline(*simulation, 100);
  return llvm::Error::success();
}

llvm::Error pp::printReport(mlir::ModuleOp module, llvm::raw_ostream &os) {
  for (auto program : module.getOps<mlir::ModuleOp>()) {
    auto text = writePlan(program, module.getName().value_or("model"));
    if (mlir::failed(text))
      return makeError(exitInvalid, "there is no plan to report");
    auto plan = json::parse(*text);
    if (!plan)
      return plan.takeError();
    const json::Object &object = *plan->getAsObject();
    os << "== " << *object.getString("mode") << ": "
       << object.getArray("stages")->size() << " stages, batch "
       << *object.getInteger("batch") << " in "
       << *object.getInteger("microbatches") << " micro-batches"
       << (replicasOf(object) > 1
               ? " in " + std::to_string(replicasOf(object)) + " replicas"
               : "")
       << ", schedule " << *object.getString("schedule") << ", checkpoint "
       << *object.getString("checkpoint") << "\n";
    printStages(object, os);
    printTensors(object, os);
    if (llvm::Error error = printTimeline(object, os))
      return error;
    os << "\n";
  }
  return llvm::Error::success();
}
