//===- ConvShape.cpp ------------------------------------------------------===//
#include "cpu/ConvShape.h"
#include "cpu/PackedWeights.h"
#include "cpu/PairProduct.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"

#include <algorithm>

using namespace pp::runtime;

bool pp::runtime::isAll(const KernelBuilder::Dims &sizes, int64_t size) {
  return std::all_of(sizes.begin(), sizes.end(),
                     [&](int64_t each) { return each == size; });
}

/// Output channels are computed at a time in multiples of these.
static constexpr int64_t outputBlock = 16;

int64_t ConvShape::channelBlock() const {
  return layout == "blocked16" || tileEdge != 0 || hasAvx512() ? 16 : 8;
}

static int64_t roundUp(int64_t count, int64_t block) {
  return (count + block - 1) / block * block;
}

/// `desc` in any layout, and in another type if one is given.
static KernelBuilder::MemoryDesc
anyLayout(const KernelBuilder::MemoryDesc &desc,
          std::optional<KernelBuilder::Type> type = {}) {
  return {desc.dims(), type.value_or(desc.data_type()),
          dnnl::memory::format_tag::any};
}

/// The same for a tensor of the caller, where it lies plain.
static KernelBuilder::MemoryDesc
insideOf(const KernelBuilder::MemoryDesc &desc) {
  bool isPlain = desc == KernelBuilder::dense(desc.dims(), desc.data_type());
  return isPlain ? anyLayout(KernelBuilder::widened(desc)) : desc;
}

/// Leaves the samples of a part.
void ConvShape::takeSamples(KernelBuilder &builder) {
  KernelBuilder::Range samples = builder.share(src.dims()[0]);
  auto take = [&](KernelBuilder::MemoryDesc &desc, uint64_t &offset) {
    offset = KernelBuilder::offsetOfSamples(desc, samples);
    KernelBuilder::Dims dims = desc.dims();
    dims[0] = samples.count;
    desc = KernelBuilder::inLayout(dims, layout, desc.data_type());
  };
  take(src, srcOffset);
  take(dst, dstOffset);
}

/// Leaves the rows of a part of one image. Only the first and the last part
/// have the padding; the others read rows of their neighbours instead.
void ConvShape::takeRows(KernelBuilder &builder) {
  isOfImages = true;
  if (isPointwise())
    return takePixels(builder.share(countPixels()));
  constexpr size_t height = 2;
  KernelBuilder::Dims from = src.dims(), to = dst.dims();
  // Whole tiles.
  KernelBuilder::Range rows =
      builder.share(to[height], std::max<int64_t>(tileEdge, 1));
  auto offsetOf = [](const KernelBuilder::MemoryDesc &desc, int64_t row) {
    return desc.get_size() / desc.dims()[height] * row;
  };
  int64_t window =
      (weights.dims()[weights.dims().size() - (from.size() - height)] - 1) *
          (dilations[0] + 1) +
      1;
  int64_t begin = rows.begin * strides[0] - padLow[0];
  int64_t end = (rows.begin + rows.count - 1) * strides[0] - padLow[0] + window;
  int64_t first = std::max<int64_t>(begin, 0);
  // The library's code for windows of one place with strides is for images that
  // these divide (Zen 3: twice as fast as that for windows).
  int64_t skipped = std::max<int64_t>(strides[0] - window, 0);
  int64_t last = std::min(end + skipped, from[height]);
  if (first >= last)
    throw DescriptorError("parts: one would have nothing but padding");
  padLow[0] = first - begin;
  padHigh[0] = std::max<int64_t>(end - last, 0);
  srcOffset = offsetOf(src, first);
  dstOffset = offsetOf(dst, rows.begin);
  from[height] = last - first;
  to[height] = rows.count;
  src = KernelBuilder::inLayout(from, layout, src.data_type());
  dst = dstAlone = KernelBuilder::inLayout(to, layout, dst.data_type());
}

int64_t ConvShape::countPixels() const {
  return KernelBuilder::elementCount(dst.dims()) / outputChannels;
}

