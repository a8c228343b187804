//===- GradientWindows.h - From sums of tiles to windows --------*- C++ -*-===//
//
// The end of a gradient by Winograd's algorithm, and the blocks that it works
// in. For functions that are compiled for a processor.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_GRADIENTWINDOWS_H
#define PP_RUNTIME_CPU_GRADIENTWINDOWS_H

#include "cpu/MatrixBlocks.h"
#include "cpu/WinogradTiles.h"

#include <algorithm>
#include <array>

namespace pp::runtime::winograd {

/// Outputs and channels whose sums stay in L2 for all points: a matrix for each
/// point.
struct GradientBlock {
  int64_t output, outputs, channel, channels;

  int64_t ofPoint() const { return outputs * channels; }
};

/// The most that such a block has.
struct GradientBlocks {
  int64_t outputs, channels;

  /// Calls `work` with each block.
  template <typename Function>
  void forEach(const Sizes &shape, const Function &work) const {
    for (int64_t output = 0; output < shape.outputs; output += outputs)
      for (int64_t channel = 0; channel < shape.channels; channel += channels)
        work(GradientBlock{output, std::min(outputs, shape.outputs - output),
                           channel,
                           std::min(channels, shape.channels - channel)});
  }
  /// The numbers of all sums, or of those of a block where no later chunk of
  /// tiles adds to them.
  int64_t countSums(const Sizes &shape, bool isOneChunk) const {
    return shape.points() * (isOneChunk ? std::min(outputs, shape.outputs) *
                                              std::min(channels, shape.channels)
                                        : shape.outputs * shape.channels);
  }
};

/// The numbers of 16 windows, 16 of each place, from a row of sums for each
/// point, `ofPoint` apart.
template <int edge>
PP_INLINE void sumWindows(const float *sums, int64_t ofPoint, float *window) {
  constexpr int side = edge + 2;
  Lanes all[side * side], rows[3][side], result[9];
  for (int point = 0; point < side * side; ++point)
    all[point] = load(sums + ofPoint * point);
  for (int64_t j = 0; j < side; ++j)
    Transform<edge>::windowSums(all + j, side, rows[0] + j, side);
  for (int64_t i = 0; i < 3; ++i)
    Transform<edge>::windowSums(rows[i], 1, result + i * 3, 1);
  for (int64_t i = 0; i < 9; ++i)
    store(window + i * lanes, result[i]);
}

/// The gradient of all windows of a block, written or added; `isWide`: with
/// AVX-512.
template <int edge, bool isWide>
PP_INLINE void writeWindowsBody(const Sizes &shape, const GradientBlock &block,
                                const float *sums, float *gradient,
                                bool isAdded) {
  constexpr int64_t most = 128, perLine = 64 / sizeof(float);
  const int64_t rowSize = shape.channels * 9;
  float window[9 * lanes];
  std::array<const float *, 9> places;
  for (int64_t i = 0; i < 9; ++i)
    places[i] = window + i * lanes;
  alignas(64) float line[most * 9];
  for (int64_t row = 0; row < block.outputs; ++row) {
    float *to = gradient + (block.output + row) * rowSize + block.channel * 9;
    // Rows lie too far apart for the processor to expect the next one.
    if (block.output + row + 1 < shape.outputs)
      for (int64_t at = 0; at < block.channels * 9; at += perLine)
        __builtin_prefetch(to + rowSize + at);
    for (int64_t channel = 0; channel < block.channels; channel += lanes) {
      sumWindows<edge>(sums + row * block.channels + channel, block.ofPoint(),
                       window);
      if (isWide)
        writeColumns(places.data(), 9, /*offset=*/0, line + channel * 9);
      else
        for (int64_t lane = 0; lane < lanes; ++lane)
          for (int64_t i = 0; i < 9; ++i)
            line[(channel + lane) * 9 + i] = window[i * lanes + lane];
    }
    for (int64_t at = 0; at < block.channels * 9; ++at)
      to[at] = isAdded ? to[at] + line[at] : line[at];
  }
}

} // namespace pp::runtime::winograd

#endif // PP_RUNTIME_CPU_GRADIENTWINDOWS_H
