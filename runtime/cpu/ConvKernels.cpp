//===- ConvKernels.cpp - `conv_*` -----------------------------------------===//
#include "cpu/ConvEpilogue.h"
#include "cpu/ConvGradientProduct.h"
#include "cpu/ConvGradientRows.h"
#include "cpu/ConvGradientShifts.h"
#include "cpu/ConvGradientTiles.h"
#include "cpu/ConvTiles.h"
#include "cpu/DepthwiseConvolution.h"
#include "cpu/DepthwiseGradient.h"
#include "cpu/KernelBuilder.h"
#include "cpu/PackedWeights.h"
#include "cpu/PairConvolution.h"
#include "cpu/PairMatrixProduct.h"
#include "cpu/PairProduct.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"
#include "cpu/WinogradConvolution.h"
#include "cpu/WinogradGradient.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

using namespace pp::runtime;
using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;

using Direction = ConvDirection;

/// Output channels are divided in multiples of these.
static constexpr int64_t outputBlock = 16;

namespace {
/// What the parts of a convolution share: samples, or where there are too few
/// rows of an image with channels last, which lie together, else output
/// channels; the gradient of the weights is a sum over samples. `None` leaves
/// it to another.
enum class Division { None, SamplesOrOutputs, Samples, Outputs };

struct ConvShape {
  KernelBuilder::MemoryDesc src, weights, dst; // of the tensors, or a part
  uint64_t srcOffset = 0, weightsOffset = 0, dstOffset = 0, biasOffset = 0;
  // What the primitive works on: the layout of the tensor, or, for a plain one,
  // the layout that it likes best. Copies to and from the plain one cost less
  // than a convolution on that.
  KernelBuilder::MemoryDesc srcInside, weightsInside, dstInside;
  KernelBuilder::Dims strides, dilations, padLow, padHigh;
  int64_t outputChannels, groups;
  std::string layout; ///< of src and dst
  /// The bytes of the weights in the library's layout; 0: they are plain.
  size_t packedBytes = 0;
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  int64_t tileEdge = 0; ///< of tiles of our own, see inTiles; 0: the library
  bool inPairs = false; ///< those of bf16, see WinogradPairs.h
  bool isAdded = false; ///< the gradient of the weights, to what is there

  ConvShape(Descriptor &descriptor, KernelBuilder &builder, Division division);
  /// And what the tensors are inside, for it.
  void setAlgorithm(dnnl::algorithm which);
  /// Copies all tensors, into whatever layout the primitive likes; as f32, too,
  /// if `widen`.
  void setCopied(bool widen,
                 dnnl::algorithm which = dnnl::algorithm::convolution_direct);
  /// Copies all tensors that are not so as plain ones of f32.
  void setPlain();
  /// Whether the library's own code for it is right. oneDNN 2.6 is not, or
  /// writes outside of its tensors, for some windows that few models have:
  /// found among random ones with kernels of 16 to 32 or padding of more than
  /// half of the window, and in gradients of weights from factors of 16 bits
  /// (`isWeightGradient`) where a row of the output has up to three elements.
  bool isReliable(bool isWeightGradient) const;
  /// Whether it is a product of matrices with a row for each pixel, of one
  /// type.
  bool isPointwise() const;
  /// Whether the gradient of its weights is one that the library makes.
  bool isLibraryProduct() const;
  /// Whether convolutions of f32 are faster than those of its types.
  bool hasSlowTypes() const;
  /// How many output channels to make the gradient of the weights of at a time:
  /// what the library writes is still in a cache when it is copied from its
  /// layout.
  int64_t countOutputsAtATime() const;
  /// The sizes of the gradient of the weights as one product; nothing for
  /// groups, another algorithm, and other types than f32 or factors of bf16.
  std::optional<ConvGradientProduct::Shape> gradientProduct() const;
  /// Those of the convolution of few pixels in pairs, where that is faster.
  std::optional<PairConvolution::Shape> forwardPairs() const;
  /// Those of the gradient of weights of one place as a product of pairs, where
  /// that is faster.
  std::optional<PairMatrixProduct::Shape> gradientPairs() const;
  /// The sizes of the convolution, or of the gradient of src, in matrix tiles,
  /// if its types allow it.
  std::optional<ConvTiles::Shape> matrixTiles() const;
  /// The sizes of Winograd's algorithm in tiles of our own, forward or for the
  /// gradient of src, but for where its tensors lie; nothing for another
  /// algorithm, or what it does not compute.
  std::optional<WinogradConvolution::Shape>
  inTiles(WinogradConvolution::Direction direction) const;
  /// The same for the gradient of weights, which is f32.
  std::optional<WinogradConvolution::Shape> gradientInTiles() const;
  /// The sizes of a convolution with groups of few channels, or of its
  /// gradients, where we have code for it; `weightsType` is that of weights.
  std::optional<depthwise::Shape>
  windowsOfChannels(KernelBuilder::Type weightsType) const;
  /// Leaves some of the output channels; offsets are from what there was.
  void takeOutputs(KernelBuilder::Range outputs);
  convolution_forward::primitive_desc
  forward(KernelBuilder &builder,
          std::optional<KernelBuilder::Type> type = {}) const;

private:
  /// The sizes of a product; nothing for groups and another algorithm.
  std::optional<ConvGradientProduct::Shape> productSizes() const;
  /// Those sizes, whatever the type of the weights.
  std::optional<WinogradConvolution::Shape>
  tilesOf(WinogradConvolution::Direction direction) const;
  void takeSamples(KernelBuilder &builder);
  void takeRows(KernelBuilder &builder);
  void takeOutputs(KernelBuilder &builder);
  /// The layout of dst if it is not a part of a tensor.
  KernelBuilder::MemoryDesc dstAlone;
};
} // namespace

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
  int64_t last = std::min(end, from[height]);
  if (first >= last)
    throw DescriptorError("parts: one would have nothing but padding");
  padLow[0] = first - begin;
  padHigh[0] = end - last;
  srcOffset = offsetOf(src, first);
  dstOffset = offsetOf(dst, rows.begin);
  from[height] = last - first;
  to[height] = rows.count;
  src = KernelBuilder::inLayout(from, layout, src.data_type());
  dst = dstAlone = KernelBuilder::inLayout(to, layout, dst.data_type());
}