void ConvShape::takePixels(KernelBuilder::Range pixels) {
  auto take = [&](KernelBuilder::MemoryDesc &desc, uint64_t &offset) {
    KernelBuilder::Dims dims = desc.dims();
    offset =
        pixels.begin * dims[1] * dnnl::memory::data_type_size(desc.data_type());
    std::fill(dims.begin(), dims.end(), 1);
    dims[1] = desc.dims()[1];
    dims[2] = pixels.count;
    desc = KernelBuilder::inLayout(dims, "channels_last", desc.data_type());
  };
  take(src, srcOffset);
  take(dst, dstOffset);
  dstAlone = dst;
  setAlgorithm(algorithm);
}

/// The bytes of so many channels of a single sample in blocks or planes.
static uint64_t channelsBefore(const KernelBuilder::MemoryDesc &desc,
                               int64_t channels) {
  KernelBuilder::Dims dims = desc.dims();
  dims[1] = channels;
  return KernelBuilder::elementCount(dims) *
         dnnl::memory::data_type_size(desc.data_type());
}

/// Some channels of `whole`, which is plain where those are no whole blocks.
static KernelBuilder::MemoryDesc
someChannels(const KernelBuilder::MemoryDesc &whole, const std::string &layout,
             int64_t channels) {
  KernelBuilder::Dims dims = whole.dims();
  const bool isPlain = whole == KernelBuilder::dense(dims, whole.data_type());
  dims[1] = channels;
  return isPlain ? KernelBuilder::dense(dims, whole.data_type())
                 : KernelBuilder::inLayout(dims, layout, whole.data_type());
}

/// Leaves the output channels of a part.
void ConvShape::takeOutputs(KernelBuilder &builder) {
  isOfImages = true;
  // A block that is not full is the last of its image.
  const int64_t block = channelBlock();
  if (groups > 1 || (outputChannels % block != 0 && !isOfOneImage()))
    throw DescriptorError("parts: there is not enough to share");
  takeOutputs(builder.share(outputChannels, block));
}

bool ConvShape::isOfOneImage() const {
  return src.dims()[0] == 1 && layout != "channels_last";
}

void ConvShape::takeOutputs(KernelBuilder::Range outputs) {
  KernelBuilder::Slice part = KernelBuilder::slice(weights, 0, outputs);
  weights = part.desc;
  weightsOffset = plainWeightsOffset = part.offset;
  biasOffset = outputs.begin * sizeof(float);
  if (packedBytes != 0) {
    const int64_t block = channelBlock();
    const size_t each = packedBytes / roundUp(outputChannels, block);
    weightsOffset = each * outputs.begin;
    packedBytes = each * roundUp(outputs.count, block);
  }
  KernelBuilder::Dims dims = dst.dims(), offsets(dims.size(), 0);
  dims[1] = outputs.count;
  offsets[1] = outputs.begin;
  dstAlone = someChannels(dst, layout, outputs.count);
  // Nothing is between the channels of a single sample.
  if (isOfOneImage()) {
    dstOffset = channelsBefore(dst, outputs.begin);
    dst = dstAlone;
  } else {
    dst = dst.submemory_desc(dims, offsets);
    size_t size = dnnl::memory::data_type_size(dst.data_type());
    dstOffset = dst.data.offset0 * size;
    dst.data.offset0 = 0;
  }
  outputChannels = outputs.count;
  weightsInside = anyLayout(KernelBuilder::widened(weights));
  setAlgorithm(algorithm);
}

