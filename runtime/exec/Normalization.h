//===- Normalization.h - Inputs as they are stored --------------*- C++ -*-===//
#ifndef PP_RUNTIME_EXEC_NORMALIZATION_H
#define PP_RUNTIME_EXEC_NORMALIZATION_H

#include "formats/Npy.h"
#include "plan/Plan.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pp::runtime {

/// What the numbers of an input are before a model has them: images are stored
/// as bytes, of which (byte * scale - mean) / std is what it wants, with a mean
/// and a standard deviation for each channel (torchvision's ToTensor and
/// Normalize). Computed batch by batch, so that data stay as small as they are.
class Normalization {
public:
  /// To `count` numbers, of bytes or of f32: `inner` numbers of each of the
  /// `channels`, and so on.
  void apply(const char *source, DataType type, float *target,
             uint64_t count) const;

  float scale = 1;
  std::vector<float> mean, deviation; // of all channels, or of each
  uint64_t inner = 1, channels = 1;
};

/// By the names of inputs, from flags NAME=NUMBER[,NUMBER...].
class Normalizations {
public:
  Normalizations() = default;
  /// Throws Error(Usage) for a flag that is malformed.
  Normalizations(const std::vector<std::string> &scales,
                 const std::vector<std::string> &means,
                 const std::vector<std::string> &deviations);

  bool empty() const { return byName.empty(); }
  /// All of it as a text.
  std::string describe() const;
  /// Throws Error(Usage) for an input that the plan does not have.
  void requireInputs(const Plan &plan) const;
  /// That of a feed, if there is one. Throws Error(Usage) where there are not
  /// as many means as it has channels, which are its axis 1, or its last one,
  /// and where it holds whole numbers, or has no samples.
  std::optional<Normalization> find(const PlanPort &feed) const;

private:
  std::map<std::string, Normalization> byName;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_NORMALIZATION_H
