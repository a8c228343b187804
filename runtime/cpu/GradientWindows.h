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
#include <limits>

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
  /// The channels for which all outputs come before the next channels.
  int64_t channelsTogether = std::numeric_limits<int64_t>::max();

  /// As many times `channels` as have tiles of all micro-batches in L2.
  static int64_t together(const Sizes &shape, int64_t microbatches,
                          int64_t channels, int64_t numberBytes) {
    constexpr int64_t inL2 = 1 << 19;
    const int64_t ofTiles =
        microbatches * shape.points() * shape.tiles() * numberBytes;
    return std::max(inL2 / ofTiles / channels * channels, channels);
  }

  /// Calls `work` with each block.
  template <typename Function>
  void forEach(const Sizes &shape, const Function &work) const {
    for (int64_t begin = 0; begin < shape.channels;) {
      const int64_t end =
          begin + std::min(channelsTogether, shape.channels - begin);
      for (int64_t output = 0; output < shape.outputs; output += outputs)
        for (int64_t channel = begin; channel < end; channel += channels)
          work(GradientBlock{output, std::min(outputs, shape.outputs - output),
                             channel, std::min(channels, end - channel)});
      begin = end;
    }
  }
  /// The numbers of all sums, or of those of a block where no later chunk of
  /// tiles adds to them.
  int64_t countSums(const Sizes &shape, bool isOneChunk) const {
    return shape.points() * (isOneChunk ? std::min(outputs, shape.outputs) *
                                              std::min(channels, shape.channels)
                                        : shape.outputs * shape.channels);
  }
  /// The numbers that addWindowsBody() keeps of a block.
  int64_t countWindows(int64_t microbatches) const {
    return (microbatches == 1 ? 1 : outputs) * channels * 9;
  }
};

/// Lets the gradient come into the caches.
inline void askForWindows(const Sizes &shape, const GradientBlock &block,
                          const float *gradient) {
  constexpr int64_t perLine = 64 / sizeof(float);
  const int64_t rowSize = shape.channels * 9;
  gradient += block.output * rowSize + block.channel * 9;
  for (int64_t row = 0; row < block.outputs; ++row)
    for (int64_t at = 0; at < block.channels * 9; at += perLine)
      __builtin_prefetch(gradient + row * rowSize + at);
}

/// The numbers of 16 windows, 16 of each place, from a row of sums for each
/// point, `ofPoint` apart.
template <int edge>
PP_INLINE void sumWindows(const float *sums, int64_t ofPoint, Lanes *result) {
  constexpr int side = edge + 2;
  Lanes all[side * side], rows[3][side];
  for (int point = 0; point < side * side; ++point)
    all[point] = load(sums + ofPoint * point);
  for (int64_t j = 0; j < side; ++j)
    Transform<edge>::windowSums(all + j, side, rows[0] + j, side);
  for (int64_t i = 0; i < 3; ++i)
    Transform<edge>::windowSums(rows[i], 1, result + i * 3, 1);
}

/// Which of the micro-batches whose gradients are added to one in one pass.
struct GradientTurn {
  bool isFirst, isLast;
  bool isAdded; // the first one, to what is there; else it is written
};

/// Adds the gradient of all windows of a block for a micro-batch. From the
/// first to the last one they are in `windows`, for each 16 channels 16 numbers
/// of each place. `isWide`: with AVX-512.
template <int edge, bool isWide>
PP_INLINE void addWindowsBody(const Sizes &shape, const GradientBlock &block,
                              const float *sums, const GradientTurn &turn,
                              float *windows, float *gradient) {
  constexpr int64_t perLine = 64 / sizeof(float);
  const int64_t rowSize = shape.channels * 9;
  const bool isOnly = turn.isFirst && turn.isLast;
  std::array<const float *, 9> places;
  for (int64_t row = 0; row < block.outputs; ++row) {
    float *to = gradient + (block.output + row) * rowSize + block.channel * 9;
    float *numbers = windows + (isOnly ? 0 : row * block.channels * 9);
    // Rows lie too far apart for the processor to expect the next one.
    if (turn.isFirst && block.output + row + 1 < shape.outputs)
      for (int64_t at = 0; at < block.channels * 9; at += perLine)
        __builtin_prefetch(to + rowSize + at);
    for (int64_t channel = 0; channel < block.channels; channel += lanes) {
      if (turn.isFirst && turn.isAdded) {
        if (isWide)
          readColumns(to, 9, numbers);
        else
          readWindowsAvx2(to, windowSize, numbers);
      }
      Lanes all[9];
      sumWindows<edge>(sums + row * block.channels + channel, block.ofPoint(),
                       all);
      const bool isSum = !turn.isFirst || turn.isAdded;
      for (int64_t i = 0; i < 9; ++i) {
        float *at = numbers + i * lanes;
        places[i] = at;
        store(at, isSum ? load(at) + all[i] : all[i]);
      }
      if (turn.isLast) {
        if (isWide)
          writeColumns(places.data(), 9, /*offset=*/0, to);
        else
          writeWindowsAvx2(numbers, to);
      }
      to += 9 * lanes;
      numbers += 9 * lanes;
    }
  }
}

} // namespace pp::runtime::winograd

#endif // PP_RUNTIME_CPU_GRADIENTWINDOWS_H
