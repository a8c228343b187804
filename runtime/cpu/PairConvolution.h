//===- PairConvolution.h - Convolutions of few pixels of bf16 ---*- C++ -*-===//
//
// Where a micro-batch has few pixels and many channels, as in the last stages
// of a ResNet, a convolution waits for its weights, which nothing else reads as
// often as once. Here they lie in the order in which they are read, 16 outputs
// of a pair of channels after another, and each 8 KiB of them stay in the
// nearest cache until all pixels have been multiplied by them:
//
//   for 32 outputs                 sums of all pixels (L1)
//    for places of the window
//     for 128 channels             weights (L1), pages ahead asked for
//      for rows of the result      sums += pixels x outputs, in registers
//
// Pixels are read from a copy with zeros around it.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_PAIRCONVOLUTION_H
#define PP_RUNTIME_CPU_PAIRCONVOLUTION_H

#include "cpu/ConvEpilogue.h"
#include "cpu/ImagePlaces.h"

#include <cstdint>

namespace pp::runtime {

/// A number of the result depends on nothing but its sample and output, so
/// parts of either have the bits of the whole.
class PairConvolution {
public:
  struct Shape : WindowSizes {
    int64_t outputs;

    int64_t pixels() const { return samples * countOf(result); }
  };

  /// Whether channels and outputs are multiples of 16 that lie together; only
  /// with hasPairProducts().
  static bool isPossible(const Shape &shape);
  /// Whether this is faster than the library (measured on Zen 5).
  static bool isPreferred(const Shape &shape);

  explicit PairConvolution(const Shape &shape) : shape(shape) {}

  /// Those of outputs x channels x window, dense, in the order in which they
  /// are read; as many bytes. Outputs after outputs.
  static void packWeights(const Shape &shape, const uint16_t *weights,
                          uint16_t *to);
  static uint64_t getWeightBytes(const Shape &shape);

  /// A multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// `x` and `y` have the places of shape.x and shape.dy; `bias`, of f32, may
  /// be null.
  void run(const uint16_t *x, const uint16_t *weights, const float *bias,
           const ConvEpilogue &epilogue, uint16_t *y, void *scratchpad) const;

private:
  ImageAxes paddedImage() const;
  int64_t pitch() const;
  uint64_t imageBytes() const;
  void copyImage(const uint16_t *x, uint16_t *to) const;

  Shape shape;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PAIRCONVOLUTION_H
