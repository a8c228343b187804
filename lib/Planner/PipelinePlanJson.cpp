//===- PipelinePlanJson.cpp - Plans as JSON -------------------------------===//
#include "ObjectReader.h"
#include "pp/Planner/PipelinePlan.h"
#include "pprt/pprt.h"

using namespace pp::planner;

namespace {

class PlanReader {
public:
  Result<PipelinePlan> read(std::string_view text) {
    Result<Json> json = parseJson(text);
    if (!json)
      return Failure{json.error()};
    ObjectReader root(*json, "$", error);
    (void)root.integer("version", 1, 1);
    root.text("model", plan.model);
    plan.training = readMode(root);
    plan.batch = root.integer("batch", 1, INT32_MAX).value_or(0);
    int microbatches =
        static_cast<int>(root.integer("microbatches", 1, 1 << 20).value_or(0));
    plan.replicas =
        static_cast<int>(root.integer("replicas", 1, 1 << 20).value_or(1));
    if (root.member("threads", /*required=*/false))
      plan.threads = static_cast<int>(
          root.integer("threads", 1, PP_MOST_THREADS).value_or(1));
    root.array("stage_replicas", false,
               [&](const Json &count, const std::string &path) {
                 if (count.is_number_unsigned() && count.get<uint64_t>() >= 1 &&
                     count.get<uint64_t>() <= (1 << 20))
                   stageReplicas.push_back(count.get<int>());
                 else
                   fail(path + ": expected a number of replicas");
               });
    readCheckpoint(root);
    root.array("stages", true, [&](const Json &stage, const std::string &path) {
      readStage(stage, path);
    });
    root.array("kernels", true,
               [&](const Json &kernel, const std::string &path) {
                 readKernel(kernel, path);
               });
    if (const Json *schedule = root.member("schedule"))
      readSchedule(*schedule);
    if (const Json *predicted = root.member("predicted", /*required=*/false))
      readPrediction(*predicted);
    root.finish();
    if (error.empty())
      checkPlan(microbatches);
    if (!error.empty())
      return Failure{error};
    return std::move(plan);
  }

private:
  void fail(const std::string &message) {
    if (error.empty())
      error = message;
  }

  bool readMode(ObjectReader &root) {
    std::string mode;
    root.text("mode", mode);
    if (!mode.empty() && mode != "train" && mode != "infer")
      root.fail("mode", "expected train or infer");
    return mode != "infer";
  }

  void readCheckpoint(ObjectReader &root) {
    std::string mode;
    root.text("checkpoint", mode);
    auto parsed = pp::parseCheckpointMode(mode);
    if (parsed)
      plan.checkpoint = *parsed;
    else
      root.fail("checkpoint", "expected always, except_last or never");
  }

  void readStage(const Json &json, const std::string &path) {
    ObjectReader reader(json, path, error);
    PlanStage &stage = plan.stages.emplace_back();
    stageRanks.push_back(
        static_cast<int>(reader.integer("rank", 0, 1 << 20).value_or(0)));
    reader.array("devices", true, [&](const Json &name, const std::string &at) {
      if (name.is_string())
        stage.devices.push_back(name.get<std::string>());
      else
        fail(at + ": expected a string");
    });
    reader.number("forward_seconds", stage.forward, 0, false);
    reader.number("backward_input_seconds", stage.backwardInput, 0, false);
    reader.number("backward_weight_seconds", stage.backwardWeight, 0, false);
    reader.bytes("parameter_bytes", stage.parameterBytes);
    reader.bytes("saved_bytes", stage.savedBytes);
    reader.finish();
  }

  void readKernel(const Json &json, const std::string &path) {
    if (!json.is_array() || json.size() != 2 || !json[0].is_string() ||
        !json[1].is_number_unsigned() ||
        json[1].get<uint64_t>() >= plan.stages.size()) {
      fail(path + ": expected a name and a stage below " +
           std::to_string(plan.stages.size()));
      return;
    }
    plan.kernels.push_back({json[0].get<std::string>(), json[1].get<int>()});
  }

