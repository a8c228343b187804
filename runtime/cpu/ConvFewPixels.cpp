//===- ConvFewPixels.cpp --------------------------------------------------===//
#include "cpu/ConvFewPixels.h"
#include "cpu/ConvTensors.h"
#include "cpu/PackedWeights.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"
#include "cpu/TransposeRows.h"

#include <algorithm>
#include <array>
#include <cstring>

using namespace pp::runtime;

using Type = KernelBuilder::Type;
using Range = KernelBuilder::Range;

/// Channels of an image that lie together in any of its layouts.
static constexpr int64_t together = 16;
static_assert(together == panelColumns);

namespace {
/// What is read, x or dY, and what is written of it, y or dX.
class FewPixels {
public:
  FewPixels(const ConvShape &whole, ConvDirection direction)
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
  }

  struct Image {
    explicit Image(const KernelBuilder::MemoryDesc &desc)
        : places(KernelBuilder::imagePlaces(desc)),
          extents(KernelBuilder::imageAxes(desc.dims(), 2, 1)),
          channels(desc.dims()[1]) {}
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
  bool hasStrides() const { return countOf(steps) != 1; }

  /// Of some of the channels that are written.
  TiledProduct makeProduct(Range channels) const {
    const bool areRows = isForward();
    TiledProduct product(
        {}, rows(), terms(), channels.count, {DataType::F32, terms(), 1, {}},
        {DataType::F32, areRows ? 1 : to.channels, areRows ? terms() : 1, {}},
        {DataType::F32, resultPitch(channels), 1, {}}, /*isAdded=*/false);
    if (isPacked)
      product.setPacked();
    return product;
  }
  /// The first weight of these channels, for makeProduct().
  int64_t weightsOf(Range channels) const {
    const bool areRows = isPacked || isForward();
    return channels.begin * (areRows ? terms() : 1);
  }

  uint64_t copyBytes() const {
    return isInPlace() ? 0 : alignUp(rows() * terms() * sizeof(float));
  }
  uint64_t resultBytes(Range channels) const {
    return to.places.isChannelsLast()
               ? 0
               : alignUp(rows() * channels.count * sizeof(float));
  }
  /// What the pixels see, a row for each: x itself, or a copy.
  const float *readRows(const float *x, float *copy) const;
  /// Writes rows of the product to where they belong, if they are not there.
  void writeRows(Range channels, const ConvEpilogue &epilogue,
                 const float *bias, const float *residual, float *product,
                 float *y) const;

  void packWeights(Range channels, const float *weights, float *packed) const;

private:
  bool isForward() const { return direction == ConvDirection::Forward; }
  /// Whether the rows are x as it lies.
  bool isInPlace() const {
    return isOfSinglePlaces() && from.places.isChannelsLast() &&
           from.extents == to.extents && begin == ImageAxes{0, 0, 0};
  }
  int64_t resultPitch(Range channels) const {
    return to.places.isChannelsLast() ? to.places.axes[2] : channels.count;
  }
  void copyPixel(const float *pixel, float *row) const;
  void packOutputs(int64_t first, const float *weights, float *panel) const;
  void packChannels(int64_t first, const float *weights, float *panel) const;

  ConvDirection direction;
  int64_t samples;
  ImageAxes window;
  Image from, to;
  bool isPacked;
  /// A pixel sees, at a place of the window, the pixel
  /// begin + its coordinates * steps + the place's * distances.
  ImageAxes steps, begin, distances;
};
} // namespace

void FewPixels::copyPixel(const float *pixel, float *row) const {
  if (from.places.isChannelsLast()) {
    std::memcpy(row, pixel, from.channels * sizeof(float));
    return;
  }
  for (int64_t channel = 0; channel < from.channels; channel += together)
    std::memcpy(row + channel, pixel + from.places.offsetOfChannel(channel),
                together * sizeof(float));
}

