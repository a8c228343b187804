//===- Graph.cpp - What is to be planned: kernels with costs --------------===//
#include "pp/Planner/Graph.h"
#include <algorithm>
#include <cmath>

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

std::optional<std::string> Graph::check() const {
  for (const Kernel &kernel : kernels) {
    for (double time : {kernel.forwardTime, kernel.backwardInputTime,
                        kernel.backwardWeightTime})
      if (!std::isfinite(time) || time < 0)
        return "kernel '" + kernel.name + "' has the time " +
               std::to_string(time);
    for (int64_t bytes :
         {kernel.parameterBytes, kernel.savedBytes, kernel.workspaceBytes})
      if (bytes < 0)
        return "kernel '" + kernel.name + "' has the size " +
               std::to_string(bytes);
  }
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
  return std::nullopt;
}
