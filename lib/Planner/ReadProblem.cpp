//===- ReadProblem.cpp - The file format of problems, read ----------------===//
#include "ClusterJson.h"
#include "ProblemWords.h"
#include "pp/Planner/Problem.h"
#include <algorithm>
#include <map>
#include <queue>

using namespace pp::planner;

namespace {

template <typename Enum, size_t n>
void readWord(ObjectReader &reader, const char *key,
              const Word<Enum> (&words)[n], Enum &value) {
  std::string text;
  if (!reader.member(key, /*required=*/false))
    return;
  reader.text(key, text);
  std::string expected;
  for (const Word<Enum> &word : words) {
    if (text == word.text) {
      value = word.value;
      return;
    }
    expected += (expected.empty() ? "'" : ", '") + std::string(word.text) + "'";
  }
  reader.fail(key, "expected one of " + expected);
}

class ProblemReader {
public:
  Result<PlanningProblem> read(const Json &json) {
    ObjectReader root(json, "$", error);
    root.integer("version", 1, 1);
    if (const Json *graph = root.member("graph"))
      readGraph(*graph);
    if (const Json *cluster = root.member("cluster");
        cluster && error.empty()) {
      Result<Cluster> read = readCluster(*cluster, "$.cluster");
      if (read)
        result.cluster = std::move(*read);
      else
        error = read.error();
    }
    if (const Json *objective = root.member("objective", false))
      readObjective(*objective);
    if (const Json *constraints = root.member("constraints", false))
      readConstraints(*constraints);
    if (const Json *limits = root.member("limits", false))
      readLimits(*limits);
    root.finish();
    if (error.empty())
      if (std::optional<std::string> fault = result.graph.check())
        error = "$.graph: " + *fault;
    if (!error.empty())
      return Failure{error};
    return std::move(result);
  }

private:
  void readTimes(ObjectReader &reader, KernelTimes &times) {
    reader.number("forward", times.forward, 0, /*above=*/false);
    reader.number("backward_input", times.backwardInput, 0, false, false);
    reader.number("backward_weight", times.backwardWeight, 0, false, false);
  }

  std::vector<MeasuredTimes> readMeasured(ObjectReader &reader) {
    std::vector<MeasuredTimes> list;
    reader.array("measured", false,
                 [&](const Json &json, const std::string &path) {
                   ObjectReader entry(json, path, error);
                   MeasuredTimes measured;
                   entry.text("kind", measured.kind);
                   readTimes(entry, measured.times);
                   entry.finish();
                   list.push_back(std::move(measured));
                 });
    return list;
  }

  KernelVariant readVariant(const Json &json, const std::string &path) {
    ObjectReader reader(json, path, error);
    KernelVariant variant;
    reader.text("name", variant.name);
    readTimes(reader, variant.times);
    variant.measured = readMeasured(reader);
    reader.bytes("parameter_bytes", variant.parameterBytes, false);
    reader.bytes("saved_bytes", variant.savedBytes, false);
    reader.bytes("workspace_bytes", variant.workspaceBytes, false);
    variant.devices = static_cast<int>(
        reader.integer("devices", 1, 65536, false).value_or(1));
    reader.number("sync_seconds", variant.syncSeconds, 0, false, false);
    reader.finish();
    return variant;
  }

