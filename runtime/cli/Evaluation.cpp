//===- Evaluation.cpp -----------------------------------------------------===//
#include "cli/Evaluation.h"
#include "support/Error.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <numeric>

using namespace pp::runtime;

InferenceResult pp::runtime::runInference(const Plan &plan, const DataSet &data,
                                          Executor &executor) {
  uint64_t samples = data.getSamples();
  InferenceResult result;
  for (const PlanPort &port : plan.fetches) {
    Array array{port.type, port.shape, {}};
    if (port.batched)
      array.shape[0] = samples;
    array.data.resize(*elementCount(array.shape) * sizeOf(port.type));
    result.fetches.emplace(port.name, std::move(array));
  }
  std::vector<uint64_t> order(samples);
  std::iota(order.begin(), order.end(), 0);
  // Two steps in flight keep the pipeline full from one batch to the next.
  std::deque<Step> pool;
  pool.emplace_back(plan);
  pool.emplace_back(plan);
  uint64_t total = (samples + plan.batch - 1) / plan.batch;
  auto collect = [&](uint64_t index) {
    Step &step = pool[index % 2];
    executor.wait(step);
    uint64_t first = index * plan.batch;
    uint64_t count = std::min<uint64_t>(plan.batch, samples - first);
    for (size_t i = 0; i < plan.fetches.size(); ++i) {
      Array &array = result.fetches[plan.fetches[i].name];
      uint64_t bytes = step.fetches[i].bytesPerSample();
      if (plan.fetches[i].batched)
        step.fetches[i].read(0, count, array.data.data() + first * bytes);
      else if (bytes)
        std::memcpy(array.data.data(), step.fetches[i].at(0), bytes);
    }
  };
  auto start = std::chrono::steady_clock::now();
  for (uint64_t index = 0; index < total; ++index) {
    if (index >= 2)
      collect(index - 2);
    Step &step = pool[index % 2];
    step.number = index + 1;
    data.fill(step, order, index * plan.batch);
    executor.submit(step);
  }
  for (uint64_t index = total >= 2 ? total - 2 : 0; index < total; ++index)
    collect(index);
  result.steps = total;
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return result;
}

template <typename T> static T valueAt(const Array &array, uint64_t index) {
  T value;
  std::memcpy(&value, &array.data[index * sizeof(T)], sizeof(T));
  return value;
}

Metric pp::runtime::evaluate(const Array &output, const Array &target,
                             std::optional<int64_t> ignoreIndex) {
  bool isInteger = target.type == DataType::I64 || target.type == DataType::I32;
  auto isWide = [](const Array &array) {
    return array.type == DataType::F32 || array.type == DataType::F64;
  };
  auto numberAt = [](const Array &array, uint64_t index) {
    return array.type == DataType::F32 ? valueAt<float>(array, index)
                                       : valueAt<double>(array, index);
  };
  if (isWide(output) && isInteger && output.shape.size() >= 2 &&
      output.shape.back() > 0 &&
      std::equal(target.shape.begin(), target.shape.end(), output.shape.begin(),
                 output.shape.end() - 1)) {
    uint64_t classes = output.shape.back();
    uint64_t rows = *elementCount(target.shape), correct = 0, counted = 0;
    for (uint64_t row = 0; row < rows; ++row) {
      int64_t expected = target.type == DataType::I64
                             ? valueAt<int64_t>(target, row)
                             : valueAt<int32_t>(target, row);
      if (expected == ignoreIndex)
        continue;
      uint64_t best = 0;
      for (uint64_t c = 1; c < classes; ++c)
        if (numberAt(output, row * classes + c) >
            numberAt(output, row * classes + best))
          best = c;
      correct += best == uint64_t(expected);
      ++counted;
    }
    return {"accuracy", counted ? double(correct) / counted : 0.0};
  }
  if (isWide(output) && isWide(target) && output.shape == target.shape) {
    uint64_t count = *elementCount(output.shape);
    double sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
      double difference = numberAt(output, i) - numberAt(target, i);
      sum += difference * difference;
    }
    return {"mse", count ? sum / count : 0.0};
  }
  failInput("evaluation: cannot compare an output {} {} with a target {} {}",
            nameOf(output.type), toString(output.shape), nameOf(target.type),
            toString(target.shape));
}
