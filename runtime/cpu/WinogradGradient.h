//===- WinogradGradient.h - Gradients of 3 x 3 windows in tiles -----------===//
//
// The derivative of WinogradConvolution by its weights, y = A^T m A with
// m = (G w G^T) * (B^T t B), in the same tiles:
//
//   each of the 36 (or 16) numbers is a product of matrices
//                  tiles            channels              channels
//             ┌─────────────┐     ┌──────────┐          ┌──────────┐
//     outputs │  A dY A^T   │ x   │ B^T t B  │ tiles =  │    dU    │ outputs
//             └─────────────┘     └──────────┘          └──────────┘
//
//   and the gradient of a window is G^T dU G.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_WINOGRADGRADIENT_H
#define PP_RUNTIME_CPU_WINOGRADGRADIENT_H

#include "cpu/WinogradConvolution.h"

#include <optional>
#include <span>

namespace pp::runtime {

/// What a gradient of weights is made of: the values and gradients of a
/// micro-batch.
struct GradientFactors {
  const void *x, *dy;
};

/// Computes in f32, with strides and dilations of 1, without groups. A number
/// of the gradient depends on nothing but its output and channel, so parts of
/// outputs have the bits of the whole.
class WinogradGradient {
public:
  /// That of the convolution; y is where its gradient lies.
  using Shape = WinogradConvolution::Shape;

  /// With other tiles of registers than those of this processor, which it must
  /// have, the bits are the same.
  explicit WinogradGradient(const Shape &shape,
                            const ProductTiles &registers = productTiles())
      : shape(shape), registers(registers) {}
  /// Lets `run` add the gradient to what is there.
  void setAdded() { isAdded = true; }

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const { return getScratchpadBytes(1); }
  /// Writes the gradient, or adds it: outputs x channels x 3 x 3, dense.
  /// Channels of x, and of dY, lie together as
  /// WinogradConvolution::channelsTogether() says.
  void run(const void *x, const void *dy, float *gradient,
           void *scratchpad) const;

private:
  friend class WinogradGradientSums;
  using Factors = GradientFactors;

  uint64_t getScratchpadBytes(int64_t microbatches) const;
  void run(std::span<const Factors> factors, float *gradient, bool isAdded,
           void *scratchpad) const;

  Shape shape;
  const ProductTiles &registers;
  bool isAdded = false;
};

/// The same for several micro-batches, whose gradients are added to one, each
/// for itself, in one pass over it: the windows of 16 channels stay in
/// registers until all have been added.
class WinogradGradientSums {
public:
  using Factors = GradientFactors;

  /// For up to `most`; nothing where one at a time is as good.
  static std::optional<WinogradGradientSums> find(const WinogradGradient &one,
                                                  int64_t most);

  int64_t atOnce() const { return most; }
  /// A multiple of 64.
  uint64_t getScratchpadBytes() const { return one.getScratchpadBytes(most); }
  /// With `isFirst`, the first one is written, not added.
  void run(std::span<const Factors> factors, float *gradient, bool isFirst,
           void *scratchpad) const {
    one.run(factors, gradient, !isFirst, scratchpad);
  }

private:
  WinogradGradientSums(const WinogradGradient &one, int64_t most)
      : one(one), most(most) {}

  WinogradGradient one;
  int64_t most;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_WINOGRADGRADIENT_H