  void readKernel(const Json &json, const std::string &path) {
    ObjectReader reader(json, path, error);
    Kernel kernel;
    reader.text("name", kernel.name);
    if (!byName.emplace(kernel.name, kernels.size()).second)
      reader.fail("name", "'" + kernel.name + "' is named twice");
    KernelTimes times;
    readTimes(reader, times);
    kernel.forwardTime = times.forward;
    kernel.backwardInputTime = times.backwardInput;
    kernel.backwardWeightTime = times.backwardWeight;
    kernel.measured = readMeasured(reader);
    reader.bytes("parameter_bytes", kernel.parameterBytes, false);
    reader.number("prepare", kernel.prepareTime, 0, false, false);
    reader.bytes("prepared_bytes", kernel.preparedBytes, false);
    reader.bytes("saved_bytes", kernel.savedBytes, false);
    reader.bytes("workspace_bytes", kernel.workspaceBytes, false);
    if (auto hint = reader.integer("stage_hint", 0, INT32_MAX, false))
      kernel.stageHint = static_cast<int>(*hint);
    if (auto id = reader.integer("colocation_class", 0, INT32_MAX, false))
      kernel.colocationClass = static_cast<int>(*id);
    readWord(reader, "pass", passes, kernel.backward);
    std::set<std::string> names;
    reader.array("variants", false,
                 [&](const Json &json, const std::string &path) {
                   kernel.variants.push_back(readVariant(json, path));
                   if (error.empty() &&
                       !names.insert(kernel.variants.back().name).second)
                     error = path + ".name: '" + kernel.variants.back().name +
                             "' is named twice";
                 });
    reader.finish();
    kernels.push_back(std::move(kernel));
  }

  std::optional<size_t> readName(const Json &json, const std::string &path) {
    if (!json.is_string())
      fail(path, "expected the name of a kernel");
    else if (auto found = byName.find(json.get<std::string>());
             found != byName.end())
      return found->second;
    else
      fail(path, "there is no kernel '" + json.get<std::string>() + "'");
    return std::nullopt;
  }

  void readValue(const Json &json, const std::string &path) {
    ObjectReader reader(json, path, error);
    Value value;
    reader.text("name", value.name, /*required=*/false);
    if (!value.name.empty() && !valueNames.insert(value.name).second)
      reader.fail("name", "'" + value.name + "' is named twice");
    if (const Json *producer = reader.member("producer"))
      if (auto kernel = readName(*producer, path + ".producer"))
        value.producer = *kernel;
    reader.array("consumers", true,
                 [&](const Json &json, const std::string &path) {
                   if (auto kernel = readName(json, path))
                     value.consumers.push_back(*kernel);
                 });
    reader.bytes("bytes", value.bytes);
    reader.bytes("gradient_bytes", value.gradientBytes, false);
    reader.finish();
    values.push_back(std::move(value));
  }

  void readGraph(const Json &json) {
    ObjectReader reader(json, "$.graph", error);
    reader.array("kernels", true,
                 [&](const Json &json, const std::string &path) {
                   readKernel(json, path);
                 });
    reader.array("values", false,
                 [&](const Json &json, const std::string &path) {
                   readValue(json, path);
                 });
    reader.finish();
    if (error.empty())
      sortKernels();
  }

  /// The first kernel of the file whose inputs are there comes first.
  void sortKernels() {
    size_t n = kernels.size();
    std::vector<std::vector<size_t>> after(n);
    std::vector<size_t> missing(n, 0);
    for (const Value &value : values)
      for (size_t consumer : value.consumers) {
        after[value.producer].push_back(consumer);
        ++missing[consumer];
      }
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t k = 0; k < n; ++k)
      if (missing[k] == 0)
        ready.push(k);
    std::vector<size_t> place(n, n);
    while (!ready.empty()) {
      size_t k = ready.top();
      ready.pop();
      place[k] = result.graph.kernels.size();
      result.graph.kernels.push_back(kernels[k]);
      for (size_t next : after[k])
        if (--missing[next] == 0)
          ready.push(next);
    }
    if (result.graph.kernels.size() < n) {
      nameCycle(place);
      return;
    }
    for (auto &[name, kernel] : byName)
      kernel = place[kernel];
    for (Value &value : values) {
      value.producer = place[value.producer];
      for (size_t &consumer : value.consumers)
        consumer = place[consumer];
      std::sort(value.consumers.begin(), value.consumers.end());
      value.consumers.erase(
          std::unique(value.consumers.begin(), value.consumers.end()),
          value.consumers.end());
    }
    result.graph.values = std::move(values);
  }

