//===- ConvPixelProduct.cpp -----------------------------------------------===//
#include "cpu/ConvPixelProduct.h"
#include "cpu/ConvLibrary.h"
#include "cpu/ConvTensors.h"
#include "cpu/PackedWeights.h"
#include "cpu/PixelRows.h"
#include "cpu/Processor.h"
#include "cpu/SharedAxis.h"
#include "cpu/TiledProduct.h"

#include <algorithm>
#include <string_view>

using namespace pp::runtime;

using Type = KernelBuilder::Type;
using Range = KernelBuilder::Range;

/// Whether a product of all that windows see can be: of f32, with channels that
/// lie together.
static bool isReadable(const ConvShape &whole, const PixelRows &rows,
                       ConvDirection direction) {
  constexpr int64_t block = 8; // the smallest
  const bool isForward = direction == ConvDirection::Forward;
  return TiledProduct::isPreferred(DataType::F32) && whole.groups == 1 &&
         whole.weights.data_type() == Type::f32 &&
         whole.src.data_type() == Type::f32 &&
         whole.dst.data_type() == Type::f32 &&
         whole.algorithm == dnnl::algorithm::convolution_direct &&
         whole.tileEdge == 0 && (isForward || !rows.hasStrides()) &&
         rows.written().channels %
                 (rows.isOfSinglePlaces() ? block : panelColumns) ==
             0 &&
         rows.read().places.hasTogether(block) &&
         rows.written().places.hasTogether(block);
}

/// Weights that are not in the second cache, for as few pixels as a product
/// reads ahead for (measured on Cascade Lake and Emerald Rapids, where the
/// library is faster otherwise).
static bool areWeightsFar(const ConvShape &whole, const PixelRows &rows) {
  constexpr int64_t fewest = 6, most = 60;
  constexpr size_t largeWeights = 1 << 20;
  return hasAvx512() && whole.weights.get_size() >= largeWeights &&
         rows.rows() >= fewest && rows.rows() <= most &&
         rows.read().channels % panelColumns == 0 &&
         rows.read().places.hasTogether(panelColumns) &&
         rows.written().places.hasTogether(panelColumns);
}

/// Images of one pixel, as behind a mean over all of them, for which the
/// library's code for AVX2 takes one after the other (measured on Zen 3: 1.2 to
/// 4 times as long).
static bool areSinglePixels(const PixelRows &rows) {
  return !hasAvx512() && rows.isOfSinglePlaces() && rows.read().pixels() == 1 &&
         rows.written().pixels() == 1;
}

/// Products of so few columns that tiles read the pixels where they lie, in
/// whole lines of the cache, for which the library's code for AVX2 is slower
/// (measured on Zen 3: 1.05 to 1.45 times).
static bool isNarrow(const PixelRows &rows) {
  constexpr int64_t most = 48, fewest = 96;
  return !hasAvx512() && rows.isOfSinglePlaces() && !rows.hasStrides() &&
         rows.written().channels <= most && rows.read().channels >= fewest &&
         rows.read().channels % panelColumns == 0 &&
         rows.read().places.isChannelsLast() &&
         rows.written().places.isChannelsLast();
}

/// Windows that reach so far that the library has no generated code for them:
/// its products are slower, and parts of them have other bits (measured on Zen
/// 3).
static bool isOfProducts(const ConvShape &whole, const PixelRows &rows,
                         ConvDirection direction) {
  constexpr int64_t farthest = 7, fewest = 32;
  bool isFar = false;
  const size_t axes = whole.strides.size();
  const KernelBuilder::Dims window = whole.weights.dims();
  for (size_t axis = 0; axis < axes; ++axis)
    isFar |= (window[window.size() - axes + axis] - 1) *
                 (whole.dilations[axis] + 1) >=
             farthest;
  if (!isFar || rows.read().channels == 1 || rows.rows() < fewest)
    return false;
  ConvShape shape = whole;
  KernelBuilder alone;
  return direction == ConvDirection::Forward
             ? isPlainCode(describeForward(shape, alone))
             : isPlainCode(describeBackwardData(shape, alone));
}