/// Leaves the output channels of a part.
void ConvShape::takeOutputs(KernelBuilder &builder) {
  if (groups > 1 || outputChannels % outputBlock != 0)
    throw DescriptorError("parts: there is not enough to share");
  takeOutputs(builder.share(outputChannels, outputBlock));
}

void ConvShape::takeOutputs(KernelBuilder::Range outputs) {
  KernelBuilder::Slice part = KernelBuilder::slice(weights, 0, outputs);
  weights = part.desc;
  weightsOffset = part.offset;
  biasOffset = outputs.begin * sizeof(float);
  if (packedBytes != 0) {
    weightsOffset = packedBytes / outputChannels * outputs.begin;
    packedBytes = packedBytes / outputChannels * outputs.count;
  }
  KernelBuilder::Dims dims = dst.dims(), offsets(dims.size(), 0);
  dims[1] = outputs.count;
  offsets[1] = outputs.begin;
  dstAlone = KernelBuilder::inLayout(dims, layout, dst.data_type());
  dst = dst.submemory_desc(dims, offsets);
  size_t size = dnnl::memory::data_type_size(dst.data_type());
  dstOffset = dst.data.offset0 * size;
  dst.data.offset0 = 0;
  // Nothing is between the channels of a single sample.
  if (dims[0] == 1 && layout != "channels_last")
    dst = dstAlone;
  outputChannels = outputs.count;
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

std::optional<ConvGradientProduct::Shape> ConvShape::gradientProduct() const {
  const KernelBuilder::Type type = src.data_type();
  if (weights.data_type() != KernelBuilder::Type::f32 ||
      dst.data_type() != type ||
      (type != KernelBuilder::Type::f32 && type != KernelBuilder::Type::bf16))
    return std::nullopt;
  return productSizes();
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
  if (groups == 1 || outputChannels != channels || packedBytes != 0 ||
      (type != KernelBuilder::Type::f32 && !isShort) ||
      dst.data_type() != type || weights.data_type() != weightsType)
    return std::nullopt;
  depthwise::Shape shape{
      KernelBuilder::windowSizes(src, dst,
                                 KernelBuilder::imageAxes(weights.dims(), 3, 1),
                                 strides, dilations, padLow),
      isShort, channels / groups};
  return depthwise::isPossible(shape) ? std::optional(shape) : std::nullopt;
}

std::optional<ConvGradientProduct::Shape> ConvShape::productSizes() const {
  if (groups > 1 || algorithm != dnnl::algorithm::convolution_direct)
    return std::nullopt;
  return ConvGradientProduct::Shape{
      KernelBuilder::windowSizes(src, dst,
                                 KernelBuilder::imageAxes(weights.dims(), 2, 1),
                                 strides, dilations, padLow),
      outputChannels, src.data_type() == KernelBuilder::Type::bf16, isAdded};
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
  auto isAll = [](const KernelBuilder::Dims &sizes, int64_t size) {
    return std::all_of(sizes.begin(), sizes.end(),
                       [&](int64_t each) { return each == size; });
  };
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
                     Division division) {
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
    if (word == "winograd")
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
  return !isWeightGradient || src.data_type() == KernelBuilder::Type::f32 ||
         dst.dims().back() >= shortestRow;
}

bool ConvShape::isPointwise() const {
  auto isAll = [](const KernelBuilder::Dims &sizes, int64_t size) {
    return std::all_of(sizes.begin(), sizes.end(),
                       [&](int64_t each) { return each == size; });
  };
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

/// Goes on to code of the library that is no generated convolution: a product
/// with columns of what the windows see, or plain loops.
template <typename Desc> static void demandPlainCode(Desc &desc) {
  auto isPlain = [&] {
    std::string_view name = desc.impl_info_str();
    return name.starts_with("ref") || name.find("gemm") != name.npos;
  };
  while (!isPlain())
    if (!desc.next_impl())
      throw dnnl::error(dnnl_unimplemented, "no plain convolution");
}

/// What `make` makes of the shape. Where the library has no generated code for
/// it, which is a hundred times faster than its other code, the next of these
/// is tried: the direct algorithm, copies in another layout, copies in f32.
template <typename Make>
static auto describe(ConvShape &shape, const Make &make,
                     bool isWeightGradient = false) {
  using Desc = decltype(make());
  if (!shape.isReliable(isWeightGradient)) {
    shape.setPlain();
    Desc desc = make();
    demandPlainCode(desc);
    return desc;
  }
  using Attempt = std::function<void()>;
  const ConvShape given = shape;
  std::vector<Attempt> attempts;
  if (shape.hasSlowTypes()) {
    attempts.push_back(
        [&] { shape.setCopied(/*widen=*/true, given.algorithm); });
    attempts.push_back([&] { shape.setCopied(/*widen=*/true); });
  }
  attempts.push_back([] {});
  if (shape.algorithm != dnnl::algorithm::convolution_direct)
    attempts.push_back(
        [&] { shape.setAlgorithm(dnnl::algorithm::convolution_direct); });
  attempts.push_back([&] { shape.setCopied(/*widen=*/false); });
  attempts.push_back([&] { shape.setCopied(/*widen=*/true); });
  std::optional<std::pair<ConvShape, Desc>> slow;
  for (const Attempt &attempt : attempts) {
    shape = given;
    attempt();
    try {
      Desc desc = make();
      if (!std::string_view(desc.impl_info_str()).starts_with("ref"))
        return desc;
      if (!slow)
        slow.emplace(shape, std::move(desc));
    } catch (const dnnl::error &e) {
      if (e.status != dnnl_unimplemented)
        throw;
    }
  }
  if (!slow)
    throw dnnl::error(dnnl_unimplemented, "no convolution of this shape");
  shape = slow->first;
  return slow->second;
}

/// The weights as the caller has them.
template <typename Desc>
static dnnl::memory addWeights(const ConvShape &shape, const Desc &desc,
                               KernelBuilder &builder) {
  if (shape.packedBytes == 0)
    return builder.addTensor(shape.weights, shape.weightsOffset);
  demandPacked(desc.weights_desc().get_size(), shape.packedBytes);
  return builder.addTensor(desc.weights_desc(), shape.weightsOffset);
}

/// With a type, that of all tensors: a hint for a backward primitive whose
/// result is longer than its factors.
convolution_forward::primitive_desc
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

/// The type that the forward pass of a mixed convolution had, for hints.
static std::optional<KernelBuilder::Type> hintType(const ConvShape &shape) {
  if (shape.srcInside.data_type() == KernelBuilder::Type::f32 &&
      shape.dstInside.data_type() == KernelBuilder::Type::f32)
    return std::nullopt;
  return KernelBuilder::Type::bf16;
}

static auto describeForward(ConvShape &shape, KernelBuilder &builder) {
  return describe(shape, [&] { return shape.forward(builder); });
}

static auto makeBackwardData(const ConvShape &shape, KernelBuilder &builder) {
  return convolution_backward_data::primitive_desc(
      {shape.algorithm, shape.srcInside, shape.weightsInside, shape.dstInside,
       shape.strides, shape.dilations, shape.padLow, shape.padHigh},
      builder.getAttributes(), builder.getEngine(),
      shape.forward(builder, hintType(shape)));
}

static auto makeBackwardWeights(const ConvShape &shape,
                                KernelBuilder &builder) {
  return convolution_backward_weights::primitive_desc(
      {shape.algorithm, shape.srcInside, shape.weightsInside, shape.dstInside,
       shape.strides, shape.dilations, shape.padLow, shape.padHigh},
      builder.getAttributes(), builder.getEngine(),
      shape.forward(builder, hintType(shape)));
}

static dnnl::primitive_attr attributesOf(const ConvEpilogue &epilogue) {
  // A copy of the builder's would be the same object.
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops operations;
  if (epilogue.activation == ConvEpilogue::Relu)
    operations.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  else if (epilogue.activation == ConvEpilogue::Clip)
    operations.append_eltwise(1, dnnl::algorithm::eltwise_clip, epilogue.low,
                              epilogue.high);
  attributes.set_post_ops(operations);
  return attributes;
}

namespace {
/// A forward convolution and what follows it. All have the layouts that the
/// convolution alone would have, as which weights are packed.
struct ConvForward {
  using Desc = convolution_forward::primitive_desc;
  Desc plain; ///< with the bias
  /// And with the activation; empty where the library does not have that.
  std::optional<Desc> fused;
  bool isAsFast = true; ///< whether what is used is the code of the convolution

  ConvForward(ConvShape &shape, const ConvEpilogue &epilogue,
              KernelBuilder &builder);
};
} // namespace

ConvForward::ConvForward(ConvShape &shape, const ConvEpilogue &epilogue,
                         KernelBuilder &builder)
    : plain(describeForward(shape, builder)) {
  if (epilogue.isEmpty())
    return;
  if (epilogue.activation != ConvEpilogue::None &&
      shape.dst.data_type() != KernelBuilder::Type::f32)
    throw DescriptorError("activation: only of f32");
  const std::string code = plain.impl_info_str();
  KernelBuilder::MemoryDesc bias;
  if (epilogue.hasBias)
    bias = KernelBuilder::dense({shape.outputChannels});
  auto make = [&](const dnnl::primitive_attr &attributes) -> Desc {
    return {{dnnl::prop_kind::forward_training, shape.algorithm,
             plain.src_desc(), plain.weights_desc(), bias, plain.dst_desc(),
             shape.strides, shape.dilations, shape.padLow, shape.padHigh},
            attributes,
            builder.getEngine()};
  };
  if (epilogue.hasBias) {
    plain = make(builder.getAttributes());
    if (!shape.isReliable(/*isWeightGradient=*/false))
      demandPlainCode(plain);
  }
  isAsFast = plain.impl_info_str() == code;
  if (epilogue.activation == ConvEpilogue::None)
    return;
  isAsFast = false;
  if (!shape.isReliable(/*isWeightGradient=*/false))
    return;
  try {
    Desc desc = make(attributesOf(epilogue));
    if (desc.impl_info_str() != code)
      return;
    fused = desc;
    isAsFast = true;
  } catch (const dnnl::error &error) {
    if (error.status != dnnl_unimplemented)
      throw;
  }
}

//===----------------------------------------------------------------------===//
// Winograd's algorithm in tiles of our own
//===----------------------------------------------------------------------===//

/// Whether the whole kernel, and so each part of it, is computed so.
static bool isInTiles(Descriptor &descriptor, KernelBuilder &builder,
                      Direction direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  auto shape = whole.inTiles(direction);
  return shape && WinogradConvolution::isPossible(*shape);
}

static KernelBuilder::MemoryDesc numbersIn(uint64_t bytes,
                                           bool areShort = false) {
  const auto type =
      areShort ? KernelBuilder::Type::bf16 : KernelBuilder::Type::f32;
  return KernelBuilder::dense(
      {int64_t(bytes / dnnl::memory::data_type_size(type))}, type);
}

/// The tensors of a convolution, or of the gradient of its input.
static std::vector<KernelBuilder::Tensor>
describeTensors(const ConvShape &shape, Direction direction,
                const ConvEpilogue &epilogue) {
  const bool isForward = direction == Direction::Forward;
  std::vector<KernelBuilder::Tensor> tensors{
      KernelBuilder::tensorOf(isForward ? shape.src : shape.dst),
      KernelBuilder::tensorOf(shape.weights, shape.packedBytes)};
  if (epilogue.hasBias)
    tensors.push_back(
        KernelBuilder::tensorOf(DataType::F32, shape.outputChannels));
  tensors.push_back(KernelBuilder::tensorOf(isForward ? shape.dst : shape.src));
  return tensors;
}

/// Those of the gradient of its weights.
static std::vector<KernelBuilder::Tensor>
describeGradientTensors(const ConvShape &shape) {
  return {KernelBuilder::tensorOf(shape.src),
          KernelBuilder::tensorOf(shape.dst),
          KernelBuilder::tensorOf(shape.weights)};
}

/// Weights as they are, and in a layout of our own of numbers of `type`.
static std::vector<KernelBuilder::Tensor>
describePacking(const ConvShape &shape, DataType type) {
  return {KernelBuilder::tensorOf(shape.weights), {shape.packedBytes, type}};
}

/// The tensor with channels that lie together, in blocks or all of them.
static KernelBuilder::MemoryDesc
withLanes(const KernelBuilder::MemoryDesc &desc) {
  ImagePlaces places = KernelBuilder::imagePlaces(desc);
  bool areTogether =
      places.blockChannels % WinogradConvolution::multiple == 0 ||
      (places.blockChannels == 1 && places.block == 1);
  return areTogether ? desc
                     : KernelBuilder::inLayout(desc.dims(), "channels_last",
                                               desc.data_type());
}

/// From the tensors, or parts of them, x, weights, bias and y.
static void buildTiles(const ConvShape &of, Direction direction,
                       const ConvEpilogue &epilogue, KernelBuilder &builder) {
  WinogradConvolution::Shape shape = *of.inTiles(direction);
  const bool isForward = direction == Direction::Forward;
  const bool isPacked = of.packedBytes != 0;
  const uint64_t weightBytes = WinogradConvolution::getWeightBytes(shape);
  if (isPacked)
    demandPacked(weightBytes, of.packedBytes);
  const auto &xDesc = isForward ? of.src : of.dst;
  const auto &yDesc = isForward ? of.dst : of.src;
  auto x = builder.addTensor(xDesc, isForward ? of.srcOffset : of.dstOffset);
  auto weights = builder.addTensor(
      isPacked ? numbersIn(weightBytes, shape.inPairs) : of.weights,
      of.weightsOffset);
  dnnl::memory bias;
  if (epilogue.hasBias)
    bias =
        builder.addTensor(KernelBuilder::dense({shape.outputs}), of.biasOffset);
  auto y = builder.addResult(yDesc, isForward ? of.dstOffset : of.srcOffset);
  auto xInside = readAs(builder, x, withLanes(xDesc));
  auto yInside = writeAs(builder, y, withLanes(yDesc));
  shape.x = KernelBuilder::imagePlaces(xInside.get_desc());
  shape.y = KernelBuilder::imagePlaces(yInside.get_desc());
  auto transformed =
      isPacked ? weights : builder.addTemporary(numbersIn(weightBytes));
  const WinogradConvolution convolution(shape);
  auto scratchpad =
      builder.addTemporary(numbersIn(convolution.getScratchpadBytes()));
  builder.addWork([=] {
    auto at = [](const dnnl::memory &memory) {
      return static_cast<float *>(memory.get_data_handle());
    };
    if (!isPacked)
      WinogradConvolution::transformWeights(shape, weights.get_data_handle(),
                                            direction,
                                            transformed.get_data_handle());
    convolution.run(xInside.get_data_handle(), transformed.get_data_handle(),
                    epilogue.hasBias ? at(bias) : nullptr, epilogue,
                    yInside.get_data_handle(), at(scratchpad));
  });
  writeBack(builder, yInside, y);
}

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

static void buildPackTiles(const ConvShape &of, Direction direction,
                           KernelBuilder &builder) {
  const WinogradConvolution::Shape shape = *of.inTiles(direction);
  if (of.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(WinogradConvolution::getWeightBytes(shape), of.packedBytes);
  builder.setFunction(
      describePacking(of, shape.inPairs ? DataType::BF16 : DataType::F32),
      [=](void *const *tensors, void *) {
        WinogradConvolution::transformWeights(shape, tensors[0], direction,
                                              tensors[1]);
      });
}

//===----------------------------------------------------------------------===//
// Few pixels
//===----------------------------------------------------------------------===//

/// Whether the whole kernel, and so each part of it, is computed in pairs.
static bool isForwardInPairs(Descriptor &descriptor, KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  const auto pairs = whole.forwardPairs();
  return pairs && PairConvolution::isPreferred(*pairs);
}

/// From the tensors x, weights, bias and y.
static void buildPairs(const ConvShape &of, const ConvEpilogue &epilogue,
                       KernelBuilder &builder) {
  const PairConvolution convolution(*of.forwardPairs());
  const PairConvolution::Shape shape = *of.forwardPairs();
  const bool isPacked = of.packedBytes != 0;
  const uint64_t weightBytes = PairConvolution::getWeightBytes(shape);
  if (isPacked)
    demandPacked(weightBytes, of.packedBytes);
  const uint64_t ownBytes = isPacked ? 0 : alignUp(weightBytes);
  const std::array<uint64_t, 4> offsets = {of.srcOffset, of.weightsOffset,
                                           of.biasOffset, of.dstOffset};
  builder.setFunction(
      describeTensors(of, Direction::Forward, epilogue),
      [=](void *const *tensors, void *scratchpad) {
        auto at = [&](int tensor, int of) {
          return static_cast<char *>(tensors[tensor]) + offsets[of];
        };
        auto *weights = reinterpret_cast<uint16_t *>(at(1, 1));
        auto *own = static_cast<char *>(scratchpad);
        if (!isPacked)
          PairConvolution::packWeights(shape, weights,
                                       reinterpret_cast<uint16_t *>(own));
        convolution.run(
            reinterpret_cast<uint16_t *>(at(0, 0)),
            isPacked ? weights : reinterpret_cast<uint16_t *>(own),
            epilogue.hasBias ? reinterpret_cast<float *>(at(2, 2)) : nullptr,
            epilogue,
            reinterpret_cast<uint16_t *>(at(epilogue.hasBias ? 3 : 2, 3)),
            own + ownBytes);
      },
      ownBytes + convolution.getScratchpadBytes());
}

static void buildPackPairs(const ConvShape &of, KernelBuilder &builder) {
  const PairConvolution::Shape shape = *of.forwardPairs();
  if (of.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(PairConvolution::getWeightBytes(shape), of.packedBytes);
  builder.setFunction(
      describePacking(of, DataType::BF16), [=](void *const *tensors, void *) {
        PairConvolution::packWeights(shape, static_cast<uint16_t *>(tensors[0]),
                                     static_cast<uint16_t *>(tensors[1]));
      });
}

//===----------------------------------------------------------------------===//
// Matrix tiles
//===----------------------------------------------------------------------===//

/// Whether the whole kernel, and so each part of it, is computed in matrix
/// tiles.
static bool isInMatrixTiles(Descriptor &descriptor, KernelBuilder &builder,
                            Direction direction) {
  const ConvShape whole(descriptor, builder, Division::None);
  auto sizes = whole.matrixTiles();
  return sizes && ConvTiles::isPreferred(*sizes, direction);
}

static ConvTiles makeMatrixTiles(const ConvShape &shape, Direction direction) {
  return {*shape.matrixTiles(), direction, matrixTilesAmx};
}

/// From the tensors, or parts of them, x, weights, bias and y, or dY, weights
/// and dX.
static void buildMatrixTiles(const ConvShape &shape, Direction direction,
                             const ConvEpilogue &epilogue,
                             KernelBuilder &builder) {
  const ConvTiles tiles = makeMatrixTiles(shape, direction);
  const bool isForward = direction == Direction::Forward;
  const bool isPacked = shape.packedBytes != 0;
  const uint64_t weightBytes = tiles.getWeightBytes();
  if (isPacked)
    demandPacked(weightBytes, shape.packedBytes);
  auto from = isForward ? builder.addTensor(shape.src, shape.srcOffset)
                        : builder.addTensor(shape.dst, shape.dstOffset);
  auto weights = builder.addTensor(
      isPacked ? numbersIn(weightBytes, /*areShort=*/true) : shape.weights,
      shape.weightsOffset);
  dnnl::memory bias;
  if (epilogue.hasBias)
    bias = builder.addTensor(KernelBuilder::dense({shape.outputChannels}),
                             shape.biasOffset);
  auto to = isForward ? builder.addResult(shape.dst, shape.dstOffset)
                      : builder.addResult(shape.src, shape.srcOffset);
  auto scratchpad =
      builder.addTemporary(numbersIn(tiles.getScratchpadBytes(isPacked)));
  builder.addWork([=] {
    auto at = [](const dnnl::memory &memory) {
      return static_cast<uint16_t *>(memory.get_data_handle());
    };
    const auto *summand = static_cast<const float *>(
        epilogue.hasBias ? bias.get_data_handle() : nullptr);
    if (isPacked)
      tiles.runPacked(at(from), at(weights), summand, epilogue, at(to),
                      at(scratchpad));
    else
      tiles.run(at(from), at(weights), summand, epilogue, at(to),
                at(scratchpad));
  });
}

static void buildPackMatrixTiles(const ConvShape &shape, Direction direction,
                                 KernelBuilder &builder) {
  const ConvTiles tiles = makeMatrixTiles(shape, direction);
  if (shape.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  demandPacked(tiles.getWeightBytes(), shape.packedBytes);
  builder.setFunction(describePacking(shape, DataType::BF16),
                      [=](void *const *tensors, void *) {
                        tiles.packWeights(static_cast<uint16_t *>(tensors[0]),
                                          tensors[1]);
                      });
}

//===----------------------------------------------------------------------===//
// Groups of few channels
//===----------------------------------------------------------------------===//

/// Sizes for code of our own, where that is faster (measured on Zen 5): where
/// the library has no generated code for these tensors as they lie, but for
/// groups of eight, and for gradients of weights but those of single channels
/// with up to nine places from bf16 or plain tensors. `make` makes a primitive
/// of the whole kernel.
template <typename Make>
static std::optional<depthwise::Shape>
findWindows(const ConvShape &whole, KernelBuilder::Type weightsType,
            bool isWeightGradient, const Make &make) {
  constexpr int64_t fewPlaces = 9, manyChannels = 8;
  auto sizes = whole.windowsOfChannels(weightsType);
  if (!sizes)
    return std::nullopt;
  const int64_t group = sizes->groupChannels;
  const bool isPlain = whole.layout == "plain";
  if (isWeightGradient && ((!sizes->isShort && !isPlain) || group > 1 ||
                           countOf(sizes->window) > fewPlaces))
    return sizes;
  if (!isWeightGradient && group >= manyChannels)
    return std::nullopt;
  if (whole.hasSlowTypes() || !whole.isReliable(isWeightGradient))
    return sizes;
  try {
    if (!std::string_view(make().impl_info_str()).starts_with("ref"))
      return std::nullopt;
  } catch (const dnnl::error &error) {
    if (error.status != dnnl_unimplemented)
      throw;
  }
  return sizes;
}

static std::optional<depthwise::Shape>
findForwardWindows(Descriptor &descriptor, KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  return findWindows(whole, whole.src.data_type(), /*isWeightGradient=*/false,
                     [&] { return whole.forward(builder); });
}

static std::optional<depthwise::Shape>
findBackwardWindows(Descriptor &descriptor, KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  return findWindows(whole, whole.src.data_type(), /*isWeightGradient=*/false,
                     [&] { return makeBackwardData(whole, builder); });
}

/// Threads share channels, or samples, or rows: the first of which there are
/// enough.
static depthwise::Part partOf(const depthwise::Shape &shape, int64_t rows,
                              KernelBuilder &builder) {
  depthwise::Part part{{0, shape.blocks()}, {0, shape.samples}, {0, rows}};
  const int64_t parts = builder.countParts();
  auto &shared = part.blocks.count >= parts    ? part.blocks
                 : part.samples.count >= parts ? part.samples
                                               : part.rows;
  const auto share = builder.share(shared.count);
  shared = {share.begin, share.count};
  return part;
}

/// From the tensors `from`, weights, bias and `to`.
static void buildDepthwise(const depthwise::Shape &shape, Direction direction,
                           const ConvEpilogue &epilogue, Descriptor &descriptor,
                           KernelBuilder &builder) {
  DepthwiseConvolution convolution(shape, direction);
  const ConvShape whole(descriptor, builder, Division::None);
  const auto part = partOf(shape, convolution.countRows(), builder);
  const uint64_t bytes = convolution.getScratchpadBytes();
  builder.setFunction(
      describeTensors(whole, direction, epilogue),
      [convolution, epilogue, part](void *const *tensors, void *scratchpad) {
        const auto *bias =
            static_cast<const float *>(epilogue.hasBias ? tensors[2] : nullptr);
        convolution.run(tensors[0], tensors[1], bias, epilogue,
                        tensors[epilogue.hasBias ? 3 : 2], part, scratchpad);
      },
      bytes);
}

/// From x and dY to the gradient of the weights.
static void buildDepthwiseGradient(const depthwise::Shape &shape,
                                   const ConvShape &whole,
                                   KernelBuilder &builder) {
  DepthwiseGradient gradient(shape, whole.isAdded);
  const auto share = builder.share(shape.blocks());
  const uint64_t bytes = gradient.getScratchpadBytes();
  builder.setFunction(
      describeGradientTensors(whole),
      [gradient, share](void *const *tensors, void *scratchpad) {
        gradient.run(tensors[0], tensors[1], static_cast<float *>(tensors[2]),
                     share.begin, share.count, scratchpad);
      },
      bytes);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void pp::runtime::buildConvForward(Descriptor &descriptor,
                                   KernelBuilder &builder) {
  if (auto windows = findForwardWindows(descriptor, builder))
    return buildDepthwise(*windows, Direction::Forward,
                          ConvEpilogue(descriptor), descriptor, builder);
  const bool isInOwnTiles = isInTiles(descriptor, builder, Direction::Forward);
  const bool isInPairs = isForwardInPairs(descriptor, builder);
  const bool isOfMatrices =
      isInMatrixTiles(descriptor, builder, Direction::Forward);
  ConvShape shape(descriptor, builder, Division::SamplesOrOutputs);
  ConvEpilogue epilogue(descriptor);
  if (isInOwnTiles)
    return buildTiles(shape, Direction::Forward, epilogue, builder);
  if (isInPairs)
    return buildPairs(shape, epilogue, builder);
  if (isOfMatrices)
    return buildMatrixTiles(shape, Direction::Forward, epilogue, builder);
  ConvForward forward(shape, epilogue, builder);
  const ConvForward::Desc &desc = forward.plain;
  auto src = builder.addTensor(shape.src, shape.srcOffset);
  auto weights = addWeights(shape, desc, builder);
  dnnl::memory bias;
  if (epilogue.hasBias)
    bias = builder.addTensor(desc.bias_desc(), shape.biasOffset);
  auto dst = builder.addResult(shape.dst, shape.dstOffset);
  auto srcInside = readAs(builder, src, desc.src_desc());
  auto weightsInside = readAs(builder, weights, desc.weights_desc());
  auto dstInside = writeAs(builder, dst, desc.dst_desc());
  std::vector<KernelBuilder::Argument> arguments{
      {DNNL_ARG_SRC, srcInside},
      {DNNL_ARG_WEIGHTS, weightsInside},
      {DNNL_ARG_DST, dstInside}};
  if (epilogue.hasBias)
    arguments.push_back({DNNL_ARG_BIAS, bias});
  if (forward.fused && KernelBuilder::canGuard()) {
    builder.addPrimitive(convolution_forward(*forward.fused),
                         forward.fused->scratchpad_desc(), arguments);
    builder.guardNext(2);
  }
  builder.addPrimitive(convolution_forward(desc), desc.scratchpad_desc(),
                       arguments);
  if (epilogue.activation != ConvEpilogue::None)
    // Dense in any layout; a part has memory of its own.
    builder.addWork([epilogue, dstInside] {
      epilogue.apply(static_cast<float *>(dstInside.get_data_handle()),
                     dstInside.get_desc().get_size() / sizeof(float));
    });
  writeBack(builder, dstInside, dst);
}

bool pp::runtime::isConvFused(Descriptor &descriptor, KernelBuilder &builder) {
  ConvEpilogue epilogue(descriptor);
  if (findForwardWindows(descriptor, builder) ||
      isInTiles(descriptor, builder, Direction::Forward) ||
      isForwardInPairs(descriptor, builder) ||
      isInMatrixTiles(descriptor, builder, Direction::Forward))
    return true;
  ConvShape shape(descriptor, builder, Division::SamplesOrOutputs);
  return ConvForward(shape, epilogue, builder).isAsFast;
}

static auto describeBackwardData(ConvShape &shape, KernelBuilder &builder) {
  return describe(shape, [&] { return makeBackwardData(shape, builder); });
}

void pp::runtime::buildConvBackwardData(Descriptor &descriptor,
                                        KernelBuilder &builder) {
  if (auto windows = findBackwardWindows(descriptor, builder))
    return buildDepthwise(*windows, Direction::Backward, {}, descriptor,
                          builder);
  bool isInOwnTiles = isInTiles(descriptor, builder, Direction::Backward);
  bool isOfMatrices = isInMatrixTiles(descriptor, builder, Direction::Backward);
  ConvShape shape(descriptor, builder, Division::Samples);
  if (isInOwnTiles)
    return buildTiles(shape, Direction::Backward, {}, builder);
  if (isOfMatrices)
    return buildMatrixTiles(shape, Direction::Backward, {}, builder);
  auto desc = describeBackwardData(shape, builder);
  auto diffDst = builder.addTensor(shape.dst, shape.dstOffset);
  auto weights = addWeights(shape, desc, builder);
  auto diffSrc = builder.addResult(shape.src, shape.srcOffset);
  auto diffDstInside = readAs(builder, diffDst, desc.diff_dst_desc());
  auto weightsInside = readAs(builder, weights, desc.weights_desc());
  auto diffSrcInside = writeAs(builder, diffSrc, desc.diff_src_desc());
  builder.addPrimitive(convolution_backward_data(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_DIFF_DST, diffDstInside},
                        {DNNL_ARG_WEIGHTS, weightsInside},
                        {DNNL_ARG_DIFF_SRC, diffSrcInside}});
  writeBack(builder, diffSrcInside, diffSrc);
}

void pp::runtime::buildPackConvForward(Descriptor &descriptor,
                                       KernelBuilder &builder) {
  if (!ConvEpilogue(descriptor).isEmpty())
    throw DescriptorError("bias: weights are packed for none");
  if (isInTiles(descriptor, builder, Direction::Forward))
    return buildPackTiles(ConvShape(descriptor, builder, Division::None),
                          Direction::Forward, builder);
  if (isForwardInPairs(descriptor, builder))
    return buildPackPairs(ConvShape(descriptor, builder, Division::None),
                          builder);
  if (isInMatrixTiles(descriptor, builder, Direction::Forward))
    return buildPackMatrixTiles(ConvShape(descriptor, builder, Division::None),
                                Direction::Forward, builder);
  ConvShape shape(descriptor, builder, Division::SamplesOrOutputs);
  auto desc = describeForward(shape, builder);
  buildPack(shape.weights, desc.weights_desc(), shape.packedBytes, builder);
}

void pp::runtime::buildPackConvBackwardData(Descriptor &descriptor,
                                            KernelBuilder &builder) {
  if (isInTiles(descriptor, builder, Direction::Backward))
    return buildPackTiles(ConvShape(descriptor, builder, Division::None),
                          Direction::Backward, builder);
  if (isInMatrixTiles(descriptor, builder, Direction::Backward))
    return buildPackMatrixTiles(ConvShape(descriptor, builder, Division::None),
                                Direction::Backward, builder);
  ConvShape shape(descriptor, builder, Division::Samples);
  auto desc = describeBackwardData(shape, builder);
  buildPack(shape.weights, desc.weights_desc(), shape.packedBytes, builder);
}

uint64_t pp::runtime::measurePackedConvForward(Descriptor &descriptor,
                                               KernelBuilder &builder) {
  if (findForwardWindows(descriptor, builder))
    return 0;
  ConvShape shape(descriptor, builder, Division::SamplesOrOutputs);
  if (isInTiles(descriptor, builder, Direction::Forward))
    return WinogradConvolution::getWeightBytes(
        *shape.inTiles(Direction::Forward));
  if (isForwardInPairs(descriptor, builder))
    return PairConvolution::getWeightBytes(*shape.forwardPairs());
  if (isInMatrixTiles(descriptor, builder, Direction::Forward))
    return makeMatrixTiles(shape, Direction::Forward).getWeightBytes();
  auto desc = describeForward(shape, builder);
  return measurePacked(shape.weights, desc.weights_desc());
}

uint64_t pp::runtime::measurePackedConvBackwardData(Descriptor &descriptor,
                                                    KernelBuilder &builder) {
  if (findBackwardWindows(descriptor, builder))
    return 0;
  ConvShape shape(descriptor, builder, Division::Samples);
  if (isInTiles(descriptor, builder, Direction::Backward))
    return WinogradConvolution::getWeightBytes(
        *shape.inTiles(Direction::Backward));
  if (isInMatrixTiles(descriptor, builder, Direction::Backward))
    return makeMatrixTiles(shape, Direction::Backward).getWeightBytes();
  auto desc = describeBackwardData(shape, builder);
  return measurePacked(shape.weights, desc.weights_desc());
}

static ConvGradientProduct
makeGradientProduct(const ConvGradientProduct::Shape &shape) {
  ConvGradientProduct product(shape);
  if (const MatrixTiles *tiles = shortTiles(); tiles && shape.isShort)
    product.setPairs(*tiles);
  return product;
}

bool pp::runtime::isConvAddedInPlace(Descriptor &descriptor,
                                     KernelBuilder &builder) {
  const ConvShape whole(descriptor, builder, Division::None);
  if (findGradientTiles(whole))
    return true;
  if (whole.gradientPairs())
    return true;
  const auto sizes = whole.gradientProduct();
  return sizes && (ConvGradientTiles::isPreferred(*sizes)
                       ? ConvGradientTiles::addsInPlace(*sizes)
                   : ConvGradientRows::isPreferred(*sizes)
                       ? true
                       : !whole.isLibraryProduct() &&
                             ConvGradientProduct::isPreferred(*sizes));
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
  if (auto windows = findWindows(whole, KernelBuilder::Type::f32,
                                 /*isWeightGradient=*/true, [&] {
                                   return makeBackwardWeights(whole, builder);
                                 }))
    return buildDepthwiseGradient(*windows, whole, builder);
  if (const auto pairs = whole.gradientPairs()) {
    ConvShape part(descriptor, builder, Division::Outputs);
    part.isAdded = whole.isAdded;
    return buildGradientPairs(
        *part.gradientPairs(), part,
        PairMatrixProduct::countTogether(*pairs, together), builder);
  }
  const auto sizes = whole.gradientProduct();
  const bool isInMatrixTiles = sizes && ConvGradientTiles::isPreferred(*sizes);
  if (!isInMatrixTiles && whole.isLibraryProduct()) {
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