  void readSchedule(const Json &json) {
    ObjectReader reader(json, "$.schedule", error);
    reader.text("name", plan.scheduleName);
    std::string text;
    reader.array("ranks", true, [&](const Json &rank, const std::string &path) {
      if (!rank.is_string())
        fail(path + ": expected actions separated by commas");
      else
        text += rank.get<std::string>() + "\n";
    });
    reader.finish();
    if (!error.empty())
      return;
    Result<Schedule> schedule = parseSchedule(text);
    if (schedule)
      plan.schedule = *schedule;
    else
      fail("$.schedule.ranks: " + schedule.error());
  }

  void readPrediction(const Json &json) {
    ObjectReader reader(json, "$.predicted", error);
    PlanPrediction &predicted = plan.predicted;
    reader.number("step_seconds", predicted.step, 0, false);
    reader.number("latency_seconds", predicted.latency, 0, false,
                  /*required=*/false);
    reader.number("period_seconds", predicted.period, 0, false,
                  /*required=*/false);
    reader.number("span_seconds", predicted.span, 0, false);
    reader.number("bubble", predicted.bubble, 0, false);
    reader.number("span_bubble", predicted.spanBubble, 0, false);
    reader.number("throughput", predicted.throughput, 0, false);
    reader.number("lower_bound_seconds", predicted.lowerBound, 0, false);
    reader.array("peak_bytes", true,
                 [&](const Json &bytes, const std::string &path) {
                   if (bytes.is_number_unsigned())
                     predicted.peakBytes.push_back(bytes.get<int64_t>());
                   else
                     fail(path + ": expected a number of bytes");
                 });
    reader.finish();
  }

  /// What the fields say of each other.
  void checkPlan(int microbatches) {
    size_t stages = plan.stages.size();
    if (!stageReplicas.empty())
      return checkReplicas(microbatches);
    if (plan.schedule.stages != static_cast<int>(stages))
      return fail("$.schedule.ranks: " + std::to_string(plan.schedule.stages) +
                  " stages, but $.stages has " + std::to_string(stages));
    if (plan.schedule.hasTransfers())
      return fail("$.schedule.ranks: sends and receives are the compiler's; "
                  "list computations only");
    if (plan.microbatches() != microbatches)
      return fail("$.microbatches: " + std::to_string(microbatches) +
                  ", but the schedule has " +
                  std::to_string(plan.schedule.microbatches) + " for each of " +
                  std::to_string(plan.replicas) + " replicas");
    for (size_t stage = 0; stage < stages; ++stage) {
      if (stageRanks[stage] != plan.schedule.rankOfStage[stage])
        return fail("$.stages[" + std::to_string(stage) +
                    "].rank: " + std::to_string(stageRanks[stage]) +
                    ", but the schedule runs it on rank " +
                    std::to_string(plan.schedule.rankOfStage[stage]));
      if (plan.stages[stage].devices.size() !=
          static_cast<size_t>(plan.replicas))
        return fail("$.stages[" + std::to_string(stage) + "].devices: " +
                    std::to_string(plan.stages[stage].devices.size()) +
                    " for " + std::to_string(plan.replicas) + " replicas");
    }
  }

