//===- Gradients.h - Prove that every gradient counts once ----------------===//
//
// The gradient of a mini-batch of N samples is the sum of those of its
// micro-batches, each a mean over n_i samples that counts n_i / N.
// Micro-batches may have different numbers of samples: equal weights, or a mean
// over replicas that had different numbers, are wrong then without any other
// sign.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_GRADIENTS_H
#define PP_PLANNER_SCHEDULE_GRADIENTS_H

#include "pp/Planner/Schedule/Collectives.h"

namespace pp::planner {

/// What W multiplies the gradient of a micro-batch with.
struct GradientScale {
  int64_t numerator = 1, denominator = 1;
};

/// n_i / N for the samples (or valid targets) of each micro-batch.
std::vector<GradientScale> gradientScales(const std::vector<int64_t> &samples);

struct GradientProblem {
  /// Samples (or valid targets) of each micro-batch, not all 0.
  std::vector<int64_t> samples;
  /// Per stage, per micro-batch (of other replicas: any). Empty: right.
  std::vector<std::vector<GradientScale>> scales = {};
  std::vector<TiedParameter> tied = {};
};

/// Adds up symbols instead of gradients, action by action, where collectives
/// are sums, and proves of a training schedule: when a stage updates, the
/// gradient of each of its parameters holds every micro-batch of every part
/// that uses the parameter exactly once, from the replica to which it belongs,
/// with the scale n_i / N. (These sum to 1 exactly.) Needs no other proof
/// before. Returns all faults, each with stage and micro-batch. O(stages *
/// microbatches
/// * (1 + tied parameters)).
std::vector<std::string> verifyGradients(const Schedule &schedule,
                                         const GradientProblem &problem);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_GRADIENTS_H
