//===- ConvWeightKernels.cpp - `conv_backward_weights` --------------------===//
#include "cpu/ConvGradientPixels.h"
#include "cpu/ConvGradientProduct.h"
#include "cpu/ConvGradientRows.h"
#include "cpu/ConvGradientShifts.h"
#include "cpu/ConvGradientTiles.h"
#include "cpu/ConvGroupKernels.h"
#include "cpu/ConvLibrary.h"
#include "cpu/ConvTensors.h"
#include "cpu/GroupGradient.h"
#include "cpu/PairProduct.h"
#include "cpu/Processor.h"
#include "cpu/SignalConvolution.h"
#include "cpu/TiledProduct.h"
#include "cpu/WinogradGradient.h"

#include <algorithm>
#include <array>

using namespace pp::runtime;

using dnnl::convolution_backward_weights;

/// A gradient of weights with code of our own.
template <typename Product>
static void buildGradient(const Product &product, const ConvShape &shape,
                          KernelBuilder &builder) {
  builder.setFunction(
      describeGradientTensors(shape),
      [product, offsets = std::array{shape.srcOffset, shape.dstOffset,
                                     shape.weightsOffset}](void *const *tensors,
                                                           void *scratchpad) {
        auto at = [&](int tensor) {
          return static_cast<char *>(tensors[tensor]) + offsets[tensor];
        };
        product.run(at(0), at(1), reinterpret_cast<float *>(at(2)), scratchpad);
      },
      product.getScratchpadBytes());
}

/// That of a window of one place.
static void buildGradientPairs(const PairMatrixProduct::Shape &product,
                               const ConvShape &shape, int64_t together,
                               KernelBuilder &builder) {
  struct Gradient {
    PairMatrixProduct product;

    uint64_t getScratchpadBytes() const { return product.getScratchpadBytes(); }
    void run(const void *x, const void *dy, float *gradient,
             void *scratchpad) const {
      product.run(dy, x, gradient, scratchpad);
    }
  };
  if (together > 1)
    builder.setSums(PairMatrixProduct(product, shape.isAdded, together),
                    {1, shape.dstOffset}, {0, shape.srcOffset},
                    {2, shape.weightsOffset});
  buildGradient(Gradient{PairMatrixProduct(product, shape.isAdded)}, shape,
                builder);
}

/// Lets it add those of several micro-batches in one pass.
template <typename Sums>
static void setSums(const Sums &sums, const ConvShape &shape,
                    KernelBuilder &builder) {
  builder.setSums(sums, {0, shape.srcOffset}, {1, shape.dstOffset},
                  {2, shape.weightsOffset});
}

/// The sizes of a gradient of weights that is computed so.
static std::optional<WinogradConvolution::Shape>
findGradientTiles(const ConvShape &whole) {
  auto tiles = whole.gradientInTiles();
  return tiles && WinogradConvolution::isPossible(*tiles) ? tiles
                                                          : std::nullopt;
}

/// Its code, if it can read x and dY as they lie.
static std::optional<WinogradGradient>
findGradientInPlace(const ConvShape &of) {
  if (withLanes(of.src) != of.src || withLanes(of.dst) != of.dst)
    return std::nullopt;
  WinogradConvolution::Shape shape = *of.gradientInTiles();
  shape.x = KernelBuilder::imagePlaces(of.src);
  shape.y = KernelBuilder::imagePlaces(of.dst);
  WinogradGradient gradient(shape);
  if (of.isAdded)
    gradient.setAdded();
  return gradient;
}

/// From x and dY to the gradient of the weights.
static void buildGradientInTiles(const ConvShape &of, int64_t together,
                                 KernelBuilder &builder) {
  if (auto gradient = findGradientInPlace(of)) {
    if (auto sums = WinogradGradientSums::find(*gradient, together))
      setSums(*sums, of, builder);
    return buildGradient(*gradient, of, builder);
  }
  WinogradConvolution::Shape shape = *of.gradientInTiles();
  auto x = builder.addTensor(of.src, of.srcOffset);
  auto dy = builder.addTensor(of.dst, of.dstOffset);
  auto result = builder.addResult(of.weights, of.weightsOffset);
  auto xInside = readAs(builder, x, withLanes(of.src));
  auto dyInside = readAs(builder, dy, withLanes(of.dst));
  shape.x = KernelBuilder::imagePlaces(xInside.get_desc());
  shape.y = KernelBuilder::imagePlaces(dyInside.get_desc());
  WinogradGradient gradient(shape);
  if (of.isAdded)
    gradient.setAdded();
  auto scratchpad =
      builder.addTemporary(numbersIn(gradient.getScratchpadBytes()));
  builder.addWork([=] {
    gradient.run(xInside.get_data_handle(), dyInside.get_data_handle(),
                 static_cast<float *>(result.get_data_handle()),
                 scratchpad.get_data_handle());
  });
}

static ConvGradientProduct
makeGradientProduct(const ConvGradientProduct::Shape &shape) {
  ConvGradientProduct product(shape);
  if (const MatrixTiles *tiles = shortTiles(); tiles && shape.isShort)
    product.setPairs(*tiles);
  return product;
}

