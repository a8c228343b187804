//===- WriteProblem.cpp - The file format of problems, written ------------===//
#include "ClusterJson.h"
#include "ProblemWords.h"
#include "pp/Planner/Problem.h"
#include <set>

using namespace pp::planner;

namespace {

void putTimes(Json &json, const KernelTimes &times) {
  json["forward"] = times.forward;
  json["backward_input"] = times.backwardInput;
  json["backward_weight"] = times.backwardWeight;
}

Json measuredToJson(const std::vector<MeasuredTimes> &list) {
  Json json = Json::array();
  for (const MeasuredTimes &entry : list) {
    Json object;
    object["kind"] = entry.kind;
    putTimes(object, entry.times);
    json.push_back(std::move(object));
  }
  return json;
}

Json variantToJson(const KernelVariant &variant) {
  Json json;
  json["name"] = variant.name;
  putTimes(json, variant.times);
  if (!variant.measured.empty())
    json["measured"] = measuredToJson(variant.measured);
  json["parameter_bytes"] = variant.parameterBytes;
  json["saved_bytes"] = variant.savedBytes;
  json["workspace_bytes"] = variant.workspaceBytes;
  json["devices"] = variant.devices;
  json["sync_seconds"] = variant.syncSeconds;
  return json;
}

Json kernelToJson(const Kernel &kernel) {
  Json json;
  json["name"] = kernel.name;
  putTimes(json, {kernel.forwardTime, kernel.backwardInputTime,
                  kernel.backwardWeightTime});
  if (!kernel.measured.empty())
    json["measured"] = measuredToJson(kernel.measured);
  json["parameter_bytes"] = kernel.parameterBytes;
  if (kernel.prepareTime > 0)
    json["prepare"] = kernel.prepareTime;
  if (kernel.preparedBytes > 0)
    json["prepared_bytes"] = kernel.preparedBytes;
  json["saved_bytes"] = kernel.savedBytes;
  json["workspace_bytes"] = kernel.workspaceBytes;
  if (kernel.stageHint)
    json["stage_hint"] = *kernel.stageHint;
  if (kernel.colocationClass >= 0)
    json["colocation_class"] = kernel.colocationClass;
  if (kernel.backward)
    json["pass"] = wordOf(passes, kernel.backward);
  for (const KernelVariant &variant : kernel.variants)
    json["variants"].push_back(variantToJson(variant));
  return json;
}

} // namespace

PartitionProblem PlanningProblem::problem() const {
  PartitionProblem problem = settings;
  problem.graph = &graph;
  problem.cluster = &cluster;
  return problem;
}

std::string PlanningProblem::toJson() const {
  Json json;
  json["version"] = 1;
  Json &kernels = json["graph"]["kernels"] = Json::array();
  for (const Kernel &kernel : graph.kernels)
    kernels.push_back(kernelToJson(kernel));
  Json &values = json["graph"]["values"] = Json::array();
  std::set<std::string> names;
  for (const Value &value : graph.values) {
    // Only its producer makes the name of a value unique.
    std::string name = value.name;
    for (int number = 2; !name.empty() && !names.insert(name).second; ++number)
      name = value.name + "#" + std::to_string(number);
    Json entry;
    entry["name"] = name;
    entry["producer"] = graph.kernels[value.producer].name;
    entry["consumers"] = Json::array();
    for (size_t consumer : value.consumers)
      entry["consumers"].push_back(graph.kernels[consumer].name);
    entry["bytes"] = value.bytes;
    entry["gradient_bytes"] = value.gradientBytes;
    values.push_back(std::move(entry));
  }
  json["cluster"] = clusterToJson(cluster);
  Json &objective = json["objective"];
  objective["kind"] = wordOf(objectives, settings.objective);
  objective["communication"] = wordOf(communications, settings.communication);
  objective["pipedream_form"] = wordOf(forms, settings.form);
  objective["microbatches"] = settings.microbatches;
  objective["all_reduce_factor"] = settings.allReduceFactor;
  Json &constraints = json["constraints"];
  constraints = Json::object();
  if (settings.maxStages)
    constraints["max_stages"] = settings.maxStages;
  constraints["exact_stage_count"] = settings.exactStageCount;
  constraints["use_all_devices"] = settings.useAllDevices;
  constraints["replicate"] = settings.replicate;
  constraints["replicas_divide_microbatches"] =
      settings.replicasDivideMicrobatches;
  constraints["limit_memory"] = settings.limitMemory;
  Json &memory = constraints["memory"];
  memory["parameter_copies"] = settings.memory.parameterCopies;
  memory["stashed_copies"] = settings.memory.stashedCopies;
  memory["rule"] = wordOf(rules, settings.memory.rule);
  memory["in_flight"] = settings.memory.inFlight;
  if (!settings.cuts.empty())
    for (size_t cut : settings.cuts)
      constraints["cuts"].push_back(graph.kernels[cut].name);
  json["limits"]["ideals"] = settings.limits.ideals;
  json["limits"]["rounds"] = settings.limits.rounds;
  json["limits"]["steps"] = settings.limits.steps;
  return printJson(json);
}
