//===- Evaluation.cpp -----------------------------------------------------===//
#include "cli/Evaluation.h"
#include "cli/ArrayElements.h"
#include "support/Error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>

using namespace pp::runtime;

/// What has no axis of samples, of the mini-batch of this number: those before
/// it had the same. Not where it draws random numbers, or adds up samples; then
/// `others` names it. Where samples may be mixed, it may have rows of them.
static void takeShared(const Plan &plan, const PlanPort &port, const void *data,
                       uint64_t number, Array &array,
                       std::set<std::string> &others) {
  const bool isOther =
      number > 0 && std::memcmp(array.data.data(), data, port.bytes) != 0;
  const bool mayHaveRows =
      !plan.wholeBatches.empty() &&
      std::any_of(port.shape.begin(), port.shape.end(),
                  [&](int64_t size) { return size % plan.batch == 0; });
  if (isOther && !mayHaveRows)
    others.insert(port.name);
  else if (isOther)
    failInput("infer: output '{}' {} has no axis that is that of the samples, "
              "but is another one for each mini-batch: give {} samples or "
              "fewer at a time",
              port.name, toString(port.shape), plan.batch);
  std::memcpy(array.data.data(), data, port.bytes);
}

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
        takeShared(plan, plan.fetches[i], step.fetches[i].at(0), index, array,
                   result.ofLastBatch);
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

static void restoreSamples(const PlanPort &port, Array &array) {
  auto [axis, outer, inner] = port.samples;
  const Shape &shape = array.shape;
  const int64_t samples = shape[0];
  const bool hasRows = outer * inner > 1;
  // Of a program for several sizes, they have been cut.
  if (hasRows && outer == 1)
    inner = shape[1 + axis];
  else if (hasRows && inner == 1)
    outer = shape[1 + axis];
  // samples x before x outer x inner x behind becomes
  // before x outer x samples x inner x behind.
  auto product = [&](size_t begin, size_t end) {
    return std::accumulate(shape.begin() + begin, shape.begin() + end,
                           int64_t(1), std::multiplies<>());
  };
  const size_t behind = 1 + axis + hasRows;
  const int64_t blocks = product(1, 1 + axis) * outer;
  const uint64_t bytes =
      inner * product(behind, shape.size()) * sizeOf(array.type);
  Shape restored(shape.begin() + 1, shape.begin() + 1 + axis);
  restored.push_back(outer * samples * inner);
  restored.insert(restored.end(), shape.begin() + behind, shape.end());
  if (blocks > 1) {
    std::vector<char> data(array.data.size());
    for (int64_t sample = 0; sample < samples; ++sample)
      for (int64_t block = 0; block < blocks; ++block)
        std::copy_n(array.data.data() + (sample * blocks + block) * bytes,
                    bytes, data.data() + (block * samples + sample) * bytes);
    std::copy(data.begin(), data.end(), array.data.data());
  }
  array.shape = std::move(restored);
}

void pp::runtime::restoreSamples(const Plan &plan,
                                 std::map<std::string, Array> &fetches) {
  for (const PlanPort &port : plan.fetches)
    if (auto found = fetches.find(port.name);
        found != fetches.end() && port.samples != PlanPort::Samples{})
      ::restoreSamples(port, found->second);
}

const std::vector<std::string> pp::runtime::metricNames = {
    "accuracy", "top5", "f1", "cross_entropy", "perplexity", "mse", "mae"};

static bool isWide(const Array &array) {
  return array.type == DataType::F32 || array.type == DataType::F64;
}

static bool isInteger(const Array &array) {
  return array.type == DataType::I64 || array.type == DataType::I32;
}

static bool areClasses(const Array &output, const Array &target) {
  return isWide(output) && isInteger(target) && output.shape.size() >= 2 &&
         output.shape.back() > 0 &&
         std::equal(target.shape.begin(), target.shape.end(),
                    output.shape.begin(), output.shape.end() - 1);
}

static bool areNumbers(const Array &output, const Array &target) {
  return isWide(output) && isWide(target) && output.shape == target.shape;
}

[[noreturn]] static void failToCompare(const Array &output,
                                       const Array &target) {
  failInput("evaluation: cannot compare an output {} {} with a target {} {}",
            nameOf(output.type), toString(output.shape), nameOf(target.type),
            toString(target.shape));
}

namespace {
/// Rows of logits beside the numbers of classes.
class Classes {
public:
  Classes(const Array &output, const Array &target,
          std::optional<int64_t> ignoreIndex)
      : output(output), classes(output.shape.back()) {
    for (uint64_t row = 0; row < *elementCount(target.shape); ++row) {
      int64_t label = target.type == DataType::I64
                          ? valueAt<int64_t>(target, row)
                          : valueAt<int32_t>(target, row);
      if (label == ignoreIndex)
        continue;
      if (label < 0 || uint64_t(label) >= classes)
        failInput("evaluation: a target is {}, but there are {} classes", label,
                  classes);
      rows.push_back(row);
      labels.push_back(static_cast<uint64_t>(label));
    }
  }

