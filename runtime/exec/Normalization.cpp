//===- Normalization.cpp --------------------------------------------------===//
#include "exec/Normalization.h"
#include "support/Error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace pp::runtime;

template <typename T>
static float elementAt(const char *source, uint64_t index) {
  T value;
  std::memcpy(&value, source + index * sizeof(T), sizeof(T));
  return static_cast<float>(value);
}

void Normalization::apply(const char *source, DataType type, float *target,
                          uint64_t count) const {
  auto of = [](const std::vector<float> &values, uint64_t channel,
               float initial) {
    return values.empty() ? initial : values[values.size() == 1 ? 0 : channel];
  };
  for (uint64_t at = 0; at < count; at += inner) {
    uint64_t channel = at / inner % channels;
    float offset = of(mean, channel, 0), divisor = of(deviation, channel, 1);
    for (uint64_t i = at; i < std::min(at + inner, count); ++i) {
      float value = type == DataType::U8 ? elementAt<uint8_t>(source, i)
                                         : elementAt<float>(source, i);
      target[i] = (value * scale - offset) / divisor;
    }
  }
}

/// NAME=NUMBER,NUMBER.
static std::pair<std::string, std::vector<float>>
parse(const std::string &flag, const std::string &text, bool isOne) {
  auto fail = [&](const char *what) {
    failUsage("{} {}: {}", flag, text, what);
  };
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail("expected NAME=NUMBER, with the name of an input");
  std::vector<float> numbers;
  const char *at = text.c_str() + equals + 1;
  while (true) {
    char *end = nullptr;
    float number = std::strtof(at, &end);
    if (end == at || !std::isfinite(number) || (*end && *end != ','))
      fail("expected a number behind the name, or several with commas between");
    numbers.push_back(number);
    if (!*end)
      break;
    at = end + 1;
  }
  if (isOne && numbers.size() != 1)
    fail("there is one scale for all channels");
  return {text.substr(0, equals), std::move(numbers)};
}

Normalizations::Normalizations(const std::vector<std::string> &scales,
                               const std::vector<std::string> &means,
                               const std::vector<std::string> &deviations) {
  for (const std::string &text : scales) {
    auto [name, numbers] = parse("--input-scale", text, /*isOne=*/true);
    byName[name].scale = numbers.front();
  }
  for (const std::string &text : means) {
    auto [name, numbers] = parse("--input-mean", text, /*isOne=*/false);
    byName[name].mean = numbers;
  }
  for (const std::string &text : deviations) {
    auto [name, numbers] = parse("--input-std", text, /*isOne=*/false);
    if (std::ranges::find(numbers, 0.0f) != numbers.end())
      failUsage("--input-std {}: a standard deviation is not 0", text);
    byName[name].deviation = numbers;
  }
}

std::string Normalizations::describe() const {
  std::string text;
  for (const auto &[name, each] : byName)
    text +=
        fmt::format("{}: {} {} {};", name, each.scale,
                    fmt::join(each.mean, ","), fmt::join(each.deviation, ","));
  return text;
}

void Normalizations::requireInputs(const Plan &plan) const {
  for (const auto &[name, each] : byName)
    if (std::none_of(plan.feeds.begin(), plan.feeds.end(),
                     [&](const PlanPort &feed) {
                       return feed.name == name && !feed.isFedByRuntime();
                     }))
      failUsage("--input-scale, --input-mean, --input-std: the model has no "
                "input '{}'",
                name);
}

std::optional<Normalization> Normalizations::find(const PlanPort &feed) const {
  auto found = byName.find(feed.name);
  if (found == byName.end())
    return std::nullopt;
  Normalization each = found->second;
  if (!feed.batched)
    failUsage("--input-scale, --input-mean, --input-std: the input '{}' has no "
              "samples",
              feed.name);
  if (feed.type != DataType::F32 && feed.type != DataType::BF16 &&
      feed.type != DataType::F16)
    failUsage("--input-scale, --input-mean, --input-std: the input '{}' is {}",
              feed.name, nameOf(feed.type));
  uint64_t wanted = std::max(each.mean.size(), each.deviation.size());
  for (const auto *numbers : {&each.mean, &each.deviation})
    if (numbers->size() > 1 && numbers->size() != wanted)
      failUsage("--input-mean, --input-std: '{}' has {} means and {} standard "
                "deviations",
                feed.name, each.mean.size(), each.deviation.size());
  each.channels = each.inner = 1;
  if (wanted <= 1) {
    each.inner = *elementCount(feed.shape);
    return each;
  }
  const Shape &shape = feed.shape;
  size_t axis = shape.size();
  for (size_t candidate : {size_t(1), shape.size() - 1})
    if (axis == shape.size() && candidate < shape.size() && candidate > 0 &&
        static_cast<uint64_t>(shape[candidate]) == wanted)
      axis = candidate;
  if (axis == shape.size())
    failUsage("--input-mean, --input-std: {} numbers for the input '{}', whose "
              "shape is {}: channels are its axis 1, or its last one",
              wanted, feed.name, toString(shape));
  each.channels = wanted;
  for (size_t i = axis + 1; i < shape.size(); ++i)
    each.inner *= static_cast<uint64_t>(shape[i]);
  return each;
}
