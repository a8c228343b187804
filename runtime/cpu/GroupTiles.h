//===- GroupTiles.h - Sums of a group's channels in registers --*- C++ -*-===//
//
// The inner loops of GroupConvolution. Each number of what windows see is
// broadcast, and multiplied with the weights of 8 or 16 outputs; as many
// pixels at a time as registers have sums for:
//
//     what pixels see, their      weights of 16          sums of 6 pixels
//     channels side by side       outputs, term by term  and 16 outputs
//
//     p0 ─▶ [c0 c1 c2 ...         ┌────────────────┐     ┌────────────────┐
//     p1 ─▶  c0 c1 c2 ...    x    │ w0             │  =  │                │
//      ...                        │ w1             │     │                │
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_GROUPTILES_H
#define PP_RUNTIME_CPU_GROUPTILES_H

#include <cstdint>

namespace pp::runtime {

struct ConvEpilogue;

/// Outputs of a vector.
inline constexpr int64_t groupLanes = 8;

/// Pixels of a row, of some outputs.
struct GroupRow {
  /// What the first pixel sees at offset 0; the next one sees what lies 8
  /// numbers behind.
  const float *from;
  /// Where segments of 8 numbers begin.
  const int64_t *offsets;
  int64_t segments;
  const float *weights;  ///< segments x 8 x outputs
  const float *bias;     ///< of the outputs, or null
  const float *residual; ///< lies as `to` does, or null
  float *to;
  int64_t toStep;   ///< numbers from pixel to pixel
  int64_t toVector; ///< and from 8 outputs to the next 8
  int64_t pixels;
};

/// Writes sums for 1 or 2 vectors of outputs. Each is a chain of fused
/// multiply-adds that begins at 0. Needs AVX2.
void multiplyGroupRow(int64_t vectors, const GroupRow &row,
                      const ConvEpilogue &epilogue);

/// How many vectors of a group's outputs are summed at once, from one of them
/// on.
inline int64_t vectorsFrom(int64_t vector, int64_t vectors) {
  return vectors - vector >= 2 ? 2 : 1;
}

/// The gradient of weights: for some channels at some places of the window, and
/// 8 outputs, the sums over pixels of what these see times dY.
struct GroupProducts {
  /// What the first pixel sees of the first channel at each place; rows of
  /// pixels see what lies `pitch` numbers apart.
  const float *x[3];
  int64_t pitch;
  int64_t rows, pixels;
  const float *dy; ///< rows x pixels x outputs
  float *sums;     ///< channels x outputs
  int64_t ofPlace; ///< numbers from those of a place to the next
};

/// Adds them to `sums`. Each is a chain of fused multiply-adds that begins at
/// 0, from the first pixel to the last. Needs AVX2.
void addGroupProducts(int64_t places, const GroupProducts &products);
/// The most places, and the channels that it makes sums of.
inline constexpr int64_t mostGroupPlaces = 3;
constexpr int64_t groupChannelsAtOnce(int64_t places) {
  return places == 1 ? 8 : 4; // as many as keep a core busy
}

/// Copies 8 channels of pixels that are `step` numbers apart to where they lie
/// side by side. Needs AVX2.
void copyGroupPixels(const float *from, int64_t step, int64_t pixels,
                     float *to);

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_GROUPTILES_H
