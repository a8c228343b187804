//===- DataSet.h - Arrays that feed a program -----------------------------===//
#ifndef PP_RUNTIME_EXEC_DATASET_H
#define PP_RUNTIME_EXEC_DATASET_H

#include "exec/Normalization.h"
#include "exec/Step.h"
#include "formats/Npy.h"

#include <map>
#include <string>
#include <vector>

namespace pp::runtime {

/// One array per feed of a plan but those of the runtime, checked and converted
/// (i32 to i64, f64 to f32). Immutable afterwards.
class DataSet {
public:
  /// `arrays` by name of the feed. Throws Error(InvalidInput) naming the array,
  /// and, where a class or an index is outside of what the plan takes, the
  /// samples, positions and values of the first ones and how many there are;
  /// an array that no feed wants is an error unless `allowOthers`.
  ///
  /// Arrays of inputs that have a normalization may be bytes, too; they stay
  /// what they are until a step has them.
  DataSet(const Plan &plan, std::map<std::string, Array> arrays,
          bool allowOthers = false, const Normalizations &normalizations = {});

  /// Samples along axis 0 of the batched feeds.
  uint64_t getSamples() const { return samples; }

  /// Fills the feeds and the sample numbers of `step`, whose number and seed
  /// are set, with samples `order[first]`, ... Behind the end of `order` the
  /// last sample is repeated, without a part in the loss.
  void fill(Step &step, const std::vector<uint64_t> &order,
            uint64_t first) const;

  /// The hashArray of each feed, by feed of the plan.
  std::vector<uint64_t> hashFeeds() const;

private:
  void fillLossWeight(PortBuffer &target, const PlanPort &weightPort,
                      const Step &step) const;
  /// Writes into `count` rows of a target what the loss leaves out.
  void ignoreRows(PortBuffer &target, const PlanPort &port, uint64_t first,
                  uint64_t count) const;

  /// One sample of a feed that has a normalization.
  void fillNormalized(PortBuffer &target, size_t feed, uint64_t row,
                      uint64_t sample) const;

  void fillRandomCounter(PortBuffer &target, const Step &step) const;

  const Plan &plan;
  std::vector<Array> feeds;
  std::vector<std::optional<Normalization>> normalized; // by feed
  uint64_t samples = 0;
};

/// Refuses classes and indices that `port` does not take: throws
/// Error(InvalidInput) with the samples, positions and values of the first
/// ones.
void checkIndices(const PlanPort &port, const Array &array);

/// A hash of an array's name, shape and values.
uint64_t hashArray(const std::string &name, const Array &array);

/// Deterministic values for every feed: floats in [-1, 1), any class or token,
/// and 1 where nothing says which integers are valid.
std::map<std::string, Array> syntheticData(const Plan &plan, uint64_t samples);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_DATASET_H