/// Windows with strides over channels that lie together, for which the
/// library's code for AVX2 runs at half of the peak (measured on Zen 3; of 5 x
/// 5 places at more).
static bool isStrided(const PixelRows &rows, ConvDirection direction) {
  constexpr int64_t fewestChannels = 64, fewest = 32, mostPlaces = 9;
  return direction == ConvDirection::Forward && !hasAvx512() &&
         rows.hasStrides() && !rows.isOfSinglePlaces() &&
         rows.places() <= mostPlaces &&
         rows.read().channels >= fewestChannels &&
         rows.read().places.isChannelsLast() &&
         rows.written().places.isChannelsLast() && rows.rows() >= fewest;
}

bool pp::runtime::packsForPixelProduct(Descriptor &descriptor,
                                       KernelBuilder &builder,
                                       ConvDirection direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (whole.groups != 1)
    return false;
  const PixelRows rows(whole, direction);
  return isReadable(whole, rows, direction) &&
         (areWeightsFar(whole, rows) || areSinglePixels(rows) ||
          isNarrow(rows) || isStrided(rows, direction) ||
          isOfProducts(whole, rows, direction));
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

bool pp::runtime::isPixelProduct(Descriptor &descriptor, KernelBuilder &builder,
                                 ConvDirection direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (whole.groups != 1)
    return false;
  const PixelRows rows(whole, direction);
  if (isReadable(whole, rows, direction)) {
    const bool areReady = whole.packedBytes != 0 || rows.areWeightsInOrder();
    if ((areReady && areWeightsFar(whole, rows)) || areSinglePixels(rows) ||
        isNarrow(rows) || isStrided(rows, direction) ||
        isOfProducts(whole, rows, direction))
      return true;
  }
  return direction == ConvDirection::Forward && isOfLoops(whole);
}

namespace {
/// What a part of the kernel computes.
struct Share {
  Range rows, channels;
};
} // namespace

static Share findShare(const PixelRows &few, KernelBuilder &builder) {
  Share all{{0, few.rows()}, {0, few.written().channels}};
  if (builder.isWhole())
    return all;
  // Whose copies are of all channels.
  if (few.read().channels == 1 || few.rows() > fewPixels)
    all.rows = builder.share(few.rows());
  else
    all.channels = builder.share(few.written().channels, panelColumns);
  return all;
}

uint64_t pp::runtime::measurePackedPixelProduct(const ConvShape &whole,
                                                ConvDirection direction) {
  return PixelRows(whole, direction).getPackedBytes();
}

namespace {
/// The products of some rows at a time, and of some channels.
class RowProducts {
public:
  /// The last rows may be fewer.
  RowProducts(const PixelRows &few, const Share &share)
      : few(few), channels(share.channels),
        atOnce(std::min(share.rows.count, few.rowsAtOnce())),
        whole(few.makeProduct(channels, atOnce)),
        last(few.makeProduct(channels, countLast(share.rows.count))) {}

  int64_t rowsAtOnce() const { return atOnce; }
  uint64_t getScratchpadBytes() const {
    return few.copyBytes() + placeBytes() +
           std::max(whole.getScratchpadBytes(), last.getScratchpadBytes());
  }
  /// Rows of y lie as PixelRows::placeRows says.
  void run(const float *x, const float *weights, Range some, float *y,
           char *scratchpad) const {
    auto *copy = reinterpret_cast<float *>(scratchpad);
    scratchpad += few.copyBytes();
    if (few.isByPlaces())
      return addPlaces(x, weights, some, copy, y, scratchpad);
    const TiledProduct &product = some.count == atOnce ? whole : last;
    product.run(few.readRows(x, some, copy), weights, y, scratchpad);
  }

private:
  int64_t countLast(int64_t rows) const {
    return rows % atOnce == 0 ? atOnce : rows % atOnce;
  }
  uint64_t sumBytes() const {
    return alignUp(atOnce * channels.count * sizeof(float));
  }
  uint64_t placeBytes() const {
    return few.isByPlaces() ? sumBytes() + alignUp(atOnce * sizeof(int64_t))
                            : 0;
  }
  void addPlaces(const float *x, const float *weights, Range some, float *copy,
                 float *y, char *scratchpad) const {
    auto *sums = reinterpret_cast<float *>(scratchpad);
    auto *seeing = reinterpret_cast<int64_t *>(scratchpad + sumBytes());
    char *own = scratchpad + placeBytes();
    const int64_t pitch = few.resultPitch(channels);
    for (int64_t row = 0; row < some.count; ++row)
      std::fill_n(y + row * pitch, channels.count, 0.0F);
    for (int64_t place = 0; place < few.places(); ++place) {
      const int64_t count = few.readPlace(x, some, place, copy, seeing);
      if (count == 0)
        continue;
      few.makeProduct(channels, count)
          .run(copy, weights + place * few.weightsOfPlace(), sums, own);
      for (int64_t i = 0; i < count; ++i) {
        const float *from = sums + i * channels.count;
        float *to = y + seeing[i] * pitch;
        for (int64_t channel = 0; channel < channels.count; ++channel)
          to[channel] += from[channel];
      }
    }
  }

  PixelRows few;
  Range channels;
  int64_t atOnce;
  TiledProduct whole, last;
};
} // namespace

void pp::runtime::buildPixelProduct(const ConvShape &whole,
                                    ConvDirection direction,
                                    const ConvEpilogue &epilogue,
                                    KernelBuilder &builder) {
  const bool arePacked = whole.packedBytes != 0;
  const uint64_t packedBytes = measurePackedPixelProduct(whole, direction);
  if (arePacked)
    demandPacked(packedBytes, whole.packedBytes);
  PixelRows few(whole, direction);
  const bool arePackedHere = !arePacked && !few.areWeightsInOrder();
  if (arePackedHere)
    few.setPacked();
  const Share share = findShare(few, builder);
  const uint64_t ownBytes = arePackedHere ? alignUp(packedBytes) : 0;
  const uint64_t resultBytes = few.resultBytes(share.channels);
  const RowProducts products(few, share);
  const int residual = epilogue.hasBias ? 3 : 2;
  const int result = epilogue.hasResidual ? residual + 1 : residual;
  builder.setFunction(
      describeTensors(whole, direction, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto at = [&](int tensor) {
          return static_cast<float *>(tensors[tensor]);
        };
        auto *ordered = static_cast<float *>(scratchpad);
        char *other = static_cast<char *>(scratchpad) + ownBytes;
        if (arePackedHere)
          few.packWeights(share.channels, at(1), ordered);
        const float *weights =
            (arePackedHere ? ordered : at(1)) + few.weightsOf(share.channels);
        const int64_t end = share.rows.begin + share.rows.count;
        const int64_t atOnce = products.rowsAtOnce();
        for (int64_t row = share.rows.begin; row < end; row += atOnce) {
          const Range some{row, std::min(atOnce, end - row)};
          float *y = few.placeRows(at(result), some, share.channels,
                                   reinterpret_cast<float *>(other));
          products.run(at(0), weights, some, y, other + resultBytes);
          few.writeRows(some, share.channels, epilogue,
                        epilogue.hasBias ? at(2) : nullptr,
                        epilogue.hasResidual ? at(residual) : nullptr, y,
                        at(result));
        }
      },
      ownBytes + resultBytes + products.getScratchpadBytes());
}

void pp::runtime::buildPackPixelProduct(const ConvShape &whole,
                                        ConvDirection direction,
                                        KernelBuilder &builder) {
  if (whole.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(measurePackedPixelProduct(whole, direction), whole.packedBytes);
  const PixelRows few(whole, direction);
  const Range channels = builder.share(few.written().channels, panelColumns);
  builder.setFunction(describePacking(whole, DataType::F32),
                      [few, channels](void *const *tensors, void *) {
                        few.packWeights(channels,
                                        static_cast<const float *>(tensors[0]),
                                        static_cast<float *>(tensors[1]));
                      });
}
