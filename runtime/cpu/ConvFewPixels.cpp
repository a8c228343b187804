//===- ConvFewPixels.cpp --------------------------------------------------===//
#include "cpu/ConvFewPixels.h"
#include "cpu/ConvLibrary.h"
#include "cpu/ConvTensors.h"
#include "cpu/PackedWeights.h"
#include "cpu/PixelRows.h"
#include "cpu/Processor.h"
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
         rows.written().channels % panelColumns == 0 &&
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

bool pp::runtime::packsForFewPixels(Descriptor &descriptor,
                                    KernelBuilder &builder,
                                    ConvDirection direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (whole.groups != 1)
    return false;
  const PixelRows rows(whole, direction);
  return isReadable(whole, rows, direction) &&
         (areWeightsFar(whole, rows) || isOfProducts(whole, rows, direction));
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
  const PixelRows rows(whole, direction);
  if (isReadable(whole, rows, direction)) {
    const bool areReady = whole.packedBytes != 0 || rows.areWeightsInOrder();
    if ((areReady && areWeightsFar(whole, rows)) ||
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
  constexpr int64_t manyRows = 60;
  if (few.read().channels == 1 || few.rows() > manyRows)
    all.rows = builder.share(few.rows());
  else
    all.channels = builder.share(few.written().channels, panelColumns);
  return all;
}

uint64_t pp::runtime::measurePackedFewPixels(const ConvShape &whole,
                                             ConvDirection direction) {
  const PixelRows few(whole, direction);
  return few.makeProduct({0, few.written().channels}, few.rows())
      .getPackedBytes();
}

void pp::runtime::buildFewPixels(const ConvShape &whole,
                                 ConvDirection direction,
                                 const ConvEpilogue &epilogue,
                                 KernelBuilder &builder) {
  const bool arePacked = whole.packedBytes != 0;
  const uint64_t packedBytes = measurePackedFewPixels(whole, direction);
  if (arePacked)
    demandPacked(packedBytes, whole.packedBytes);
  PixelRows few(whole, direction);
  const bool arePackedHere = !arePacked && !few.areWeightsInOrder();
  if (arePackedHere)
    few.setPacked();
  const Share share = findShare(few, builder);
  const uint64_t ownBytes = arePackedHere ? alignUp(packedBytes) : 0;
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
        auto *ordered = static_cast<float *>(scratchpad);
        auto *copy = static_cast<char *>(scratchpad) + ownBytes;
        char *other = copy + few.copyBytes();
        char *own = other + few.resultBytes(share.channels);
        if (arePackedHere)
          few.packWeights(share.channels, at(1), ordered);
        const float *weights =
            (arePackedHere ? ordered : at(1)) + few.weightsOf(share.channels);
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
      ownBytes + few.copyBytes() + few.resultBytes(share.channels) +
          std::max(product.getScratchpadBytes(), last.getScratchpadBytes()));
}

void pp::runtime::buildPackFewPixels(const ConvShape &whole,
                                     ConvDirection direction,
                                     KernelBuilder &builder) {
  if (whole.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(measurePackedFewPixels(whole, direction), whole.packedBytes);
  const PixelRows few(whole, direction);
  builder.setFunction(describePacking(whole, DataType::F32),
                      [few, channels = findShare(few, builder).channels](
                          void *const *tensors, void *) {
                        few.packWeights(channels,
                                        static_cast<const float *>(tensors[0]),
                                        static_cast<float *>(tensors[1]));
                      });
}
