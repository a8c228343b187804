//===- AnswerJson.cpp - The file format of answers ------------------------===//
#include "ClusterJson.h"
#include "ProblemWords.h"
#include "pp/Planner/Problem.h"
#include <map>

using namespace pp::planner;

std::string
PlanningProblem::answerToJson(const PartitionSolution &solution) const {
  Json json;
  json["version"] = 1;
  json["method"] = solution.method;
  json["exact"] = solution.exact;
  json["value"] = solution.value;
  json["lower_bound"] = solution.lowerBound;
  json["gap"] = solution.gap();
  json["ideals"] = solution.ideals;
  if (solution.stopped != SearchStop::None)
    json["stopped"] = wordOf(stops, solution.stopped);
  Json &kernels = json["kernels"] = Json::array();
  for (size_t k = 0; k < graph.kernels.size(); ++k) {
    Json entry;
    entry["name"] = graph.kernels[k].name;
    entry["stage"] = solution.stageOf[k];
    if (int variant = solution.variantOf[k])
      entry["variant"] = graph.kernels[k].variants[variant - 1].name;
    kernels.push_back(std::move(entry));
  }
  Json &stages = json["stages"] = Json::array();
  for (const PlannedStage &stage : solution.stages) {
    Json entry;
    entry["devices"] = Json::array();
    for (size_t device : stage.devices)
      entry["devices"].push_back(cluster.devices[device].name);
    entry["replicas"] = stage.replicas;
    entry["degree"] = stage.degree;
    entry["compute_seconds"] = stage.computeTime;
    entry["communication_seconds"] = stage.communicationTime;
    entry["sync_seconds"] = stage.syncTime;
    entry["memory_bytes"] = stage.memoryBytes;
    entry["cost"] = stage.cost;
    stages.push_back(std::move(entry));
  }
  return printJson(json);
}

namespace {

class AnswerReader {
public:
  explicit AnswerReader(const PlanningProblem &problem) : problem(problem) {
    for (size_t k = 0; k < problem.graph.kernels.size(); ++k)
      kernelByName[problem.graph.kernels[k].name] = k;
    for (size_t d = 0; d < problem.cluster.devices.size(); ++d)
      deviceByName[problem.cluster.devices[d].name] = d;
  }

  Result<PartitionSolution> read(const Json &json) {
    ObjectReader root(json, "$", error);
    root.integer("version", 1, 1);
    root.text("method", solution.method);
    root.flag("exact", solution.exact);
    root.number("value", solution.value, 0, false);
    root.number("lower_bound", solution.lowerBound, 0, false);
    root.member("gap", false); // Follows from the other two.
    if (auto ideals = root.integer("ideals", 0, INT64_MAX, false))
      solution.ideals = static_cast<size_t>(*ideals);
    std::string stopped = "none";
    root.text("stopped", stopped, /*required=*/false);
    bool isKnown = false;
    for (const Word<SearchStop> &word : stops)
      if (stopped == word.text) {
        solution.stopped = word.value;
        isKnown = true;
      }
    if (!isKnown)
      root.fail("stopped", "expected one of 'none', 'steps', 'time'");
    root.array("stages", true, [&](const Json &json, const std::string &path) {
      readStage(json, path);
    });
    solution.stageOf.assign(problem.graph.kernels.size(), -1);
    solution.variantOf.assign(problem.graph.kernels.size(), 0);
    root.array("kernels", true, [&](const Json &json, const std::string &path) {
      readKernel(json, path);
    });
    root.finish();
    for (size_t k = 0; k < solution.stageOf.size() && error.empty(); ++k) {
      if (solution.stageOf[k] < 0)
        error = "$.kernels: kernel '" + problem.graph.kernels[k].name +
                "' is missing";
      else
        solution.stages[solution.stageOf[k]].kernels.push_back(k);
    }
    if (!error.empty())
      return Failure{error};
    return std::move(solution);
  }

private:
  void readStage(const Json &json, const std::string &path) {
    ObjectReader reader(json, path, error);
    PlannedStage stage;
    reader.array("devices", true,
                 [&](const Json &json, const std::string &path) {
                   auto found = json.is_string()
                                    ? deviceByName.find(json.get<std::string>())
                                    : deviceByName.end();
                   if (found != deviceByName.end())
                     stage.devices.push_back(found->second);
                   else
                     error = path + ": expected the name of a device";
                 });
    stage.replicas =
        static_cast<int>(reader.integer("replicas", 1, 65536).value_or(1));
    stage.degree =
        static_cast<int>(reader.integer("degree", 1, 65536).value_or(1));
    reader.number("compute_seconds", stage.computeTime, 0, false);
    reader.number("communication_seconds", stage.communicationTime, 0, false);
    reader.number("sync_seconds", stage.syncTime, 0, false);
    reader.number("memory_bytes", stage.memoryBytes, 0, false);
    reader.number("cost", stage.cost, 0, false);
    reader.finish();
    solution.stages.push_back(std::move(stage));
  }

  void readKernel(const Json &json, const std::string &path) {
    ObjectReader reader(json, path, error);
    std::string name, variant;
    reader.text("name", name);
    auto stage = reader.integer(
        "stage", 0, static_cast<int64_t>(solution.stages.size()) - 1);
    reader.text("variant", variant, /*required=*/false);
    reader.finish();
    auto found = kernelByName.find(name);
    if (found == kernelByName.end()) {
      reader.fail("name", "there is no kernel '" + name + "'");
      return;
    }
    if (!stage)
      return;
    if (solution.stageOf[found->second] >= 0)
      reader.fail("name", "'" + name + "' is named twice");
    solution.stageOf[found->second] = static_cast<int>(*stage);
    if (variant.empty())
      return;
    const std::vector<KernelVariant> &variants =
        problem.graph.kernels[found->second].variants;
    for (size_t v = 0; v < variants.size(); ++v)
      if (variants[v].name == variant) {
        solution.variantOf[found->second] = static_cast<int>(v + 1);
        return;
      }
    reader.fail("variant",
                "kernel '" + name + "' has no variant '" + variant + "'");
  }

  const PlanningProblem &problem;
  std::map<std::string, size_t> kernelByName, deviceByName;
  PartitionSolution solution;
  std::string error;
};

} // namespace

Result<PartitionSolution>
PlanningProblem::answerFromJson(std::string_view text) const {
  Result<Json> json = parseJson(text);
  if (!json)
    return Failure{json.error()};
  return AnswerReader(*this).read(*json);
}
