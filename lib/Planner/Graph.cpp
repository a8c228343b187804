//===- Graph.cpp - What is to be planned: kernels with costs --------------===//
#include "pp/Planner/Graph.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace pp::planner;

size_t Graph::addKernel(Kernel kernel) {
  kernels.push_back(std::move(kernel));
  return kernels.size() - 1;
}

void Graph::addEdge(size_t producer, size_t consumer, int64_t bytes,
                    const std::string &name, int64_t gradientBytes) {
  // A kernel has few values, and they are most often added one after another.
  auto found = std::find_if(values.rbegin(), values.rend(), [&](Value &value) {
    return value.producer == producer && value.name == name;
  });
  if (found == values.rend()) {
    values.push_back({name, producer, bytes, gradientBytes, {consumer}});
    return;
  }
  std::vector<size_t> &consumers = found->consumers;
  auto place = std::lower_bound(consumers.begin(), consumers.end(), consumer);
  if (place == consumers.end() || *place != consumer)
    consumers.insert(place, consumer);
}

double Graph::totalTime() const {
  double total = 0;
  for (const Kernel &kernel : kernels)
    total += kernel.time();
  return total;
}

double Kernel::timeOn(const std::string &kind, double speed,
                      size_t variant) const {
  const KernelVariant *other = variant ? &variants[variant - 1] : nullptr;
  double sync = other ? other->syncSeconds : 0;
  for (const MeasuredTimes &entry : other ? other->measured : measured)
    if (entry.kind == kind)
      return entry.times.total() + sync;
  return (other ? other->times.total() : time()) / speed + sync;
}

static std::optional<std::string> checkTimes(const KernelTimes &times) {
  for (double time : {times.forward, times.backwardInput, times.backwardWeight})
    if (!std::isfinite(time) || time < 0)
      return " has the time " + std::to_string(time);
  return std::nullopt;
}

static std::optional<std::string>
checkMeasured(const std::vector<MeasuredTimes> &measured) {
  std::set<std::string> kinds;
  for (const MeasuredTimes &entry : measured) {
    if (!kinds.insert(entry.kind).second)
      return " has two times for devices of kind '" + entry.kind + "'";
    if (std::optional<std::string> fault = checkTimes(entry.times))
      return fault;
  }
  return std::nullopt;
}

static std::optional<std::string>
checkSizes(int64_t parameterBytes, int64_t savedBytes, int64_t workspaceBytes) {
  for (int64_t bytes : {parameterBytes, savedBytes, workspaceBytes})
    if (bytes < 0)
      return " has the size " + std::to_string(bytes);
  return std::nullopt;
}

static std::optional<std::string> checkVariant(const KernelVariant &variant) {
  if (std::optional<std::string> fault = checkTimes(variant.times))
    return fault;
  if (std::optional<std::string> fault = checkMeasured(variant.measured))
    return fault;
  if (!std::isfinite(variant.syncSeconds) || variant.syncSeconds < 0)
    return " has the time " + std::to_string(variant.syncSeconds);
  if (variant.devices < 1)
    return " runs on " + std::to_string(variant.devices) + " devices";
  return checkSizes(variant.parameterBytes, variant.savedBytes,
                    variant.workspaceBytes);
}

static std::optional<std::string> checkKernel(const Kernel &kernel) {
  if (std::optional<std::string> fault =
          checkTimes({kernel.forwardTime, kernel.backwardInputTime,
                      kernel.backwardWeightTime}))
    return fault;
  if (std::optional<std::string> fault = checkMeasured(kernel.measured))
    return fault;
  if (std::optional<std::string> fault = checkSizes(
          kernel.parameterBytes, kernel.savedBytes, kernel.workspaceBytes))
    return fault;
  if (!std::isfinite(kernel.prepareTime) || kernel.prepareTime < 0)
    return " has the time " + std::to_string(kernel.prepareTime);
  if (kernel.preparedBytes < 0)
    return " has the size " + std::to_string(kernel.preparedBytes);
  for (const KernelVariant &variant : kernel.variants)
    if (std::optional<std::string> fault = checkVariant(variant))
      return ", variant '" + variant.name + "'," + *fault;
  return std::nullopt;
}

/// What is summed up anywhere fits into 63 bits if the sum of all does.
static std::optional<std::string> checkSums(const Graph &graph) {
  int64_t parameters = 0, saved = 0, workspace = 0, values = 0;
  bool fits = true;
  auto add = [&](int64_t &sum, int64_t bytes) {
    fits &= !__builtin_add_overflow(sum, bytes, &sum);
  };
  for (const Kernel &kernel : graph.kernels) {
    // A variant stands in place of its kernel.
    int64_t most[] = {kernel.parameterBytes, kernel.savedBytes,
                      kernel.workspaceBytes};
    for (const KernelVariant &variant : kernel.variants) {
      most[0] = std::max(most[0], variant.parameterBytes);
      most[1] = std::max(most[1], variant.savedBytes);
      most[2] = std::max(most[2], variant.workspaceBytes);
    }
    add(parameters, most[0]);
    add(saved, most[1]);
    add(workspace, most[2]);
  }
  for (const Value &value : graph.values) {
    add(values, value.bytes);
    add(values, value.gradientBytes);
  }
  if (fits)
    return std::nullopt;
  return "the sizes of all kernels or of all values together are more than "
         "9223372036854775807 bytes, the most that can be counted";
}

std::optional<std::string> Graph::check() const {
  for (const Kernel &kernel : kernels)
    if (std::optional<std::string> fault = checkKernel(kernel))
      return "kernel '" + kernel.name + "'" + *fault;
  for (const Value &value : values) {
    if (value.bytes < 0 || value.gradientBytes < 0)
      return "value '" + value.name + "' has a negative size";
    if (value.producer >= kernels.size())
      return "value '" + value.name + "' has no producer";
    if (!std::is_sorted(value.consumers.begin(), value.consumers.end()))
      return "the consumers of value '" + value.name + "' are not sorted";
    for (size_t consumer : value.consumers) {
      if (consumer >= kernels.size())
        return "value '" + value.name +
               "' is read by a kernel that does not "
               "exist";
      if (consumer <= value.producer)
        return "kernel '" + kernels[consumer].name + "' reads '" + value.name +
               "' before kernel '" + kernels[value.producer].name +
               "' makes it: the kernels are not in topological order";
    }
  }
  return checkSums(*this);
}
