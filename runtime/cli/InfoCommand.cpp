//===- InfoCommand.cpp - `info` -------------------------------------------===//
#include "cli/CommandLine.h"
#include "plan/Plan.h"
#include "support/Error.h"
#include "support/Print.h"
#include "support/Printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include <cstdio>

using namespace pp::runtime;
using nlohmann::ordered_json;

static ordered_json describePort(const PlanPort &port, unsigned batch) {
  Shape shape = port.shape;
  if (port.batched)
    shape[0] = batch;
  ordered_json json{{"name", port.name},
                    {"dtype", nameOf(port.type)},
                    {"shape", shape},
                    {"batched", port.batched}};
  if (!port.role.empty())
    json["role"] = port.role;
  if (!port.range.empty())
    json["range"] = port.range;
  if (port.ignoreIndex)
    json["ignore_index"] = *port.ignoreIndex;
  return json;
}

static ordered_json describePlan(const Plan &plan) {
  ordered_json json{{"mode", plan.mode},
                    {"model", plan.model},
                    {"plan", plan.hash},
                    {"batch", plan.batch},
                    {"microbatches", plan.microbatches},
                    {"replicas", plan.replicas},
                    {"threads", plan.threads},
                    {"schedule", plan.schedule},
                    {"ranks", plan.ranksWithStages()}};
  if (plan.clockDistance)
    json["clock_distance"] = *plan.clockDistance;
  if (!plan.stageReplicas.empty())
    json["stage_replicas"] = plan.stageReplicas;
  for (const char *key : {"feeds", "fetches", "stages"})
    json[key] = ordered_json::array();
  for (const PlanPort &port : plan.feeds)
    if (!port.isFedByRuntime())
      json["feeds"].push_back(describePort(port, plan.batch));
  for (const PlanPort &port : plan.fetches)
    json["fetches"].push_back(describePort(port, plan.batch));
  for (const PlanStage &stage : plan.stages) {
    uint64_t parameters = 0;
    for (const PlanTensor &tensor : stage.parameters)
      parameters += *elementCount(tensor.shape);
    if (stage.replica == 0 && plan.isTraining()) {
      for (const PlanTensor &tensor : stage.parameters)
        json["trained"][tensor.name] = tensor.reason;
      for (const PlanTensor &tensor : stage.buffers)
        json["constant"][tensor.name] = tensor.reason;
    }
    json["stages"].push_back({{"name", stage.name},
                              {"nodes", stage.nodes},
                              {"memory_bytes", stage.memoryBytes},
                              {"parameters", parameters},
                              {"kernels", stage.kernels.size()},
                              {"forward_seconds", stage.forwardSeconds},
                              {"backward_seconds", stage.backwardSeconds}});
  }
  if (plan.isTraining()) {
    json["optimizer"] = {{"kind", plan.optimizer.kind},
                         {"scalars", ordered_json::object()}};
    for (const PlanScalar &scalar : plan.optimizer.scalars)
      if (scalar.kind != PlanScalar::Kind::IsFirstStep && scalar.baseOf.empty())
        json["optimizer"]["scalars"][scalar.name] = scalar.value;
  }
  return json;
}

/// What is trained and what is not, and why.
static void printTensors(const Plan &plan) {
  if (!plan.isTraining())
    return;
  auto print = [&](const char *kind, const PlanTensor &tensor) {
    printOutput("  {:<10} {:<32} {} {}: {}\n", kind, printable(tensor.name),
                nameOf(tensor.type), toString(tensor.shape),
                tensor.reason.empty() ? "of the graph" : tensor.reason);
  };
  // Copies of the pipeline have the same ones.
  for (const PlanStage &stage : plan.stages)
    if (stage.replica == 0)
      for (const PlanTensor &tensor : stage.parameters)
        print("trained", tensor);
  for (const PlanStage &stage : plan.stages)
    if (stage.replica == 0)
      for (const PlanTensor &tensor : stage.buffers)
        print("constant", tensor);
}

