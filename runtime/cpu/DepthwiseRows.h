//===- DepthwiseRows.h - Windows of 16 channels ---------------------------===//
//
// The inner loops of DepthwiseConvolution and DepthwiseGradient. A pixel is 16
// numbers of f32 that lie together, one for each of 16 channels, and a row is
// pixels with zeros around them, so no loop asks where the image ends.
//
//   a segment of two numbers of a window, and three outputs:
//
//      x  ... [ ][a][b][c][d][ ] ...      a number of x is loaded once, for
//                w0 w1                    all outputs that see it
//                   w0 w1
//                      w0 w1
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_DEPTHWISEROWS_H
#define PP_RUNTIME_CPU_DEPTHWISEROWS_H

#include "cpu/ImagePlaces.h"

#include <cstdint>

namespace pp::runtime::depthwise {

/// Channels at a time.
inline constexpr int64_t lanes = 16;
/// Numbers of a window, side by side, that a loop has at most.
inline constexpr int64_t longestSegment = 7;

/// A row of an image, for some blocks of 16 channels.
struct RowPlace {
  const ImagePlaces *places;
  bool isShort;     ///< of bf16
  int64_t channels; ///< of the image; the last block may have less than 16
  int64_t block, blocks;
  int64_t offset; ///< of the row's first pixel, in elements
  int64_t width;  ///< pixels
};

/// Sums of a row of outputs: of each segment, `length` weights, one after the
/// other, times what lies at its offset.
struct Sums {
  const float *in;        ///< what the first output would see at offset 0
  const int64_t *offsets; ///< of the segments, in numbers of f32
  int64_t segments, length;
  int64_t stride;       ///< pixels from output to output
  const float *weights; ///< segments x length x 16
  float *out;
  int64_t outStep; ///< numbers from output to output
  int64_t outputs;
};

/// The gradient of a window from some rows of dY: for each number of a segment,
/// the sum over all pixels of dY of what it sees in x times that of dY.
struct Products {
  const float *x;
  const int64_t *offsets;
  int64_t segments, length;
  int64_t stride;
  int64_t rows, width;       ///< of dY
  int64_t xPitch, gradPitch; ///< from row to row, in numbers
  const float *dy;
  float *sums; ///< segments x length x 16
};

/// What a processor's registers do. All have the same bits.
struct RowLoops {
  /// Makes a row of each block, of width x 16 numbers; those of channels that
  /// there are not become 0. Rows are `pitch` numbers apart.
  void (*readRow)(const void *image, const RowPlace &row, float *to,
                  int64_t pitch);
  /// The other direction; numbers of channels that there are not are left out.
  void (*writeRow)(const float *from, int64_t pitch, const RowPlace &row,
                   void *image);
  /// Makes some pixels into one copy for each channel of a group, `pitch`
  /// numbers apart, the first one where they are: in copy j, each lane has the
  /// number of channel j of its group. Groups have 2, 4 or 8 channels.
  void (*spreadGroups)(float *row, int64_t pixels, int64_t groupChannels,
                       int64_t pitch);
  /// Terms are added up in their order, each with one rounding. With a stride
  /// of 3 or more, segments have one number.
  void (*writeSums)(const Sums &sums);
  /// Adds to the sums.
  void (*addProducts)(const Products &products);
};

extern const RowLoops rowLoopsAvx2, rowLoopsAvx512;

/// Those of this processor, which has AVX2.
const RowLoops &rowLoops();

} // namespace pp::runtime::depthwise

#endif // PP_RUNTIME_CPU_DEPTHWISEROWS_H
