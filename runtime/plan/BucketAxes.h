//===- BucketAxes.h - Where plans for several sizes differ ------*- C++ -*-===//
#ifndef PP_RUNTIME_PLAN_BUCKETAXES_H
#define PP_RUNTIME_PLAN_BUCKETAXES_H

#include "plan/Plan.h"

#include <map>
#include <span>

namespace pp::runtime {

/// The axes of a model's inputs and outputs that have the dimension that its
/// programs are compiled for several sizes of, found by comparing the plans of
/// two sizes: one of another size has these axes in the same places.
class BucketAxes {
public:
  /// Throws Error(InvalidInput) where a size differs that is not that of the
  /// dimension, so that nothing could be padded or cut, or where the plans are
  /// not those of one model.
  BucketAxes(const Plan &smaller, const Plan &larger);

  using Axes = std::vector<size_t>;
  /// By name; those without such an axis are left out.
  const std::map<std::string, Axes> &ofFeeds() const { return feeds; }
  const std::map<std::string, Axes> &ofFetches() const { return fetches; }

  /// Whether programs with these plans, smallest first, may be in one binary.
  /// The first reason why not, in words.
  static std::optional<std::string>
  findFault(std::span<const std::string> plans);

private:
  std::map<std::string, Axes> feeds, fetches;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_BUCKETAXES_H
