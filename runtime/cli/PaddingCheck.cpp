//===- PaddingCheck.cpp ---------------------------------------------------===//
#include "cli/PaddingCheck.h"
#include "cli/ArrayElements.h"
#include "cli/Evaluation.h"
#include "cli/Session.h"
#include "device/OpenDevice.h"
#include "exec/Padding.h"
#include "exec/Snapshot.h"
#include "support/Error.h"

#include <cmath>

using namespace pp::runtime;

/// Sums of two sizes are added up in another order; what padding changes is
/// far more.
static constexpr double tolerance = 1e-2;

/// ||a - b|| / ||b||, of numbers that are finite in either.
static double distance(const Array &a, const Array &b) {
  double difference = 0, norm = 0;
  for (uint64_t i = 0; i < *elementCount(a.shape); ++i) {
    double x = numberAt(a, i), y = numberAt(b, i);
    if (!std::isfinite(x) && !std::isfinite(y))
      continue;
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

/// The outputs of the first batch of `length` with a program.
static Buckets::Arrays inferFirst(const Buckets &buckets, size_t number,
                                  int64_t length, const Buckets::Arrays &arrays,
                                  const InferOptions &options,
                                  ProcessGroup &group) {
  const pp_pipeline &functions = *buckets.getProgram(number);
  std::shared_ptr<Device> device =
      openDevice(options.device, functions, group.getLaunch().localProcess);
  Program program(functions, *device, group);
  const Plan &plan = program.getPlan();
  Buckets::Arrays first;
  for (const PlanPort &port : plan.feeds) {
    auto it = arrays.find(port.name);
    if (it == arrays.end())
      continue;
    bool isLong = port.batched && !it->second.shape.empty() &&
                  it->second.shape[0] > static_cast<int64_t>(plan.batch);
    first[port.name] =
        isLong ? resizeAxis(it->second, 0, plan.batch, 0) : it->second;
  }
  first = buckets.pad(buckets.cutFeeds(std::move(first), length), number);
  DataSet data(plan, std::move(first), /*allowOthers=*/true,
               normalizationsOf(options));
  program.allocate(options.weights, !options.noVerifyWeights);
  if (!options.load.empty())
    (void)loadWeights(options.load, program, options.averages);
  Executor executor(program, executorOptions(options, plan));
  return buckets.cutFetches(runInference(plan, data, executor).fetches, length);
}

void pp::runtime::checkPadding(const Buckets &buckets, const Buckets::Fit &fit,
                               const Buckets::Arrays &arrays,
                               const InferOptions &options,
                               ProcessGroup &group) {
  bool hasSmaller = fit.number > 0;
  size_t other = hasSmaller ? fit.number - 1 : fit.number + 1;
  if (other >= buckets.size())
    return;
  int64_t length = hasSmaller ? buckets.getLimit(other) : fit.length;
  auto infer = [&](size_t number) {
    return inferFirst(buckets, number, length, arrays, options, group);
  };
  Buckets::Arrays with = infer(fit.number), without = infer(other);
  if (!group.isFirst())
    return;
  for (const auto &[name, array] : with) {
    const Array &expected = without.at(name);
    if (!isFloatingPoint(array.type) || array.shape != expected.shape)
      continue;
    double error = distance(array, expected);
    if (!(error <= tolerance))
      failInput(
          "output '{}' depends on the padding: of the first {} of '{}', it "
          "differs by {:.2g} between the programs for {} and {}. Does the "
          "model have a mask, and is it padded with what hides (--pad "
          "NAME=NUMBER)? --no-verify-padding takes the output as it is",
          name, length, buckets.getDim(), error, buckets.getLimit(fit.number),
          buckets.getLimit(other));
  }
}
