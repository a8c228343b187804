//===- InferCommand.cpp - `infer` -----------------------------------------===//
#include "cli/Buckets.h"
#include "cli/Evaluation.h"
#include "cli/PaddingCheck.h"
#include "cli/RunOnAllProcesses.h"
#include "cli/SameContents.h"
#include "cli/Session.h"
#include "device/OpenDevice.h"
#include "exec/Snapshot.h"
#include "support/Error.h"
#include "support/Print.h"

#include <cstdio>

using namespace pp::runtime;

static int infer(const Buckets &buckets, const Buckets::Fit &fit,
                 Buckets::Arrays arrays, const InferOptions &options,
                 ProcessGroup &group) {
  // What a process cannot read, the others are to hear of.
  if (buckets.size() == 0)
    arrays = readArrays(options);
  if (fit.isPadded && !options.noVerifyPadding)
    checkPadding(buckets, fit, arrays, options, group);
  std::shared_ptr<Device> device =
      openDevice(options.device, *fit.program, group.getLaunch().localProcess);
  Program program(*fit.program, *device, group);
  const Plan &plan = program.getPlan();
  // An archive made for training holds targets too.
  DataSet data(plan, buckets.pad(std::move(arrays), fit.number),
               /*allowOthers=*/true, normalizationsOf(options));
  compareData(group, plan, data, "--data", options.data, options.inputs);
  if (options.pin)
    program.pin();
  program.allocate(options.weights, !options.noVerifyWeights);
  compareWeights(program, options.weights);
  if (!options.load.empty()) {
    compareFiles(group, "the weights of --load", {options.load});
    unsigned others = loadWeights(options.load, program, options.averages);
    if (others && group.isFirst())
      printMessage("note: {} tensors of '{}' are not in the model\n", others,
                   options.load);
  }
  Executor executor(program, executorOptions(options, plan));
  InferenceResult result = runInference(plan, data, executor);
  if (!options.output.empty() && group.isFirst()) {
    auto fetches = buckets.cutFetches(std::move(result.fetches), fit.length);
    restoreSamples(plan, fetches);
    writeNpz(options.output, fetches);
  }
  RunSummary summary(program, executor, result.seconds, result.steps,
                     data.getSamples());
  for (const std::string &name : result.ofLastBatch)
    if (group.isFirst())
      printMessage("warning: output '{}' has no axis of samples, and another "
                   "value in each mini-batch: this is that of the last one\n",
                   name);
  if (!plan.wholeBatches.empty() && data.getSamples() > plan.batch &&
      group.isFirst())
    printMessage("warning: {}; the {} samples were computed in mini-batches of "
                 "{}: in others (--batch of pp-compile), their results may be "
                 "others\n",
                 plan.wholeBatches, data.getSamples(), plan.batch);
  if (uint64_t left = data.getSamples() % plan.batch;
      left && !plan.wholeBatches.empty() && group.isFirst())
    printMessage("warning: {}; the last {} of {} samples, in a batch of {}, "
                 "stood beside copies of the last one, which their results "
                 "may depend on\n",
                 plan.wholeBatches, left, data.getSamples(), plan.batch);
  if (group.isFirst())
    printMessage("{} samples in {:.3f} s, {:.1f} samples/s\n",
                 data.getSamples(), result.seconds,
                 result.seconds > 0 ? data.getSamples() / result.seconds : 0.0);
  summary.print();
  writeOutputs(options, summary);
  return 0;
}

int pp::runtime::runInfer(const pp_binary &binary,
                          const InferOptions &options) {
  if (options.data.empty() && options.inputs.empty())
    failUsage("infer: --data FILE.npz or --input NAME=FILE.npy is required");
  std::string agreed = fmt::format(
      "infer trace {} report {} load {} ema {} inputs {}",
      !options.trace.empty(), !options.report.empty(), !options.load.empty(),
      options.averages, normalizationsOf(options).describe());
  Buckets buckets(binary, /*isTraining=*/false, options.pads);
  Buckets::Arrays arrays;
  if (buckets.size() > 0)
    arrays = readArrays(options);
  Buckets::Fit fit = buckets.choose(arrays);
  return runOnAllProcesses(
      binary, options, {fit.program}, agreed, [&](ProcessGroup &group) {
        return infer(buckets, fit, std::move(arrays), options, group);
      });
}