/// Whether it is computed along a signal, where nothing else is faster.
static bool isOfSignals(const ConvShape &whole) {
  return SignalRows::isPreferred(whole) &&
         whole.weights.data_type() == KernelBuilder::Type::f32;
}

/// The sizes of a gradient that is computed pixel by pixel: of each group.
static std::optional<ConvGradientProduct::Shape>
findGradientOfPixels(const ConvShape &whole) {
  if (findGradientTiles(whole) || isOfSignals(whole))
    return std::nullopt;
  auto sizes =
      whole.groups > 1 ? whole.gradientOfGroup() : whole.gradientProduct();
  if (!sizes || !ConvGradientPixels::isPreferred(*sizes))
    return std::nullopt;
  if (whole.groups == 1 && ConvGradientProduct::isPreferred(*sizes) &&
      !ConvGradientPixels::seesLittle(*sizes))
    return std::nullopt;
  return sizes;
}

/// Threads share groups, or outputs of a single one.
static void buildGradientOfPixels(ConvGradientProduct::Shape sizes,
                                  const ConvShape &whole,
                                  KernelBuilder &builder) {
  if (whole.groups == 1) {
    const int64_t block = std::max<int64_t>(sizes.dy.blockChannels, 8);
    const auto share = builder.share(sizes.outputs, block);
    sizes.outputs = share.count;
    ConvShape part = whole;
    part.dstOffset = sizes.dy.offsetOfChannel(share.begin) * sizeof(float);
    part.weightsOffset = share.begin * sizes.columns() * sizeof(float);
    return buildGradient(ConvGradientPixels(sizes), part, builder);
  }
  const ConvGradientPixels gradient(sizes);
  builder.setFunction(
      describeGradientTensors(whole),
      [gradient, share = builder.share(whole.groups)](void *const *tensors,
                                                      void *scratchpad) {
        gradient.runGroups(tensors[0], tensors[1], share.begin, share.count,
                           static_cast<float *>(tensors[2]), scratchpad);
      },
      gradient.getScratchpadBytes());
}

/// Whether it is a product of two matrices with a row for each pixel: the
/// library's, or for AVX2 ours where that is faster than the code for windows.
/// Those of images of one pixel take half as long, of others, with whole panels
/// of channels, a tenth to a third less (measured on Zen 3).
static bool isProductOfRows(const ConvShape &whole) {
  if (whole.isLibraryProduct())
    return true;
  auto isMatrix = [](const KernelBuilder::MemoryDesc &desc) {
    const KernelBuilder::Dims dims = desc.dims();
    return desc.data_type() == KernelBuilder::Type::f32 &&
           KernelBuilder::elementCount(dims) == dims[0] * dims[1];
  };
  if (hasAvx512() || !TiledProduct::isPreferred(DataType::F32) ||
      whole.groups != 1 || !isMatrix(whole.weights))
    return false;
  if (isMatrix(whole.src) && isMatrix(whole.dst))
    return true;
  constexpr int64_t fewest = 32, many = 64;
  const int64_t channels = whole.src.dims()[1];
  return whole.isPointwise() &&
         whole.src.data_type() == KernelBuilder::Type::f32 &&
         channels % panelColumns == 0 && channels >= fewest &&
         std::max(channels, whole.outputChannels) >= many;
}

bool pp::runtime::isConvAddedInPlace(Descriptor &descriptor,
                                     KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (GroupGradient::isPreferred(whole) || findGradientTiles(whole) ||
      whole.gradientPairs() || isOfSignals(whole) ||
      findGradientOfPixels(whole))
    return true;
  const auto sizes = whole.gradientProduct();
  return sizes && (ConvGradientTiles::isPreferred(*sizes)
                       ? ConvGradientTiles::addsInPlace(*sizes)
                   : ConvGradientRows::isPreferred(*sizes)
                       ? true
                       : !whole.isLibraryProduct() &&
                             (isProductOfRows(whole) ||
                              ConvGradientProduct::isPreferred(*sizes)));
}

bool pp::runtime::isConvAddedTogether(Descriptor &descriptor,
                                      KernelBuilder &builder) {
  ConvShape shape(descriptor, builder, Division::None);
  shape.isAdded = readAccumulation(descriptor, shape.weights.data_type());
  if (findGradientTiles(shape)) {
    const auto gradient = findGradientInPlace(shape);
    return gradient && WinogradGradientSums::find(*gradient, PP_MOST_TOGETHER);
  }
  if (const auto pairs = shape.gradientPairs())
    return PairMatrixProduct::countTogether(*pairs, PP_MOST_TOGETHER) > 1;
  const auto sizes = shape.gradientProduct();
  return sizes && ConvGradientTiles::isPreferred(*sizes) &&
         !ConvGradientShifts::isPreferred(*sizes) &&
         ConvGradientSums::find(*sizes, PP_MOST_TOGETHER, *shortTiles());
}