/// Leaves the groups of a part of one image in blocks or planes.
void ConvShape::takeGroups(KernelBuilder &builder) {
  isOfImages = true;
  // Whole blocks of channels.
  const int64_t block = channelBlock();
  int64_t grain = 1;
  while (grain * (src.dims()[1] / groups) % block != 0 ||
         grain * (outputChannels / groups) % block != 0)
    ++grain;
  if (groups % grain != 0)
    throw DescriptorError("parts: there is not enough to share");
  const int64_t all = groups;
  const KernelBuilder::Range part = builder.share(all, grain);
  auto take = [&](KernelBuilder::MemoryDesc &desc, uint64_t &offset) {
    const int64_t each = desc.dims()[1] / all;
    offset = channelsBefore(desc, each * part.begin);
    desc = someChannels(desc, layout, each * part.count);
  };
  take(src, srcOffset);
  take(dst, dstOffset);
  dstAlone = dst;
  const KernelBuilder::Slice own = KernelBuilder::slice(weights, 0, part);
  weights = own.desc;
  weightsOffset = plainWeightsOffset = own.offset;
  if (packedBytes != 0) {
    weightsOffset = packedBytes / all * part.begin;
    packedBytes = packedBytes / all * part.count;
  }
  biasOffset = outputChannels / all * part.begin * sizeof(float);
  outputChannels = outputChannels / all * part.count;
  groups = part.count;
}

void ConvShape::takeInputs(KernelBuilder::Range inputs) {
  const KernelBuilder::Slice part = KernelBuilder::slice(weights, 1, inputs);
  weights = part.desc;
  weightsOffset = plainWeightsOffset = part.offset;
  // Nothing is between the channels of a single sample.
  srcOffset = channelsBefore(src, inputs.begin);
  src = someChannels(src, layout, inputs.count);
  weightsInside = anyLayout(KernelBuilder::widened(weights));
  setAlgorithm(algorithm);
}

int64_t ConvShape::countOutputsAtATime() const {
  constexpr size_t mostBytes = 1 << 20; // of half a second-level cache
  size_t bytes = weights.get_size();
  auto isShort = [](const KernelBuilder::MemoryDesc &desc) {
    return desc.data_type() == KernelBuilder::Type::f16;
  };
  if (groups > 1 || bytes <= mostBytes || isShort(src) || isShort(weights) ||
      isShort(dst) || !isReliable(/*isWeightGradient=*/true))
    return outputChannels;
  int64_t best = outputChannels;
  for (int64_t count = outputBlock; count < outputChannels;
       count += outputBlock)
    if (outputChannels % count == 0 &&
        bytes / outputChannels * count <= mostBytes)
      best = count;
  return best;
}

bool ConvShape::hasGradientTypes() const {
  const KernelBuilder::Type type = src.data_type();
  return weights.data_type() == KernelBuilder::Type::f32 &&
         dst.data_type() == type &&
         (type == KernelBuilder::Type::f32 ||
          type == KernelBuilder::Type::bf16);
}

std::optional<ConvGradientProduct::Shape> ConvShape::gradientProduct() const {
  return hasGradientTypes() ? productSizes() : std::nullopt;
}

std::optional<ConvGradientProduct::Shape> ConvShape::gradientOfGroup() const {
  if (groups == 1 || !hasGradientTypes())
    return std::nullopt;
  return groupSizes();
}

std::optional<PairConvolution::Shape> ConvShape::forwardPairs() const {
  const KernelBuilder::Type brain = KernelBuilder::Type::bf16;
  const auto sizes = productSizes();
  if (!sizes || !sizes->isShort || weights.data_type() != brain ||
      dst.data_type() != brain)
    return std::nullopt;
  return PairConvolution::Shape{*sizes, sizes->outputs};
}

/// The pixels of an image as terms, if each 16 channels lie together.
static std::optional<PairMatrixProduct::Terms>
termsOf(const ImagePlaces &places, int64_t samples, const ImageAxes &pixels,
        const ImageAxes &strides) {
  if (!places.isChannelsLast() && places.blockChannels != pairColumns)
    return std::nullopt;
  PairMatrixProduct::Terms terms{{samples, pixels[0], pixels[1], pixels[2]},
                                 {places.sample}};
  for (size_t axis = 0; axis < strides.size(); ++axis)
    terms.strides[axis + 1] = places.axes[axis] * strides[axis];
  if (!places.isChannelsLast())
    terms.block = places.block;
  return terms;
}

