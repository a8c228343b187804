//===- EvalCommand.cpp - `eval` -------------------------------------------===//
#include "cli/Buckets.h"
#include "cli/Evaluation.h"
#include "cli/RunOnAllProcesses.h"
#include "cli/SameContents.h"
#include "cli/Session.h"
#include "device/OpenDevice.h"
#include "exec/Snapshot.h"
#include "support/Error.h"
#include "support/Print.h"

#include <fmt/ranges.h>

using namespace pp::runtime;

namespace {
/// What the outputs are compared with.
struct Target {
  Array array;
  std::optional<int64_t> ignoreIndex;
  std::string compared; // the output; empty: not known, or the only one
};
} // namespace

/// The array of the targets, whose numbers the training program, if there is
/// one, says the range of.
static Target takeTarget(const pp_binary &binary, const EvalOptions &options,
                         const Buckets::Arrays &arrays) {
  std::string name = options.target.empty() ? "target" : options.target;
  std::optional<PlanPort> port;
  if (binary.training) {
    Plan plan =
        Plan::parse({binary.training->plan, binary.training->plan_size});
    const PlanPort *target = plan.findTarget();
    if (target && options.target.empty()) {
      name = target->name;
      port = *target;
    }
  }
  auto found = arrays.find(name);
  if (found == arrays.end())
    failInput("eval: no array '{}' with the targets; --target NAME says which "
              "it is",
              name);
  Target target{found->second, options.ignoreIndex, ""};
  if (port) {
    target.compared = port->compared;
    checkIndices(*port, target.array);
    if (!target.ignoreIndex)
      target.ignoreIndex = port->ignoreIndex;
  }
  return target;
}

static const Array &
choosePrediction(const std::map<std::string, Array> &outputs,
                 const std::string &name) {
  if (name.empty() && outputs.size() == 1)
    return outputs.begin()->second;
  auto found = outputs.find(name);
  if (found != outputs.end())
    return found->second;
  std::vector<std::string> names;
  for (const auto &[other, array] : outputs)
    names.push_back(other);
  failUsage("eval: --prediction NAME has to say which output is measured: {}",
            fmt::join(names, ", "));
}

static int eval(const pp_binary &binary, const Buckets &buckets,
                const Buckets::Fit &fit, Buckets::Arrays arrays,
                const EvalOptions &options, ProcessGroup &group) {
  if (buckets.size() == 0)
    arrays = readArrays(options);
  Target target = takeTarget(binary, options, arrays);
  std::shared_ptr<Device> device =
      openDevice(options.device, *fit.program, group.getLaunch().localProcess);
  Program program(*fit.program, *device, group);
  const Plan &plan = program.getPlan();
  DataSet data(plan, buckets.pad(std::move(arrays), fit.number),
               /*allowOthers=*/true, normalizationsOf(options));
  compareData(group, plan, data, "--data", options.data, options.inputs);
  compareArray(group, "target", target.array, "--data", options.data);
  if (options.pin)
    program.pin();
  program.allocate(options.weights, !options.noVerifyWeights);
  compareWeights(program, options.weights);
  if (!options.load.empty()) {
    compareFiles(group, "the weights of --load", {options.load});
    loadWeights(options.load, program, options.averages);
  }
  Executor executor(program, executorOptions(options, plan));
  InferenceResult result = runInference(plan, data, executor);
  if (group.isFirst()) {
    auto outputs = buckets.cutFetches(std::move(result.fetches), fit.length);
    const Array &prediction = choosePrediction(
        outputs,
        options.prediction.empty() ? target.compared : options.prediction);
    std::vector<Metric> metrics =
        options.metrics.empty() ? std::vector{evaluate(prediction, target.array,
                                                       target.ignoreIndex)}
                                : evaluate(prediction, target.array,
                                           target.ignoreIndex, options.metrics);
    printOutput("{{\"samples\":{},{}}}\n", data.getSamples(),
                describe(metrics));
  }
  RunSummary summary(program, executor, result.seconds, result.steps,
                     data.getSamples());
  writeOutputs(options, summary);
  return 0;
}

int pp::runtime::runEval(const pp_binary &binary, const EvalOptions &options) {
  if (options.data.empty() && options.inputs.empty())
    failUsage("eval: --data FILE.npz or --input NAME=FILE.npy is required");
  std::string agreed = fmt::format(
      "eval trace {} report {} load {} metrics {} prediction {} ema {} inputs "
      "{}",
      !options.trace.empty(), !options.report.empty(), !options.load.empty(),
      fmt::join(options.metrics, ","), options.prediction, options.averages,
      normalizationsOf(options).describe());
  Buckets buckets(binary, /*isTraining=*/false, options.pads);
  Buckets::Arrays arrays;
  if (buckets.size() > 0)
    arrays = readArrays(options);
  Buckets::Fit fit = buckets.choose(arrays);
  return runOnAllProcesses(
      binary, options, {fit.program}, agreed, [&](ProcessGroup &group) {
        return eval(binary, buckets, fit, std::move(arrays), options, group);
      });
}