void pp::runtime::buildConvBackwardWeights(Descriptor &descriptor,
                                           KernelBuilder &builder) {
  // As a product it takes the same time in one thread, or less, and is shared
  // by threads where there are few channels (measured on Zen 4).
  ConvShape whole(descriptor, builder, Division::None);
  whole.isAdded = readAccumulation(descriptor, whole.weights.data_type());
  const int64_t together = readTogether(descriptor, whole.isAdded);
  if (GroupGradient::isPreferred(whole))
    return buildGroupGradient(whole, builder);
  if (auto windows = findGradientWindows(whole, builder))
    return buildDepthwiseGradient(*windows, whole, builder);
  if (const auto sizes = findGradientOfPixels(whole))
    return buildGradientOfPixels(*sizes, whole, builder);
  if (const auto pairs = whole.gradientPairs()) {
    ConvShape part(descriptor, builder, Division::Outputs);
    part.isAdded = whole.isAdded;
    return buildGradientPairs(
        *part.gradientPairs(), part,
        PairMatrixProduct::countTogether(*pairs, together), builder);
  }
  const auto sizes = whole.gradientProduct();
  const bool isInMatrixTiles = sizes && ConvGradientTiles::isPreferred(*sizes);
  if (!isInMatrixTiles && isProductOfRows(whole)) {
    auto rows = [](const KernelBuilder::MemoryDesc &desc) {
      int64_t channels = desc.dims()[1];
      int64_t pixels = KernelBuilder::elementCount(desc.dims()) / channels;
      return KernelBuilder::dense({pixels, channels}, desc.data_type());
    };
    KernelBuilder::Dims dims = whole.weights.dims();
    return buildTransposedProduct(
        rows(whole.src), rows(whole.dst),
        KernelBuilder::dense({dims[0], dims[1]}, whole.weights.data_type()),
        whole.isAdded, together, builder);
  }
  ConvShape shape(descriptor, builder, Division::Outputs);
  shape.isAdded = whole.isAdded;
  // Of the whole, so that a part does what the whole would.
  if (findGradientTiles(whole))
    return buildGradientInTiles(shape, together, builder);
  if (isInMatrixTiles) {
    const ConvGradientProduct::Shape product = *shape.gradientProduct();
    if (ConvGradientShifts::isPreferred(*sizes))
      return buildGradient(ConvGradientShifts(product, *shortTiles()), shape,
                           builder);
    if (auto sums = ConvGradientSums::find(product, together, *shortTiles()))
      setSums(*sums, shape, builder);
    return buildGradient(ConvGradientTiles(product, *shortTiles()), shape,
                         builder);
  }
  if (sizes && ConvGradientRows::isPreferred(*sizes))
    return buildGradient(
        ConvGradientRows(*shape.gradientProduct(), *shortTiles()), shape,
        builder);
  if (sizes && ConvGradientProduct::isPreferred(*sizes))
    return buildGradient(makeGradientProduct(*shape.gradientProduct()), shape,
                         builder);
  if (isOfSignals(whole))
    return buildSignalGradient(whole, builder);
  const int64_t outputs = shape.outputChannels;
  const int64_t atATime = shape.countOutputsAtATime();
  auto leave = [&](int64_t begin) {
    ConvShape some = shape;
    if (atATime != outputs)
      some.takeOutputs({begin, atATime});
    else
      some.weightsOffset = some.dstOffset = 0;
    return some;
  };
  ConvShape first = leave(0);
  auto desc = describe(
      first, [&] { return makeBackwardWeights(first, builder); },
      /*isWeightGradient=*/true);
  demandEqualParts(shape, desc);
  auto src = builder.addTensor(shape.src, shape.srcOffset);
  auto diffDst = builder.addTensor(shape.dst, shape.dstOffset);
  auto diffWeights = builder.addResult(shape.weights, shape.weightsOffset);
  auto srcInside = readAs(builder, src, desc.src_desc());
  dnnl::memory diffDstInside, weightsInside, summand;
  if (shape.isAdded)
    summand = builder.addTemporary(first.weights);
  for (int64_t begin = 0; begin < outputs; begin += atATime) {
    ConvShape some = leave(begin);
    auto dst = builder.addView(diffDst, KernelBuilder::widened(some.dst),
                               some.dstOffset);
    auto weights = builder.addView(
        diffWeights, KernelBuilder::widened(some.weights), some.weightsOffset);
    diffDstInside = readAs(builder, dst, desc.diff_dst_desc(), diffDstInside);
    auto made = summand ? summand : weights;
    weightsInside =
        writeAs(builder, made, desc.diff_weights_desc(), weightsInside);
    builder.addPrimitive(convolution_backward_weights(desc),
                         desc.scratchpad_desc(),
                         {{DNNL_ARG_SRC, srcInside},
                          {DNNL_ARG_DIFF_DST, diffDstInside},
                          {DNNL_ARG_DIFF_WEIGHTS, weightsInside}});
    writeBack(builder, weightsInside, made);
    if (summand)
      builder.addSum(summand, weights);
  }
}