std::optional<PairMatrixProduct::Shape> ConvShape::gradientPairs() const {
  const auto sizes = gradientProduct();
  if (!sizes || !sizes->isShort || countOf(sizes->window) != 1 ||
      sizes->padding != ImageAxes{0, 0, 0})
    return std::nullopt;
  const auto x =
      termsOf(sizes->x, sizes->samples, sizes->result, sizes->strides);
  const auto dy = termsOf(sizes->dy, sizes->samples, sizes->result, {1, 1, 1});
  if (!x || !dy)
    return std::nullopt;
  const PairMatrixProduct::Shape product{
      sizes->outputs, sizes->pixels(), sizes->channels, *dy, *x,
      sizes->channels};
  return PairMatrixProduct::isPreferred(product) ? std::optional(product)
                                                 : std::nullopt;
}

std::optional<depthwise::Shape>
ConvShape::windowsOfChannels(KernelBuilder::Type weightsType) const {
  const KernelBuilder::Type type = src.data_type();
  const bool isShort = type == KernelBuilder::Type::bf16;
  const int64_t channels = src.dims()[1];
  const bool isGroup = groups > 1 || !isReliable(/*isWeightGradient=*/false);
  if (!isGroup || outputChannels != channels || packedBytes != 0 ||
      (type != KernelBuilder::Type::f32 && !isShort) ||
      dst.data_type() != type || weights.data_type() != weightsType)
    return std::nullopt;
  depthwise::Shape shape{
      KernelBuilder::windowSizes(
          src, dst,
          KernelBuilder::imageAxes(weights.dims(), groups > 1 ? 3 : 2, 1),
          strides, dilations, padLow),
      isShort, channels / groups};
  return depthwise::isPossible(shape) ? std::optional(shape) : std::nullopt;
}

std::optional<ConvGradientProduct::Shape> ConvShape::productSizes() const {
  if (groups > 1 || algorithm != dnnl::algorithm::convolution_direct)
    return std::nullopt;
  return groupSizes();
}

ConvGradientProduct::Shape ConvShape::groupSizes() const {
  ConvGradientProduct::Shape result{
      KernelBuilder::windowSizes(
          src, dst,
          KernelBuilder::imageAxes(weights.dims(), groups > 1 ? 3 : 2, 1),
          strides, dilations, padLow),
      outputChannels / groups, src.data_type() == KernelBuilder::Type::bf16,
      isAdded};
  result.channels /= groups;
  return result;
}

std::optional<ConvTiles::Shape> ConvShape::matrixTiles() const {
  const KernelBuilder::Type brain = KernelBuilder::Type::bf16;
  if (weights.data_type() != brain || src.data_type() != brain ||
      dst.data_type() != brain)
    return std::nullopt;
  return productSizes();
}

std::optional<WinogradConvolution::Shape>
ConvShape::inTiles(WinogradConvolution::Direction direction) const {
  if (weights.data_type() != src.data_type())
    return std::nullopt;
  return tilesOf(direction);
}

std::optional<WinogradConvolution::Shape> ConvShape::gradientInTiles() const {
  if (weights.data_type() != KernelBuilder::Type::f32)
    return std::nullopt;
  return tilesOf(WinogradConvolution::Direction::Forward);
}

