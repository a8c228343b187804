//===- LossScale.h - What a stage keeps of the loss scale -----------------===//
#ifndef PP_RUNTIME_PROGRAM_LOSSSCALE_H
#define PP_RUNTIME_PROGRAM_LOSSSCALE_H

namespace pp::runtime {

/// The floats at the start of a stage's area `loss_scale`, the same in all
/// stages. The kernel `loss_scale` changes them once in a step.
struct LossScaleState {
  float scale = 1; // of the next step
  /// Since the scale changed or a step was skipped.
  float goodSteps = 0;
  float skippedSteps = 0; // since the start of the training
  float skippedInARow = 0;
  float usedScale = 1; // of the last step: what its gradients are multiplied by

  bool operator==(const LossScaleState &) const = default;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PROGRAM_LOSSSCALE_H