  double top(uint64_t k) const {
    uint64_t correct = 0;
    for (size_t i = 0; i < rows.size(); ++i)
      correct += rankOf(i) < k;
    return mean(static_cast<double>(correct));
  }
  double crossEntropy() const {
    double sum = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      double most = -HUGE_VAL, total = 0;
      for (uint64_t c = 0; c < classes; ++c)
        most = std::max(most, at(i, c));
      for (uint64_t c = 0; c < classes; ++c)
        total += std::exp(at(i, c) - most);
      sum += most + std::log(total) - at(i, labels[i]);
    }
    return mean(sum);
  }
  double f1() const {
    std::vector<uint64_t> right(classes), found(classes), wanted(classes);
    for (size_t i = 0; i < rows.size(); ++i) {
      uint64_t best = 0;
      for (uint64_t c = 1; c < classes; ++c)
        if (at(i, c) > at(i, best))
          best = c;
      ++found[best];
      ++wanted[labels[i]];
      right[best] += best == labels[i];
    }
    double sum = 0;
    uint64_t count = 0;
    for (uint64_t c = 0; c < classes; ++c) {
      if (found[c] + wanted[c] == 0)
        continue;
      sum += 2.0 * static_cast<double>(right[c]) /
             static_cast<double>(found[c] + wanted[c]);
      ++count;
    }
    return count ? sum / static_cast<double>(count) : 0;
  }

private:
  double at(size_t i, uint64_t c) const {
    return numberAt(output, rows[i] * classes + c);
  }
  /// How many classes come before the label; of equal ones the first counts.
  uint64_t rankOf(size_t i) const {
    uint64_t rank = 0;
    double own = at(i, labels[i]);
    for (uint64_t c = 0; c < classes; ++c)
      rank += at(i, c) > own || (at(i, c) == own && c < labels[i]);
    return rank;
  }
  double mean(double sum) const {
    return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
  }

  const Array &output;
  uint64_t classes;
  std::vector<uint64_t> rows, labels;
};
} // namespace

/// The K of topK; accuracy is top1.
static std::optional<uint64_t> parseTop(const std::string &name) {
  if (name == "accuracy")
    return 1;
  uint64_t k = 0;
  const char *end = name.data() + name.size();
  if (!name.starts_with("top"))
    return std::nullopt;
  auto [last, code] = std::from_chars(name.data() + 3, end, k);
  return code == std::errc() && last == end && k > 0 ? std::optional(k)
                                                     : std::nullopt;
}

bool pp::runtime::isHigherBetter(const std::string &name) {
  return parseTop(name) || name == "f1";
}

/// The mean of a function of the differences.
template <typename Work>
static double meanDifference(const Array &output, const Array &target,
                             Work work) {
  uint64_t count = *elementCount(output.shape);
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i)
    sum += work(numberAt(output, i) - numberAt(target, i));
  return count ? sum / static_cast<double>(count) : 0;
}

std::vector<Metric>
pp::runtime::evaluate(const Array &output, const Array &target,
                      std::optional<int64_t> ignoreIndex,
                      const std::vector<std::string> &names) {
  bool hasClasses = areClasses(output, target);
  if (!hasClasses && !areNumbers(output, target))
    failToCompare(output, target);
  std::optional<Classes> classes;
  if (hasClasses)
    classes.emplace(output, target, ignoreIndex);
  std::vector<Metric> metrics;
  for (const std::string &name : names) {
    std::optional<uint64_t> top = parseTop(name);
    bool isNumeric = name == "mse" || name == "mae";
    if (!top && !isNumeric && name != "f1" && name != "cross_entropy" &&
        name != "perplexity")
      failUsage("--metrics: there is no '{}'; there are {}", name,
                fmt::join(metricNames, ", "));
    if (isNumeric == hasClasses)
      failUsage("--metrics: '{}' is not for targets {} {}", name,
                nameOf(target.type), toString(target.shape));
    double value = 0;
    if (top)
      value = classes->top(*top);
    else if (name == "f1")
      value = classes->f1();
    else if (name == "cross_entropy")
      value = classes->crossEntropy();
    else if (name == "perplexity")
      value = std::exp(classes->crossEntropy());
    else if (name == "mse")
      value = meanDifference(output, target, [](double d) { return d * d; });
    else
      value =
          meanDifference(output, target, [](double d) { return std::abs(d); });
    metrics.push_back({name, value});
  }
  return metrics;
}

Metric pp::runtime::evaluate(const Array &output, const Array &target,
                             std::optional<int64_t> ignoreIndex) {
  std::string name = areClasses(output, target) ? "accuracy" : "mse";
  return evaluate(output, target, ignoreIndex, {name}).front();
}

std::string pp::runtime::describe(const std::vector<Metric> &metrics) {
  std::string text;
  for (const Metric &metric : metrics)
    text += fmt::format("{}\"{}\":{:.6g}", text.empty() ? "" : ",", metric.name,
                        metric.value);
  return text;
}