std::optional<WinogradConvolution::Shape>
ConvShape::tilesOf(WinogradConvolution::Direction direction) const {
  const KernelBuilder::Type type = src.data_type();
  if (dst.data_type() != type ||
      (type != KernelBuilder::Type::bf16 &&
       (inPairs || type != KernelBuilder::Type::f32)))
    return std::nullopt;
  if (tileEdge == 0 || groups > 1 || strides.size() != 2 ||
      !isAll(strides, 1) || !isAll(dilations, 0) ||
      KernelBuilder::imageAxes(weights.dims(), 2, 3) != ImageAxes{3, 3, 3})
    return std::nullopt;
  bool isForward = direction == WinogradConvolution::Direction::Forward;
  KernelBuilder::Dims x = src.dims(), y = dst.dims();
  WinogradConvolution::Shape shape;
  shape.padTop = isForward ? padLow[0] : 2 - padLow[0];
  shape.padLeft = isForward ? padLow[1] : 2 - padLow[1];
  if (!isForward)
    std::swap(x, y);
  shape.samples = x[0];
  shape.channels = x[1];
  shape.outputs = y[1];
  shape.height = x[2];
  shape.width = x[3];
  shape.rows = y[2];
  shape.columns = y[3];
  shape.edge = tileEdge;
  shape.isShort = type == KernelBuilder::Type::bf16;
  shape.inPairs = inPairs;
  return shape;
}

ConvShape::ConvShape(Descriptor &descriptor, KernelBuilder &builder,
                     Division division)
    : division(division) {
  auto srcDims = descriptor.getDims("src");
  if (srcDims.size() < 3 || srcDims.size() > 5)
    throw DescriptorError("src: expected one to three spatial dimensions");
  size_t spatial = srcDims.size() - 2;
  auto weightDims = descriptor.getDims("weights", srcDims.size(), 1);
  auto dstDims = descriptor.getDims("dst", srcDims.size(), 1);
  strides = descriptor.getDims("strides", spatial, 1);
  dilations = descriptor.getDims("dilations", spatial, 1);
  padLow = descriptor.getDims("pad_lo", spatial, 0);
  padHigh = descriptor.getDims("pad_hi", spatial, 0);
  groups = descriptor.getInteger("groups", 1, 1 << 30);
  // Code goes along the last axis. Where that has a single place, as in the
  // signals of some exporters, it is left out; tensors lie as before.
  for (; spatial > 1 && srcDims.back() == 1 && weightDims.back() == 1 &&
         dstDims.back() == 1 && padLow.back() == 0 && padHigh.back() == 0;
       --spatial)
    for (KernelBuilder::Dims *sizes : {&srcDims, &weightDims, &dstDims,
                                       &strides, &dilations, &padLow, &padHigh})
      sizes->pop_back();
  outputChannels = weightDims[0];
  if (outputChannels % groups != 0 || weightDims[1] * groups != srcDims[1])
    throw DescriptorError("groups: does not divide the channels");
  // oneDNN counts the holes of a dilated kernel, ONNX the distance.
  for (int64_t &dilation : dilations)
    --dilation;
  if (groups > 1) {
    weightDims[0] /= groups;
    weightDims.insert(weightDims.begin(), groups);
  }
  auto types = KernelBuilder::types(descriptor, 3);
  layout = KernelBuilder::layout(descriptor);
  src = KernelBuilder::inLayout(srcDims, layout, types[0]);
  weights = KernelBuilder::dense(weightDims, types[1]);
  dst = KernelBuilder::inLayout(dstDims, layout, types[2]);
  if (descriptor.has("algorithm")) {
    std::string word = descriptor.getWords(
        "algorithm", 1,
        {"direct", "winograd", "winograd2", "winograd4", "winograd2_bf16"})[0];
    // oneDNN 2.6 mistakes the padding on one side for that on the other.
    if (word == "winograd" && padLow == padHigh)
      algorithm = dnnl::algorithm::convolution_winograd;
    inPairs = word == "winograd2_bf16";
    tileEdge = word == "winograd2" || inPairs ? 2 : word == "winograd4" ? 4 : 0;
  }
  packedBytes = readPackedBytes(descriptor);
  dstAlone = dst;
  if (!builder.isWhole() && division != Division::None) {
    bool hasSamples = srcDims[0] >= builder.countParts();
    bool isDivided = division == Division::Outputs || !hasSamples;
    if (isDivided && division != Division::Outputs && srcDims[0] == 1 &&
        layout == "channels_last") {
      takeRows(builder);
    } else if (isDivided && isOfOneImage() && groups > 1) {
      takeGroups(builder);
    } else if (isDivided && division != Division::Samples) {
      takeOutputs(builder);
    } else {
      takeSamples(builder);
      dstAlone = dst;
    }
  }
  weightsInside = anyLayout(KernelBuilder::widened(weights));
  setAlgorithm(algorithm);
}