static void printPlan(const Plan &plan) {
  std::string replicas =
      plan.clockDistance  ? fmt::format(" in {} workers of clock distance {}",
                                        plan.replicas, *plan.clockDistance)
      : plan.replicas > 1 ? fmt::format(" in {} replicas", plan.replicas)
                          : "";
  if (!plan.stageReplicas.empty())
    replicas =
        fmt::format(" in {} replicas", fmt::join(plan.stageReplicas, ", "));
  std::string threads =
      plan.threads > 1 ? fmt::format(" of {} threads", plan.threads) : "";
  printOutput("{} ({}): batch {} in {} micro-batches, {} stages{} on {} "
              "ranks{}, schedule {}\n",
              printable(plan.model), plan.mode, plan.batch, plan.microbatches,
              plan.stages.back().code + 1, replicas, plan.ranksWithStages(),
              threads, plan.schedule);
  if (plan.bucket)
    printOutput("  of several sizes of '{}', this one is for up to {}\n",
                printable(plan.bucket->dim), plan.bucket->size);
  auto printPort = [&](const PlanPort &port, const std::string &kind) {
    Shape shape = port.shape;
    if (port.batched)
      shape[0] = plan.batch;
    printOutput("  {:<7} {:<24} {} {}\n", kind, printable(port.name),
                nameOf(port.type), toString(shape));
  };
  for (const PlanPort &port : plan.feeds)
    if (!port.isFedByRuntime())
      printPort(port, port.role);
  for (const PlanPort &port : plan.fetches)
    printPort(port, "output");
  uint64_t total = 0;
  for (const PlanStage &stage : plan.stages) {
    total += stage.memoryBytes;
    printOutput("  {:<10} {:>12} bytes, {} parameters, {} kernels{}\n",
                stage.name, stage.memoryBytes, stage.parameters.size(),
                stage.kernels.size(),
                stage.nodes.empty()
                    ? ""
                    : fmt::format(", {} .. {}", printable(stage.nodes.front()),
                                  printable(stage.nodes.back())));
  }
  printOutput("  {:<10} {:>12} bytes\n", "total", total);
  printTensors(plan);
  for (const PlanScalar &scalar : plan.optimizer.scalars)
    if (scalar.kind != PlanScalar::Kind::IsFirstStep && scalar.baseOf.empty())
      printOutput("  optimizer {} {} = {}\n", plan.optimizer.kind, scalar.name,
                  scalar.value);
}

int pp::runtime::runInfo(const pp_binary &binary, const InfoOptions &options) {
  if (options.mode == "train" && !binary.training)
    failUsage("--mode train: the model was compiled without a loss");
  ordered_json all = ordered_json::array();
  std::vector<std::pair<const pp_pipeline *, bool>> programs; // is for training
  for (uint64_t i = 0; i < binary.bucket_count; ++i) {
    programs.emplace_back(binary.buckets[i].training, true);
    programs.emplace_back(binary.buckets[i].inference, false);
  }
  if (programs.empty())
    programs = {{binary.training, true}, {binary.inference, false}};
  // Of several sizes, the plan of the largest.
  if (options.plan)
    std::reverse(programs.begin(), programs.end());
  if (options.plan && options.mode.empty() && binary.training)
    programs = {{binary.training, true}};
  for (auto [program, isTraining] : programs) {
    if (!program)
      continue;
    if (!options.mode.empty() && (options.mode == "train") != isTraining)
      continue;
    // --plan prints one document: the training program's unless --mode says so.
    std::string_view text{program->plan, program->plan_size};
    if (options.plan) {
      printOutput("{}\n", text);
      return 0;
    }
    Plan plan = Plan::parse(text);
    if (options.json)
      all.push_back(describePlan(plan));
    else
      printPlan(plan);
  }
  if (options.json)
    printOutput("{}\n", all.dump(2));
  return 0;
}
