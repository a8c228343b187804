//===- PixelRows.h - Convolutions as products, a row per pixel --*- C++ -*-===//
//
// The matrix on the left of a product that is a convolution, or the gradient of
// its image: what each pixel sees, by places of the window and channels, copied
// where it does not lie so. ConvPixelProduct.h has a drawing. Where holes of
// the window are as large as the image, many see nothing but padding at most
// places: then each place has a product of its own, of those that see the image
// there.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_PIXELROWS_H
#define PP_RUNTIME_CPU_PIXELROWS_H

#include "cpu/ConvDirection.h"
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvShape.h"
#include "cpu/TiledProduct.h"

#include <algorithm>

namespace pp::runtime {

/// What is read, x or dY, and what is written of it, y or dX.
///
/// A part has some of the rows, and some of the channels that are written.
class PixelRows {
public:
  using Range = KernelBuilder::Range;

  PixelRows(const ConvShape &whole, ConvDirection direction)
      : direction(direction), samples(whole.src.dims()[0]),
        window(KernelBuilder::imageAxes(whole.weights.dims(), 2, 1)),
        from(isForward() ? whole.src : whole.dst),
        to(isForward() ? whole.dst : whole.src),
        isPacked(whole.packedBytes != 0) {
    const ImageAxes strides = KernelBuilder::imageAxes(whole.strides, 0, 1),
                    dilations = KernelBuilder::imageAxes(whole.dilations, 0, 0),
                    padding = KernelBuilder::imageAxes(whole.padLow, 0, 0);
    for (size_t axis = 0; axis < steps.size(); ++axis) {
      steps[axis] = strides[axis];
      begin[axis] = isForward() ? -padding[axis] : padding[axis];
      distances[axis] = (dilations[axis] + 1) * (isForward() ? 1 : -1);
    }
    areByPlaces = seesLittle();
  }

  struct Image {
    explicit Image(const KernelBuilder::MemoryDesc &desc)
        : places(KernelBuilder::imagePlaces(desc)),
          extents(KernelBuilder::imageAxes(desc.dims(), 2, 1)),
          channels(desc.dims()[1]) {
      // Of one channel, or one pixel, all layouts are the same.
      if (channels == 1 || pixels() == 1)
        places.block = places.blockChannels = 1;
      if (pixels() == 1)
        places.axes.fill(channels);
    }
    int64_t pixels() const { return countOf(extents); }
    /// Where a pixel is, in elements.
    int64_t placeOf(int64_t sample, const ImageAxes &at) const {
      return sample * places.sample + at[0] * places.axes[0] +
             at[1] * places.axes[1] + at[2] * places.axes[2];
    }
    ImagePlaces places;
    ImageAxes extents;
    int64_t channels;
  };
  const Image &read() const { return from; }
  const Image &written() const { return to; }
  int64_t rows() const { return samples * to.pixels(); }
  int64_t terms() const { return countOf(window) * from.channels; }
  bool isOfSinglePlaces() const { return countOf(window) == 1; }
  /// Whether weights that are not packed are those of the copies, place by
  /// place and channel by channel.
  bool areWeightsInOrder() const {
    return isOfSinglePlaces() || (from.channels == 1 && isForward());
  }
  /// Takes weights as packWeights() leaves them.
  void setPacked() { isPacked = true; }
  bool hasStrides() const { return countOf(steps) != 1; }

  /// Whether each place of the window has a product of its own.
  bool isByPlaces() const { return areByPlaces; }

  /// How many rows are multiplied at a time: of many, those whose copies a
  /// cache has.
  int64_t rowsAtOnce() const {
    constexpr int64_t fewest = 60, fewestSeen = 256, numbers = 96 << 10;
    return std::min(rows(), std::max(isByPlaces() ? fewestSeen : fewest,
                                     numbers / termsAtOnce()));
  }