void ConvShape::setAlgorithm(dnnl::algorithm which) {
  algorithm = which;
  bool isDirect = algorithm == dnnl::algorithm::convolution_direct;
  srcInside = isDirect ? insideOf(src) : anyLayout(src);
  dstInside = isDirect ? insideOf(dstAlone) : anyLayout(dst);
}

void ConvShape::setCopied(bool widen, dnnl::algorithm which) {
  std::optional<KernelBuilder::Type> type;
  if (widen)
    type = KernelBuilder::Type::f32;
  algorithm = which;
  srcInside = anyLayout(src, type);
  weightsInside =
      anyLayout(widen ? weights : KernelBuilder::widened(weights), type);
  dstInside = anyLayout(dst, type);
}

void ConvShape::setPlain() {
  auto plain = [](const KernelBuilder::MemoryDesc &desc) {
    return KernelBuilder::dense(desc.dims(), KernelBuilder::Type::f32);
  };
  algorithm = dnnl::algorithm::convolution_direct;
  srcInside = plain(src);
  weightsInside = plain(weights);
  dstInside = plain(dst);
}

bool ConvShape::isReliable(bool isWeightGradient) const {
  constexpr int64_t largestKernel = 13, shortestRow = 4;
  KernelBuilder::Dims kernel = weights.dims();
  kernel.erase(kernel.begin(), kernel.end() - strides.size());
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    int64_t reach = (kernel[axis] - 1) * (dilations[axis] + 1) + 1;
    if (kernel[axis] > largestKernel ||
        std::max(padLow[axis], padHigh[axis]) > reach / 2)
      return false;
  }
  if (!isWeightGradient || src.data_type() == KernelBuilder::Type::f32)
    return true;
  const bool isShallow = strides.size() == 3 && strides[0] > 1 &&
                         dst.dims()[2] <= 2 && padLow[0] > 0 && padHigh[0] > 0;
  return dst.dims().back() >= shortestRow && !isShallow;
}

bool ConvShape::isPointwise() const {
  auto isChannelsLast = [](const KernelBuilder::MemoryDesc &desc) {
    return desc.data_type() != KernelBuilder::Type::f16 &&
           desc == KernelBuilder::inLayout(desc.dims(), "channels_last",
                                           desc.data_type());
  };
  KernelBuilder::Dims kernel = weights.dims();
  bool isInGroups = kernel.size() != src.dims().size();
  if (isInGroups || src.data_type() != dst.data_type())
    return false;
  kernel.erase(kernel.begin(), kernel.begin() + 2);
  return isAll(kernel, 1) && isAll(strides, 1) && isAll(padLow, 0) &&
         isAll(padHigh, 0) && isChannelsLast(src) && isChannelsLast(dst);
}

bool ConvShape::isLibraryProduct() const {
  return isPointwise() &&
         !TiledProduct::isPreferred(KernelBuilder::dataType(src.data_type()));
}

bool ConvShape::hasSlowTypes() const {
  return !hasFastBFloat16() && (src.data_type() == KernelBuilder::Type::bf16 ||
                                dst.data_type() == KernelBuilder::Type::bf16);
}

dnnl::convolution_forward::primitive_desc
ConvShape::forward(KernelBuilder &builder,
                   std::optional<KernelBuilder::Type> type) const {
  auto inside = [&](const KernelBuilder::MemoryDesc &desc) {
    return type ? anyLayout(desc, type) : desc;
  };
  return {{dnnl::prop_kind::forward_training, algorithm, inside(srcInside),
           inside(weightsInside), inside(dstInside), strides, dilations, padLow,
           padHigh},
          builder.getAttributes(),
          builder.getEngine()};
}
