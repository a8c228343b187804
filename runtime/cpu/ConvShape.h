//===- ConvShape.h - What the keys of a convolution say -------------------===//
#ifndef PP_RUNTIME_CPU_CONVSHAPE_H
#define PP_RUNTIME_CPU_CONVSHAPE_H

#include "cpu/ConvGradientProduct.h"
#include "cpu/ConvTiles.h"
#include "cpu/DepthwiseWindows.h"
#include "cpu/KernelBuilder.h"
#include "cpu/PairConvolution.h"
#include "cpu/PairMatrixProduct.h"
#include "cpu/WinogradConvolution.h"

#include <optional>
#include <string>

namespace pp::runtime {

/// What the parts of a convolution share: samples, or where there are too few
/// rows of an image with channels last, which lie together, else groups of an
/// image, or output channels; the gradient of the weights is a sum over
/// samples. `None` leaves it to another.
enum class Division { None, SamplesOrOutputs, Samples, Outputs };

/// Whether all of the sizes are this one.
bool isAll(const KernelBuilder::Dims &sizes, int64_t size);

struct ConvShape {
  KernelBuilder::MemoryDesc src, weights, dst; // of the tensors, or a part
  uint64_t srcOffset = 0, weightsOffset = 0, dstOffset = 0, biasOffset = 0;
  uint64_t plainWeightsOffset = 0; // where weights are packed: before that
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
  Division division;    ///< that it was made for
  /// Whether it is a part that has some rows, or outputs, of its images.
  bool isOfImages = false;

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
  /// (`isWeightGradient`) where a row of the output has up to three elements,
  /// or where there are two steps of depth with a stride, and padding on both
  /// sides.
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
  /// The same of each group, where there are several.
  std::optional<ConvGradientProduct::Shape> gradientOfGroup() const;
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
  /// All channels are one group where the library's code is not right.
  std::optional<depthwise::Shape>
  windowsOfChannels(KernelBuilder::Type weightsType) const;
  /// Leaves some of the output channels; offsets are from what there was.
  void takeOutputs(KernelBuilder::Range outputs);
  /// The same for input channels where isOfOneImage(). It does not know where
  /// packed weights lie.
  void takeInputs(KernelBuilder::Range inputs);
  /// Whether channels follow each other, in blocks or planes of a single image.
  bool isOfOneImage() const;
  /// Channels are divided in multiples of these.
  int64_t channelBlock() const;
  /// The same for pixels of all images where isPointwise(): they are one image
  /// then.
  void takePixels(KernelBuilder::Range pixels);
  int64_t countPixels() const;
  /// The library's convolution. With a type, that of all tensors: a hint for a
  /// backward primitive whose result is longer than its factors.
  dnnl::convolution_forward::primitive_desc
  forward(KernelBuilder &builder,
          std::optional<KernelBuilder::Type> type = {}) const;

private:
  /// The sizes of a product; nothing for groups and another algorithm.
  std::optional<ConvGradientProduct::Shape> productSizes() const;
  /// Those of each group.
  ConvGradientProduct::Shape groupSizes() const;
  /// Whether x and dY are both of f32, or of bf16, and the weights of f32.
  bool hasGradientTypes() const;
  /// Those sizes, whatever the type of the weights.
  std::optional<WinogradConvolution::Shape>
  tilesOf(WinogradConvolution::Direction direction) const;
  void takeSamples(KernelBuilder &builder);
  void takeRows(KernelBuilder &builder);
  void takeOutputs(KernelBuilder &builder);
  void takeGroups(KernelBuilder &builder);
  /// The layout of dst if it is not a part of a tensor.
  KernelBuilder::MemoryDesc dstAlone;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_CONVSHAPE_H