  /// Of some of the channels that are written, and so many rows; by places one
  /// of them, whose result is dense.
  TiledProduct makeProduct(Range channels, int64_t count) const {
    const bool areRows = isForward();
    const int64_t own = termsAtOnce();
    const int64_t pitch = isByPlaces() ? channels.count : resultPitch(channels);
    TiledProduct product(
        {}, count, own, channels.count, {DataType::F32, own, 1, {}},
        {DataType::F32, areRows ? 1 : to.channels, areRows ? terms() : 1, {}},
        {DataType::F32, pitch, 1, {}}, /*isAdded=*/false);
    if (isPacked)
      product.setPacked();
    return product;
  }
  /// The first weight of these channels, for makeProduct().
  int64_t weightsOf(Range channels) const {
    const bool areRows = isPacked || isForward();
    return channels.begin * (areRows ? termsAtOnce() : 1);
  }
  /// By places: from the weights of one to those of the next.
  int64_t weightsOfPlace() const { return to.channels * from.channels; }
  int64_t places() const { return countOf(window); }
  uint64_t getPackedBytes() const {
    return makeProduct({0, to.channels}, rows()).getPackedBytes() *
           (isByPlaces() ? places() : 1);
  }

  uint64_t copyBytes() const {
    return isInPlace() ? 0
                       : alignUp(rowsAtOnce() * termsAtOnce() * sizeof(float));
  }
  uint64_t resultBytes(Range channels) const {
    return isWrittenInPlace()
               ? 0
               : alignUp(rowsAtOnce() * channels.count * sizeof(float));
  }
  /// What some pixels see, a row for each: x itself, or a copy.
  const float *readRows(const float *x, Range some, float *copy) const;
  /// What those of some pixels that see the image at a place see there. Writes
  /// which these are, of `some`, and returns how many.
  int64_t readPlace(const float *x, Range some, int64_t place, float *copy,
                    int64_t *seeing) const;
  /// Where the product writes these rows: y itself, or other memory.
  float *placeRows(float *y, Range some, Range channels, float *other) const {
    return isWrittenInPlace()
               ? y + some.begin * to.places.axes[2] + channels.begin
               : other;
  }
  /// Writes these rows to where they belong, if they are not there.
  void writeRows(Range some, Range channels, const ConvEpilogue &epilogue,
                 const float *bias, const float *residual, float *product,
                 float *y) const;

  void packWeights(Range channels, const float *weights, float *packed) const;

  /// From row to row of what placeRows() returns.
  int64_t resultPitch(Range channels) const {
    return isWrittenInPlace() ? to.places.axes[2] : channels.count;
  }

private:
  bool isForward() const { return direction == ConvDirection::Forward; }
  /// Whether the rows are x as it lies.
  bool isInPlace() const {
    return isOfSinglePlaces() && from.places.isChannelsLast() &&
           from.extents == to.extents && begin == ImageAxes{0, 0, 0};
  }
  bool isWrittenInPlace() const { return to.places.isChannelsLast(); }
  int64_t termsAtOnce() const { return isByPlaces() ? from.channels : terms(); }
  ImageAxes seenAt(const ImageAxes &at, const ImageAxes &place) const {
    ImageAxes seen;
    for (size_t axis = 0; axis < seen.size(); ++axis)
      seen[axis] =
          begin[axis] + at[axis] * steps[axis] + place[axis] * distances[axis];
    return seen;
  }
  bool seesLittle() const;
  void copyPixel(const float *pixel, float *row) const;
  /// A panel of packed weights, of 16 channels from `first` on; the others need
  /// AVX-512, and whole blocks of 16 channels.
  void packPanel(int64_t first, const float *weights, float *panel) const;
  void packOutputs(int64_t first, const float *weights, float *panel) const;
  void packChannels(int64_t first, const float *weights, float *panel) const;

  ConvDirection direction;
  int64_t samples;
  ImageAxes window;
  Image from, to;
  bool isPacked, areByPlaces = false;
  /// A pixel sees, at a place of the window, the pixel
  /// begin + its coordinates * steps + the place's * distances.
  ImageAxes steps, begin, distances;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PIXELROWS_H
