//===- Buckets.cpp --------------------------------------------------------===//
#include "cli/Buckets.h"
#include "exec/Padding.h"
#include "support/Error.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>

using namespace pp::runtime;

/// The name and the number of a flag --pad.
static std::pair<std::string, double> readPad(const std::string &text) {
  size_t equals = text.find('=');
  std::string number =
      equals == std::string::npos ? "" : text.substr(equals + 1);
  char *end = nullptr;
  double value = std::strtod(number.c_str(), &end);
  if (equals == 0 || number.empty() || *end || std::isnan(value))
    failUsage("--pad {}: expected NAME=NUMBER", text);
  return {text.substr(0, equals), value};
}

Buckets::Buckets(const pp_binary &binary, bool isTraining,
                 const std::vector<std::string> &pads) {
  for (uint64_t i = 0; i < binary.bucket_count; ++i) {
    const pp_bucket &bucket = binary.buckets[i];
    const pp_pipeline *program =
        isTraining ? bucket.training : bucket.inference;
    programs.push_back(program);
    plans.push_back(Plan::parse({program->plan, program->plan_size}));
    if (!plans.back().bucket ||
        (i > 0 && plans[i].bucket->size <= plans[i - 1].bucket->size))
      failInput("bucket {}: its plan has no size, or not a larger one than "
                "that before it",
                i);
  }
  if (plans.empty()) {
    programs.push_back(isTraining ? binary.training : binary.inference);
    if (!pads.empty())
      failUsage("--pad {}: the model was compiled for one size; several are "
                "given with --dim NAME=SIZE,SIZE",
                pads.front());
    return;
  }
  if (plans.size() > 1) {
    BucketAxes axes(plans[0], plans[1]);
    feeds = axes.ofFeeds();
    fetches = axes.ofFetches();
  }
  for (const std::string &pad : pads) {
    auto [name, value] = readPad(pad);
    if (!feeds.count(name))
      failUsage("--pad {}: no input '{}' has the dimension '{}'", pad, name,
                getDim());
    values[name] = value;
  }
}

Buckets::Fit Buckets::choose(const Arrays &arrays) const {
  if (plans.empty())
    return {programs.front()};
  std::string first;
  int64_t length = 0;
  for (const auto &[name, axes] : feeds) {
    auto it = arrays.find(name);
    if (it == arrays.end())
      continue; // The data set says what is missing.
    for (size_t axis : axes) {
      const Shape &shape = it->second.shape;
      if (axis >= shape.size())
        failInput("data: array '{}' is {}, but axis {} of it is '{}'", name,
                  toString(shape), axis, getDim());
      if (!first.empty() && shape[axis] != length)
        failInput("data: array '{}' has {} of '{}', '{}' has {}", name,
                  shape[axis], getDim(), first, length);
      first = name;
      length = shape[axis];
    }
  }
  for (size_t i = 0; i < plans.size(); ++i)
    if (length <= getLimit(i))
      return {programs[i], i, length, length < getLimit(i)};
  std::vector<int64_t> limits;
  for (size_t i = 0; i < plans.size(); ++i)
    limits.push_back(getLimit(i));
  failInput("data: array '{}' has {} of '{}'; the model was compiled for {}",
            first, length, getDim(), fmt::join(limits, ", "));
}

Buckets::Arrays Buckets::pad(Arrays arrays, size_t number) const {
  if (plans.empty())
    return arrays;
  int64_t size = getLimit(number);
  for (const PlanPort &port : plans[number].feeds) {
    auto axes = feeds.find(port.name);
    auto it = arrays.find(port.name);
    if (axes == feeds.end() || it == arrays.end())
      continue;
    auto given = values.find(port.name);
    double value = given != values.end()
                       ? given->second
                       : static_cast<double>(port.ignoreIndex.value_or(0));
    for (size_t axis : axes->second) {
      if (it->second.shape[axis] == size)
        continue;
      if (port.role == "target" && !port.ignoreIndex)
        failInput("data: '{}' has {} of '{}', and to train with {} it would "
                  "have to be padded; but the loss is of all its elements, "
                  "those of the padding too. Train with cross_entropy, or give "
                  "data that have one of the sizes",
                  port.name, it->second.shape[axis], getDim(), size);
      it->second = resizeAxis(it->second, axis, size, value);
    }
  }
  return arrays;
}

static Buckets::Arrays
cut(Buckets::Arrays arrays,
    const std::map<std::string, BucketAxes::Axes> &axesOf, int64_t length) {
  for (const auto &[name, axes] : axesOf)
    if (auto it = arrays.find(name); it != arrays.end())
      for (size_t axis : axes)
        if (it->second.shape[axis] != length)
          it->second = resizeAxis(it->second, axis, length, 0);
  return arrays;
}

Buckets::Arrays Buckets::cutFeeds(Arrays arrays, int64_t length) const {
  return plans.empty() ? arrays : cut(std::move(arrays), feeds, length);
}

Buckets::Arrays Buckets::cutFetches(Arrays arrays, int64_t length) const {
  return plans.empty() ? arrays : cut(std::move(arrays), fetches, length);
}