  /// Every kernel without a place waits for another one: going back from any
  /// must come to one twice.
  void nameCycle(const std::vector<size_t> &place) {
    size_t n = kernels.size();
    std::vector<size_t> waitsFor(n, n), seen(n, n);
    for (const Value &value : values)
      for (size_t consumer : value.consumers)
        if (place[consumer] == n && place[value.producer] == n)
          waitsFor[consumer] = value.producer;
    size_t at = std::find(place.begin(), place.end(), n) - place.begin();
    for (size_t step = 0; seen[at] == n; at = waitsFor[at])
      seen[at] = step++;
    std::string names = "'" + kernels[at].name + "'";
    for (size_t next = waitsFor[at]; next != at; next = waitsFor[next])
      names = "'" + kernels[next].name + "', " + names;
    fail("$.graph.values", "the kernels " + names + " form a cycle");
  }

  void readObjective(const Json &json) {
    ObjectReader reader(json, "$.objective", error);
    PartitionProblem &settings = result.settings;
    readWord(reader, "kind", objectives, settings.objective);
    readWord(reader, "communication", communications, settings.communication);
    readWord(reader, "pipedream_form", forms, settings.form);
    settings.microbatches = static_cast<int>(
        reader.integer("microbatches", 1, INT32_MAX, false).value_or(1));
    reader.number("all_reduce_factor", settings.allReduceFactor, 0, false,
                  false);
    reader.finish();
  }

  void readMemory(const Json &json) {
    ObjectReader reader(json, "$.constraints.memory", error);
    MemoryModel &memory = result.settings.memory;
    reader.number("parameter_copies", memory.parameterCopies, 0, false, false);
    reader.number("stashed_copies", memory.stashedCopies, 0, false, false);
    readWord(reader, "rule", rules, memory.rule);
    reader.array(
        "in_flight", false, [&](const Json &json, const std::string &path) {
          if (json.is_number_unsigned() && json.get<uint64_t>() <= INT32_MAX)
            memory.inFlight.push_back(json.get<int>());
          else
            fail(path, "expected a number of micro-batches");
        });
    reader.finish();
  }

  void readConstraints(const Json &json) {
    ObjectReader reader(json, "$.constraints", error);
    PartitionProblem &settings = result.settings;
    settings.maxStages = static_cast<size_t>(
        reader.integer("max_stages", 1, INT32_MAX, false).value_or(0));
    reader.flag("exact_stage_count", settings.exactStageCount);
    reader.flag("use_all_devices", settings.useAllDevices);
    reader.flag("replicate", settings.replicate);
    reader.flag("replicas_divide_microbatches",
                settings.replicasDivideMicrobatches);
    reader.flag("limit_memory", settings.limitMemory);
    if (const Json *memory = reader.member("memory", false))
      readMemory(*memory);
    reader.array("cuts", false, [&](const Json &json, const std::string &path) {
      if (auto kernel = readName(json, path))
        settings.cuts.push_back(*kernel);
    });
    reader.finish();
  }

  void readLimits(const Json &json) {
    ObjectReader reader(json, "$.limits", error);
    PartitionLimits &limits = result.settings.limits;
    if (auto ideals = reader.integer("ideals", 0, 1 << 30, false))
      limits.ideals = static_cast<size_t>(*ideals);
    if (auto rounds = reader.integer("rounds", 0, 1 << 30, false))
      limits.rounds = static_cast<int>(*rounds);
    if (auto steps = reader.integer("steps", 0, INT64_MAX, false))
      limits.steps = static_cast<uint64_t>(*steps);
    reader.finish();
  }

  void fail(const std::string &path, const std::string &message) {
    if (error.empty())
      error = path + ": " + message;
  }

  PlanningProblem result;
  std::string error;
  std::vector<Kernel> kernels;
  std::vector<Value> values;
  std::map<std::string, size_t> byName;
  std::set<std::string> valueNames;
};

} // namespace

Result<PlanningProblem> PlanningProblem::fromJson(std::string_view text) {
  Result<Json> json = parseJson(text);
  if (!json)
    return Failure{json.error()};
  return ProblemReader().read(*json);
}
