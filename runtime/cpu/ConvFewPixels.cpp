//===- ConvFewPixels.cpp --------------------------------------------------===//
#include "cpu/ConvFewPixels.h"
#include "cpu/ConvLibrary.h"
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

/// Channels of an image that lie together in any of its layouts, but for plain
/// ones.
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
          channels(desc.dims()[1]) {
      // Of one channel, all layouts are the same.
      if (channels == 1)
        places.block = places.blockChannels = 1;
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
  bool hasStrides() const { return countOf(steps) != 1; }

  /// How many rows are multiplied at a time: of many, those whose copies a
  /// cache has.
  int64_t rowsAtOnce() const {
    constexpr int64_t fewest = 60, numbers = 96 << 10;
    return std::min(rows(), std::max(fewest, numbers / terms()));
  }

  /// Of some of the channels that are written, and so many rows.
  TiledProduct makeProduct(Range channels, int64_t count) const {
    const bool areRows = isForward();
    TiledProduct product(
        {}, count, terms(), channels.count, {DataType::F32, terms(), 1, {}},
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
    return isInPlace() ? 0 : alignUp(rowsAtOnce() * terms() * sizeof(float));
  }
  uint64_t resultBytes(Range channels) const {
    return isWrittenInPlace()
               ? 0
               : alignUp(rowsAtOnce() * channels.count * sizeof(float));
  }
  /// What some pixels see, a row for each: x itself, or a copy.
  const float *readRows(const float *x, Range some, float *copy) const;
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

private:
  bool isForward() const { return direction == ConvDirection::Forward; }
  /// Whether the rows are x as it lies.
  bool isInPlace() const {
    return isOfSinglePlaces() && from.places.isChannelsLast() &&
           from.extents == to.extents && begin == ImageAxes{0, 0, 0};
  }
  bool isWrittenInPlace() const { return to.places.isChannelsLast(); }
  int64_t resultPitch(Range channels) const {
    return isWrittenInPlace() ? to.places.axes[2] : channels.count;
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

const float *FewPixels::readRows(const float *x, Range some,
                                 float *copy) const {
  if (isInPlace())
    return x + some.begin * terms();
  // Places of a row of the window lie side by side in x.
  const bool areTogether = from.places.isChannelsLast() && distances[2] == 1;
  const int64_t run = areTogether ? window[2] : 1;
  float *row = copy;
  for (int64_t index = some.begin; index < some.begin + some.count; ++index) {
    const int64_t sample = index / to.pixels();
    const ImageAxes at = splitIndex(index % to.pixels(), to.extents);
    for (int64_t first = 0; first < countOf(window);
         first += run, row += run * from.channels) {
      const ImageAxes place = splitIndex(first, window);
      ImageAxes seen;
      for (size_t axis = 0; axis < seen.size(); ++axis)
        seen[axis] = begin[axis] + at[axis] * steps[axis] +
                     place[axis] * distances[axis];
      const bool isInside = seen[0] >= 0 && seen[0] < from.extents[0] &&
                            seen[1] >= 0 && seen[1] < from.extents[1];
      // Those of the run that are inside: [low, high).
      const int64_t low =
          isInside ? std::clamp<int64_t>(-seen[2], 0, run) : run;
      const int64_t high = std::clamp(from.extents[2] - seen[2], low, run);
      std::fill_n(row, low * from.channels, 0.0F);
      std::fill_n(row + high * from.channels, (run - high) * from.channels,
                  0.0F);
      if (low == high)
        continue;
      seen[2] += low;
      const float *pixel = x + from.placeOf(sample, seen);
      if (areTogether)
        std::memcpy(row + low * from.channels, pixel,
                    (high - low) * from.channels * sizeof(float));
      else
        copyPixel(pixel, row);
    }
  }
  return copy;
}

void FewPixels::writeRows(Range some, Range channels,
                          const ConvEpilogue &epilogue, const float *bias,
                          const float *residual, float *product,
                          float *y) const {
  if (isWrittenInPlace() && epilogue.isEmpty())
    return;
  const int64_t atOnce = isWrittenInPlace()                ? channels.count
                         : to.places.hasTogether(together) ? together
                                                           : 1;
  const int64_t pitch = resultPitch(channels);
  for (int64_t row = 0; row < some.count; ++row) {
    const int64_t index = some.begin + row;
    const int64_t pixel = to.placeOf(
        index / to.pixels(), splitIndex(index % to.pixels(), to.extents));
    for (int64_t first = 0; first < channels.count; first += atOnce) {
      const int64_t channel = channels.begin + first;
      const int64_t place = pixel + to.places.offsetOfChannel(channel);
      float *numbers = product + row * pitch + first;
      if (!epilogue.isEmpty())
        epilogue.finish(numbers,
                        {bias ? bias + channel : nullptr,
                         residual ? residual + place : nullptr},
                        atOnce);
      if (!isWrittenInPlace())
        std::memcpy(y + place, numbers, atOnce * sizeof(float));
    }
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
    return makeProduct(channels, rows())
        .packColumns(weights + channels.begin * (isForward() ? terms() : 1),
                     packed);
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

/// Whether it is one of a single channel that the library has nothing but loops
/// for, at 0.05 GFLOP/s: those with windows of hundreds of places over long
/// signals or large images.
static bool isOfLoops(const ConvShape &whole) {
  if (!TiledProduct::isPossible() || whole.groups != 1 ||
      whole.src.dims()[1] != 1 || whole.packedBytes != 0 ||
      whole.weights.data_type() != Type::f32 ||
      whole.src.data_type() != Type::f32 ||
      whole.dst.data_type() != Type::f32 ||
      whole.isReliable(/*isWeightGradient=*/false))
    return false;
  ConvShape shape = whole;
  KernelBuilder alone;
  return std::string_view(describeForward(shape, alone).impl_info_str())
      .starts_with("ref");
}

bool pp::runtime::isOfFewPixels(Descriptor &descriptor, KernelBuilder &builder,
                                ConvDirection direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (whole.groups != 1)
    return false;
  // Larger windows have their places in another order than the copies.
  const bool isReadable =
      whole.packedBytes != 0 ||
      countOf(KernelBuilder::imageAxes(whole.weights.dims(), 2, 1)) == 1;
  if (isReadable && packsForFewPixels(descriptor, builder, direction))
    return true;
  return direction == ConvDirection::Forward && isOfLoops(whole);
}

namespace {
/// What a part of the kernel computes.
struct Share {
  Range rows, channels;
};
} // namespace

static Share findShare(const FewPixels &few, KernelBuilder &builder) {
  Share all{{0, few.rows()}, {0, few.written().channels}};
  if (builder.isWhole())
    return all;
  if (few.read().channels == 1)
    all.rows = builder.share(few.rows());
  else
    all.channels = builder.share(few.written().channels, panelColumns);
  return all;
}

uint64_t pp::runtime::measurePackedFewPixels(const ConvShape &whole,
                                             ConvDirection direction) {
  const FewPixels few(whole, direction);
  return few.makeProduct({0, few.written().channels}, few.rows())
      .getPackedBytes();
}

void pp::runtime::buildFewPixels(const ConvShape &whole,
                                 ConvDirection direction,
                                 const ConvEpilogue &epilogue,
                                 KernelBuilder &builder) {
  const FewPixels few(whole, direction);
  if (whole.packedBytes != 0)
    demandPacked(measurePackedFewPixels(whole, direction), whole.packedBytes);
  const Share share = findShare(few, builder);
  const int64_t atOnce = std::min(share.rows.count, few.rowsAtOnce());
  const int64_t rest = share.rows.count % atOnce;
  const TiledProduct product = few.makeProduct(share.channels, atOnce);
  const TiledProduct last =
      few.makeProduct(share.channels, rest == 0 ? atOnce : rest);
  const int residual = epilogue.hasBias ? 3 : 2;
  const int result = epilogue.hasResidual ? residual + 1 : residual;
  builder.setFunction(
      describeTensors(whole, direction, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto at = [&](int tensor) {
          return static_cast<float *>(tensors[tensor]);
        };
        auto *copy = static_cast<char *>(scratchpad);
        char *other = copy + few.copyBytes();
        char *own = other + few.resultBytes(share.channels);
        const float *weights = at(1) + few.weightsOf(share.channels);
        const int64_t end = share.rows.begin + share.rows.count;
        for (int64_t row = share.rows.begin; row < end; row += atOnce) {
          const Range some{row, std::min(atOnce, end - row)};
          float *y = few.placeRows(at(result), some, share.channels,
                                   reinterpret_cast<float *>(other));
          const float *rows =
              few.readRows(at(0), some, reinterpret_cast<float *>(copy));
          (some.count == atOnce ? product : last).run(rows, weights, y, own);
          few.writeRows(some, share.channels, epilogue,
                        epilogue.hasBias ? at(2) : nullptr,
                        epilogue.hasResidual ? at(residual) : nullptr, y,
                        at(result));
        }
      },
      few.copyBytes() + few.resultBytes(share.channels) +
          std::max(product.getScratchpadBytes(), last.getScratchpadBytes()));
}

void pp::runtime::buildPackFewPixels(const ConvShape &whole,
                                     ConvDirection direction,
                                     KernelBuilder &builder) {
  if (whole.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(measurePackedFewPixels(whole, direction), whole.packedBytes);
  const FewPixels few(whole, direction);
  builder.setFunction(describePacking(whole, DataType::F32),
                      [few, channels = findShare(few, builder).channels](
                          void *const *tensors, void *) {
                        few.packWeights(channels,
                                        static_cast<const float *>(tensors[0]),
                                        static_cast<float *>(tensors[1]));
                      });
}
