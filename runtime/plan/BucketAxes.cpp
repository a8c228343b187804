//===- BucketAxes.cpp -----------------------------------------------------===//
#include "plan/BucketAxes.h"
#include "support/Error.h"

using namespace pp::runtime;

/// The axes of a port that differ.
static BucketAxes::Axes compare(const char *kind, const PlanPort &small,
                                const PlanPort &large, const PlanBucket &from,
                                const PlanBucket &to) {
  if (small.name != large.name || small.type != large.type ||
      small.shape.size() != large.shape.size())
    failInput("the model has other {}s for {}={}: '{}' {}, not '{}' {}", kind,
              to.dim, to.size, large.name, toString(large.shape), small.name,
              toString(small.shape));
  BucketAxes::Axes axes;
  for (size_t axis = 0; axis < small.shape.size(); ++axis) {
    if (small.shape[axis] == large.shape[axis])
      continue;
    if (small.shape[axis] != from.size || large.shape[axis] != to.size)
      failInput("{} '{}' has {} on axis {} with {}={} and {} with {}={}: what "
                "has another size than the dimension cannot be {}",
                kind, small.name, small.shape[axis], axis, from.dim, from.size,
                large.shape[axis], to.dim, to.size,
                kind == std::string_view("input") ? "padded" : "cut");
    axes.push_back(axis);
  }
  return axes;
}

BucketAxes::BucketAxes(const Plan &smaller, const Plan &larger) {
  auto compareAll = [&](const char *kind, const std::vector<PlanPort> &small,
                        const std::vector<PlanPort> &large,
                        std::map<std::string, Axes> &into) {
    if (small.size() != large.size())
      failInput("the model has {} {}s with {}={}, but {} with {}={}",
                small.size(), kind, smaller.bucket->dim, smaller.bucket->size,
                large.size(), larger.bucket->dim, larger.bucket->size);
    for (size_t i = 0; i < small.size(); ++i)
      if (Axes axes = compare(kind, small[i], large[i], *smaller.bucket,
                              *larger.bucket);
          !axes.empty())
        into[small[i].name] = axes;
  };
  compareAll("input", smaller.feeds, larger.feeds, feeds);
  compareAll("output", smaller.fetches, larger.fetches, fetches);
  if (feeds.empty())
    failInput("no input has the dimension '{}'", smaller.bucket->dim);
}

std::optional<std::string>
BucketAxes::findFault(std::span<const std::string> plans) {
  try {
    for (size_t i = 1; i < plans.size(); ++i)
      (void)BucketAxes(Plan::parse(plans[i - 1]), Plan::parse(plans[i]));
  } catch (const Error &error) {
    return error.what();
  }
  return std::nullopt;
}