const float *FewPixels::readRows(const float *x, float *copy) const {
  if (isInPlace())
    return x;
  float *row = copy;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t pixel = 0; pixel < to.pixels(); ++pixel) {
      const ImageAxes at = splitIndex(pixel, to.extents);
      for (int64_t index = 0; index < countOf(window);
           ++index, row += from.channels) {
        const ImageAxes place = splitIndex(index, window);
        ImageAxes seen;
        bool isInside = true;
        for (size_t axis = 0; axis < seen.size(); ++axis) {
          seen[axis] = begin[axis] + at[axis] * steps[axis] +
                       place[axis] * distances[axis];
          isInside &= seen[axis] >= 0 && seen[axis] < from.extents[axis];
        }
        if (isInside)
          copyPixel(x + from.placeOf(sample, seen), row);
        else
          std::memset(row, 0, from.channels * sizeof(float));
      }
    }
  return copy;
}

void FewPixels::writeRows(Range channels, const ConvEpilogue &epilogue,
                          const float *bias, const float *residual,
                          float *product, float *y) const {
  const bool isThere = to.places.isChannelsLast();
  if (isThere && epilogue.isEmpty())
    return;
  const int64_t atOnce = isThere ? channels.count : together;
  const int64_t pitch = resultPitch(channels);
  for (int64_t row = 0; row < rows(); ++row)
    for (int64_t first = 0; first < channels.count; first += atOnce) {
      const int64_t channel = channels.begin + first;
      const int64_t place =
          to.placeOf(row / to.pixels(),
                     splitIndex(row % to.pixels(), to.extents)) +
          to.places.offsetOfChannel(channel);
      float *numbers = product + row * pitch + first;
      if (!epilogue.isEmpty())
        epilogue.finish(numbers,
                        {bias ? bias + channel : nullptr,
                         residual ? residual + place : nullptr},
                        atOnce);
      if (!isThere)
        std::memcpy(y + place, numbers, atOnce * sizeof(float));
    }
}

/// Reads up to 16 numbers of each of 16 rows and turns them.
__attribute__((target("avx512f"))) static LaneRows
readColumns(const float *from, int64_t rowStride, int64_t count) {
  LaneRows rows;
  const auto mask = static_cast<__mmask16>((1U << count) - 1);
  for (int64_t lane = 0; lane < together; ++lane)
    rows[lane] = _mm512_maskz_loadu_epi32(mask, from + lane * rowStride);
  transposeRows(rows);
  return rows;
}

/// Outputs x channels x window: 16 outputs, which are whole rows.
__attribute__((target("avx512f"))) void
FewPixels::packOutputs(int64_t first, const float *weights,
                       float *panel) const {
  const int64_t places = countOf(window);
  for (int64_t term = 0; term < terms(); term += together) {
    const LaneRows columns =
        readColumns(weights + first * terms() + term, terms(), together);
    for (int64_t i = 0; i < together; ++i) {
      const int64_t channel = (term + i) / places, place = (term + i) % places;
      _mm512_storeu_si512(
          panel + (place * from.channels + channel) * panelColumns, columns[i]);
    }
  }
}

/// The same of 16 channels, each of whose windows is a row.
__attribute__((target("avx512f"))) void
FewPixels::packChannels(int64_t first, const float *weights,
                        float *panel) const {
  const int64_t places = countOf(window);
  for (int64_t output = 0; output < from.channels; ++output)
    for (int64_t place = 0; place < places; place += together) {
      const int64_t count = std::min(together, places - place);
      const LaneRows columns =
          readColumns(weights + (output * to.channels + first) * places + place,
                      places, count);
      for (int64_t i = 0; i < count; ++i)
        _mm512_storeu_si512(panel + ((place + i) * from.channels + output) *
                                        panelColumns,
                            columns[i]);
    }
}

void FewPixels::packWeights(Range channels, const float *weights,
                            float *packed) const {
  packed += channels.begin * terms();
  if (isOfSinglePlaces())
    return makeProduct(channels).packColumns(
        weights + channels.begin * (isForward() ? terms() : 1), packed);
  for (int64_t first = 0; first < channels.count; first += panelColumns) {
    float *panel = packed + first * terms();
    if (isForward())
      packOutputs(channels.begin + first, weights, panel);
    else
      packChannels(channels.begin + first, weights, panel);
  }
}

