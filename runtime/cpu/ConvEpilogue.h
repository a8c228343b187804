//===- ConvEpilogue.h - What follows the sums of a forward convolution ----===//
#ifndef PP_RUNTIME_CPU_CONVEPILOGUE_H
#define PP_RUNTIME_CPU_CONVEPILOGUE_H

#include "cpu/Descriptor.h"

#include <cstdint>

namespace pp::runtime {

/// What is added to the sums, before the activation; null where that is not.
struct ConvSummands {
  const float *bias = nullptr;     ///< a number for each output
  const float *residual = nullptr; ///< lies as the result does
};

struct ConvEpilogue {
  enum Activation { None, Relu, Clip };
  bool hasBias = false, hasResidual = false;
  Activation activation = None;
  float low = 0, high = 0; // of Clip

  ConvEpilogue() = default;
  /// Reads the keys `bias`, `residual` and `activation` of docs/plan-format.md.
  explicit ConvEpilogue(Descriptor &descriptor) {
    hasBias = descriptor.getInteger("bias", 0, 1);
    hasResidual =
        descriptor.has("residual") && descriptor.getInteger("residual", 0, 1);
    if (!descriptor.has("activation"))
      return;
    bool isRelu =
        descriptor.getWords("activation", 1, {"relu", "clip"})[0] == "relu";
    activation = isRelu ? Relu : Clip;
    if (isRelu)
      return;
    low = descriptor.getFloat("low");
    high = descriptor.getFloat("high");
    if (low > high)
      throw DescriptorError("low: is more than high");
  }

  bool isEmpty() const {
    return !hasBias && !hasResidual && activation == None;
  }

  bool isBiasAlone() const { return !hasResidual && activation == None; }

  /// The activation, as generated code does it; what is not a number stays so.
  void apply(float *numbers, uint64_t count) const {
    if (activation == Relu)
      for (uint64_t i = 0; i < count; ++i)
        numbers[i] = numbers[i] <= 0 ? 0 : numbers[i];
    else if (activation == Clip)
      for (uint64_t i = 0; i < count; ++i)
        numbers[i] = numbers[i] <= low    ? low
                     : numbers[i] >= high ? high
                                          : numbers[i];
  }
  /// The same for many numbers, which `summands` are added to: a bias for each.
  void finish(float *numbers, const ConvSummands &summands,
              uint64_t count) const;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVEPILOGUE_H
