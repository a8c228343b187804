//===- WinogradConvolution.h - 3 x 3 convolutions in tiles ----------------===//
//
// Winograd's F(2x2, 3x3) and F(4x4, 3x3) (Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks", arXiv 1509.09308, sections 4.1 and 4.3): four
// pixels of the result take 16 multiplications instead of 36, or 16 pixels 36
// instead of 144.
//
//   x: 4 x 4 pixels             each of the 16 numbers      y: 2 x 2 pixels
//   that overlap by two         is a product of matrices
//    ┌───┬───┐                              outputs           ┌─┬─┐
//    │ t │   │  B^T t B         tiles   ┌─────────────┐ A^T m A ├─┼─┤
//    ├───┼───┤ ───────▶     x channels  │ U = G w G^T │ ──────▶ └─┴─┘
//    └───┴───┘                          └─────────────┘
//
// The weights of F(4x4, 3x3) take four times the memory of those of the
// convolution, and its tiles fit small images badly: for one of 14 x 14 pixels
// it computes 16 x 16, in products of 16 rows. With tiles of 2 x 2 they have 49
// rows, and errors of rounding are smaller.
//
// The library has F(4x4, 3x3) in f32. Here, x and y may be bf16, which is
// widened before it is transformed: transformed numbers are not rounded to
// sixteen bits, so the result is as exact as the direct algorithm's. Unless
// they are pairs (WinogradPairs.h).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_WINOGRADCONVOLUTION_H
#define PP_RUNTIME_CPU_WINOGRADCONVOLUTION_H

#include "cpu/ConvDirection.h"
#include "cpu/ImagePlaces.h"
#include "cpu/ProductTiles.h"

#include <cstdint>

namespace pp::runtime {

struct ConvEpilogue;
struct ConvSummands;

/// Computes in f32, with strides and dilations of 1, without groups. A number
/// of y depends on nothing but its tile and its output, so parts of tiles or of
/// outputs have the bits of the whole.
class WinogradConvolution {
public:
  struct Shape {
    int64_t samples, channels, outputs;
    int64_t height, width; // of x
    int64_t rows, columns; // of y
    int64_t padTop, padLeft;
    ImagePlaces x, y;
    int64_t edge = 2;     // of a tile of y: 2 or 4
    bool isShort = false; // x, weights and y are bf16, else f32
    /// As WinogradPairs.h says; of bf16, with tiles of 2.
    bool inPairs = false;

    int64_t points() const { return (edge + 2) * (edge + 2); }
    int64_t tileRows() const { return (rows + edge - 1) / edge; }
    int64_t tileColumns() const { return (columns + edge - 1) / edge; }
    int64_t tiles() const { return samples * tileRows() * tileColumns(); }

    /// Of a part: the first of its tiles, and the one behind its last; 0, all.
    int64_t begin = 0, end = 0;
    int64_t lastTile() const { return end == 0 ? tiles() : end; }
  };

  /// Weights of channels x 3 x 3 numbers for each output. The gradient of a
  /// convolution's input is a convolution too: its outputs are the channels,
  /// its channels the outputs, and its windows lie from the last number to the
  /// first.
  using Direction = ConvDirection;

  /// Of channels and outputs.
  static constexpr int64_t multiple = 16;

  /// How many channels of a pixel must lie together in x and y.
  static int64_t channelsTogether();

  /// Whether the processor has the instructions, and channels and outputs are
  /// multiples of 16.
  static bool isPossible(const Shape &shape);

  /// With other tiles of registers than those of this processor, which it must
  /// have, the bits are the same; so for transformWeights().
  explicit WinogradConvolution(const Shape &shape,
                               const ProductTiles &registers = productTiles())
      : shape(shape), registers(registers) {}

  /// What transformWeights() writes: for each 16 outputs, a matrix for each
  /// point, with a row for each channel, or for each pair of them.
  static uint64_t getWeightBytes(const Shape &shape) {
    return shape.points() * shape.channels * shape.outputs *
           (shape.inPairs ? sizeof(uint16_t) : sizeof(float));
  }
  static void transformWeights(const Shape &shape, const void *weights,
                               Direction direction, void *to,
                               const ProductTiles &registers = productTiles());

  /// Of run(); a multiple of 64.
  uint64_t getScratchpadBytes() const;
  /// `weights` are transformed. Channels of x, and of y, lie together as
  /// channelsTogether() says.
  /// A residual is only added to f32.
  void run(const void *x, const void *weights, const ConvSummands &summands,
           const ConvEpilogue &epilogue, void *y, void *scratchpad) const;

private:
  Shape shape;
  const ProductTiles &registers;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_WINOGRADCONVOLUTION_H
