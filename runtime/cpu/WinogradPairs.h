//===- WinogradPairs.h - Winograd's algorithm in pairs of bf16 --*- C++ -*-===//
//
// F(2x2, 3x3) as in WinogradConvolution.h and WinogradGradient.h, but what is
// transformed is rounded to bf16 and multiplied in pairs, which AMD's
// processors do twice as fast as numbers of f32. Sums are f32.
//
//   a convolution                        a gradient of weights
//                   channels                              tiles
//           tiles ┌──────────┐                  outputs ┌───────┐
//                 │ t t' ... │  x in pairs              │ d d'..│  in pairs of
//                 └──────────┘    of channels           └───────┘  tiles
//
// The rounding costs accuracy: 0.4 % of the norm of what a convolution makes
// (docs/rationale.md).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_WINOGRADPAIRS_H
#define PP_RUNTIME_CPU_WINOGRADPAIRS_H

#include "cpu/WinogradGradient.h"

#include <cstdint>
#include <span>

namespace pp::runtime {

struct ConvEpilogue;

/// What WinogradConvolution is where `Shape::inPairs`.
class WinogradPairConvolution {
public:
  using Shape = WinogradConvolution::Shape;

  explicit WinogradPairConvolution(const Shape &shape) : shape(shape) {}

  /// For each 16 outputs and each point, a row of 16 outputs for each pair of
  /// channels.
  static void transformWeights(const Shape &shape, const uint16_t *weights,
                               WinogradConvolution::Direction direction,
                               uint16_t *to);
  uint64_t getScratchpadBytes() const;
  void run(const uint16_t *x, const uint16_t *weights, const float *bias,
           const ConvEpilogue &epilogue, uint16_t *y, char *scratchpad) const;

private:
  Shape shape;
};

/// What WinogradGradient is where `Shape::inPairs`.
class WinogradPairGradient {
public:
  using Shape = WinogradConvolution::Shape;

  explicit WinogradPairGradient(const Shape &shape) : shape(shape) {}

  /// Whether several micro-batches at once are faster than one by one.
  bool isOfFewTiles() const;
  uint64_t getScratchpadBytes(int64_t microbatches) const;
  /// The first one is written, or added.
  void run(std::span<const GradientFactors> factors, float *gradient,
           bool isAdded, char *scratchpad) const;

private:
  Shape shape;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_WINOGRADPAIRS_H