  /// With replicas of stages, each of which has a rank.
  void checkReplicas(int microbatches) {
    Schedule &schedule = plan.schedule;
    if (stageReplicas.size() != plan.stages.size() || plan.replicas != 1)
      return fail("$.stage_replicas: " + std::to_string(stageReplicas.size()) +
                  " numbers for " + std::to_string(plan.stages.size()) +
                  " stages, or $.replicas is not 1");
    if (schedule.hasTransfers())
      return fail("$.schedule.ranks: sends and receives are the compiler's; "
                  "list computations only");
    for (size_t stage = 0; stage < stageReplicas.size(); ++stage) {
      if (stageReplicas[stage] > microbatches)
        return fail("$.stage_replicas[" + std::to_string(stage) +
                    "]: " + std::to_string(stageReplicas[stage]) +
                    " replicas cannot share " + std::to_string(microbatches) +
                    " micro-batches");
      if (plan.stages[stage].devices.size() !=
          static_cast<size_t>(stageReplicas[stage]))
        return fail(
            "$.stages[" + std::to_string(stage) +
            "].devices: " + std::to_string(plan.stages[stage].devices.size()) +
            " for " + std::to_string(stageReplicas[stage]) + " replicas");
      if (stageRanks[stage] != static_cast<int>(schedule.replicas.size()))
        return fail("$.stages[" + std::to_string(stage) +
                    "].rank: " + std::to_string(stageRanks[stage]) +
                    ", but its first replica is on rank " +
                    std::to_string(schedule.replicas.size()));
      for (int number = 0; number < stageReplicas[stage]; ++number)
        schedule.replicas.push_back(
            {static_cast<int>(stage), number, stageReplicas[stage]});
    }
    bool isPlain =
        schedule.stages == static_cast<int>(schedule.replicas.size());
    for (int stage = 0; isPlain && stage < schedule.stages; ++stage)
      isPlain = schedule.rankOfStage[stage] == stage;
    if (!isPlain || schedule.microbatches != microbatches)
      return fail("$.schedule.ranks: with replicas of stages, replica i of all "
                  "is stage i there and alone on rank i, and together they "
                  "have all micro-batches");
  }

  PipelinePlan plan;
  std::vector<int> stageRanks, stageReplicas;
  std::string error;
};

} // namespace

Result<PipelinePlan> PipelinePlan::fromJson(std::string_view text) {
  return PlanReader().read(text);
}

std::vector<int> PipelinePlan::stageReplicas() const {
  std::vector<int> counts;
  for (const Replica &replica : schedule.replicas)
    if (replica.number == 0)
      counts.push_back(replica.count);
  return counts;
}

std::string PipelinePlan::describeReplicas() const {
  std::string text;
  for (int count : stageReplicas())
    text += (text.empty() ? "" : ",") + std::to_string(count);
  return text.empty() ? std::to_string(replicas) : text;
}

std::string PipelinePlan::toJson() const {
  Json json;
  json["version"] = 1;
  json["model"] = model;
  json["mode"] = training ? "train" : "infer";
  json["batch"] = batch;
  json["microbatches"] = microbatches();
  json["replicas"] = replicas;
  if (std::vector<int> numbers = stageReplicas(); !numbers.empty())
    json["stage_replicas"] = numbers;
  if (threads > 1)
    json["threads"] = threads;
  json["checkpoint"] = std::string(nameOf(checkpoint));
  Json ranks = Json::array();
  for (const std::vector<Action> &rank : schedule.ranks) {
    std::string actions;
    for (const Action &action : rank)
      actions +=
          (actions.empty() ? "" : ",") + toString(action, schedule.channels);
    ranks.push_back(actions);
  }
  json["schedule"] = {{"name", scheduleName}, {"ranks", ranks}};
  json["stages"] = Json::array();
  int firstRank = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const PlanStage &stage = stages[s];
    int rank = schedule.replicas.empty() ? schedule.rankOfStage[s] : firstRank;
    firstRank += static_cast<int>(stage.devices.size());
    json["stages"].push_back({{"rank", rank},
                              {"devices", stage.devices},
                              {"forward_seconds", stage.forward},
                              {"backward_input_seconds", stage.backwardInput},
                              {"backward_weight_seconds", stage.backwardWeight},
                              {"parameter_bytes", stage.parameterBytes},
                              {"saved_bytes", stage.savedBytes}});
  }
  json["predicted"] = {{"step_seconds", predicted.step},
                       {"span_seconds", predicted.span},
                       {"bubble", predicted.bubble},
                       {"span_bubble", predicted.spanBubble},
                       {"throughput", predicted.throughput},
                       {"peak_bytes", predicted.peakBytes},
                       {"lower_bound_seconds", predicted.lowerBound}};
  if (predicted.latency > 0 && !training)
    json["predicted"]["latency_seconds"] = predicted.latency;
  if (predicted.period > 0)
    json["predicted"]["period_seconds"] = predicted.period;
  json["kernels"] = Json::array();
  for (const PlacedKernel &kernel : kernels)
    json["kernels"].push_back(Json::array({kernel.name, kernel.stage}));
  return printJson(json);
}