bool pp::runtime::packsForFewPixels(Descriptor &descriptor,
                                    KernelBuilder &builder,
                                    ConvDirection direction) {
  // As many as a product reads ahead for, and weights that are not in the
  // second cache (measured on Cascade Lake and Emerald Rapids, where the
  // library is faster otherwise).
  constexpr int64_t fewest = 6, most = 60;
  constexpr size_t largeWeights = 1 << 20;
  const ConvShape whole(descriptor, builder, Division::None);
  if (!hasAvx512() || !TiledProduct::isPreferred(DataType::F32) ||
      whole.groups != 1 || whole.weights.data_type() != Type::f32 ||
      whole.src.data_type() != Type::f32 ||
      whole.dst.data_type() != Type::f32 ||
      whole.algorithm != dnnl::algorithm::convolution_direct ||
      whole.tileEdge != 0 || whole.weights.get_size() < largeWeights)
    return false;
  const FewPixels few(whole, direction);
  const bool isForward = direction == ConvDirection::Forward;
  return (isForward || !few.hasStrides()) && few.rows() >= fewest &&
         few.rows() <= most && few.read().channels % together == 0 &&
         few.written().channels % together == 0 &&
         few.read().places.hasTogether(together) &&
         few.written().places.hasTogether(together);
}

bool pp::runtime::isOfFewPixels(Descriptor &descriptor, KernelBuilder &builder,
                                ConvDirection direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  // Larger windows have their places in another order than the copies.
  const bool isReadable =
      whole.packedBytes != 0 ||
      countOf(KernelBuilder::imageAxes(whole.weights.dims(), 2, 1)) == 1;
  return isReadable && packsForFewPixels(descriptor, builder, direction);
}

/// The channels of this part.
static Range shareChannels(const FewPixels &few, KernelBuilder &builder) {
  const int64_t channels = few.written().channels;
  return builder.isWhole() ? Range{0, channels}
                           : builder.share(channels, panelColumns);
}

uint64_t pp::runtime::measurePackedFewPixels(const ConvShape &whole,
                                             ConvDirection direction) {
  const FewPixels few(whole, direction);
  return few.makeProduct({0, few.written().channels}).getPackedBytes();
}

void pp::runtime::buildFewPixels(const ConvShape &whole,
                                 ConvDirection direction,
                                 const ConvEpilogue &epilogue,
                                 KernelBuilder &builder) {
  const FewPixels few(whole, direction);
  if (whole.packedBytes != 0)
    demandPacked(measurePackedFewPixels(whole, direction), whole.packedBytes);
  const Range channels = shareChannels(few, builder);
  const TiledProduct product = few.makeProduct(channels);
  const int residual = epilogue.hasBias ? 3 : 2;
  const int result = epilogue.hasResidual ? residual + 1 : residual;
  builder.setFunction(
      describeTensors(whole, direction, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto at = [&](int tensor) {
          return static_cast<float *>(tensors[tensor]);
        };
        auto *copy = static_cast<char *>(scratchpad);
        char *rows = copy + few.copyBytes();
        char *rest = rows + few.resultBytes(channels);
        float *y = few.resultBytes(channels) == 0
                       ? at(result) + channels.begin
                       : reinterpret_cast<float *>(rows);
        product.run(few.readRows(at(0), reinterpret_cast<float *>(copy)),
                    at(1) + few.weightsOf(channels), y, rest);
        few.writeRows(channels, epilogue, epilogue.hasBias ? at(2) : nullptr,
                      epilogue.hasResidual ? at(residual) : nullptr, y,
                      at(result));
      },
      few.copyBytes() + few.resultBytes(channels) +
          product.getScratchpadBytes());
}

void pp::runtime::buildPackFewPixels(const ConvShape &whole,
                                     ConvDirection direction,
                                     KernelBuilder &builder) {
  if (whole.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(measurePackedFewPixels(whole, direction), whole.packedBytes);
  const FewPixels few(whole, direction);
  builder.setFunction(describePacking(whole, DataType::F32),
                      [few, channels = shareChannels(few, builder)](
                          void *const *tensors, void *) {
                        few.packWeights(channels,
                                        static_cast<const float *>(tensors[0]),
                                        static_cast<float *>(tensors[1]));
                      });
}
