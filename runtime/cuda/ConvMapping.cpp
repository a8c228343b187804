//===- ConvMapping.cpp ----------------------------------------------------===//
#include "ConvMapping.h"
#include "SpatialShape.h"

using namespace pp::cuda;
using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;

static std::vector<int> toInts(const Descriptor::Dims &dims) {
  return std::vector<int>(dims.begin(), dims.end());
}

/// Strides of a dense tensor; cuDNN holds them in 32 bits.
static std::vector<int> getStrides(const std::vector<int> &dims) {
  std::vector<int> strides(dims.size());
  int64_t count = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = static_cast<int>(count);
    if (__builtin_mul_overflow(count, dims[i], &count) ||
        count >= (int64_t(1) << 31))
      throw DescriptorError("src: the tensor is too large");
  }
  return strides;
}

ConvMapping pp::cuda::mapConv(Descriptor &descriptor) {
  SpatialShape shape(descriptor, 2);
  size_t rank = descriptor.getDims("src").size();
  auto weights = descriptor.getDims("weights", rank, 1);
  auto dst = descriptor.getDims("dst", rank, 1);
  int64_t groups = descriptor.getInteger("groups", 1, 1 << 30);
  if (weights[0] % groups != 0 || weights[1] * groups != shape.channels)
    throw DescriptorError("groups: does not divide the channels");
  if (dst[0] != shape.samples || dst[1] != weights[0])
    throw DescriptorError("dst: samples or channels disagree with src and "
                          "weights");
  auto kernel =
      shape.extend(Descriptor::Dims(weights.begin() + 2, weights.end()));

  const std::string &kind = descriptor.getKind();
  ProductTypes product =
      readProductTypes(descriptor, kind == "conv_backward_data"      ? 0
                                   : kind == "conv_backward_weights" ? 1
                                                                     : 2);
  ConvMapping map;
  map.srcType = product.types[0];
  map.weightsType = product.types[1];
  map.dstType = product.types[2];
  map.allowsTf32 = product.allowsTf32;
  map.groups = static_cast<int>(groups);
  map.hasBias =
      descriptor.has("bias") && descriptor.getInteger("bias", 0, 1) != 0;
  if (map.hasBias && map.dstType != ElementType::F32)
    throw DescriptorError("bias: only a result of f32 can have one");
  for (size_t i = 0; i < shape.getSpatial(); ++i) {
    int64_t reach = (kernel[i] - 1) * shape.dilations[i] + 1;
    auto getExtent = [&](int64_t padding) {
      int64_t room = shape.src[i] + padding - reach;
      return room < 0 ? 0 : room / shape.strides[i] + 1;
    };
    if (getExtent(shape.padLow[i] + shape.padHigh[i]) != shape.dst[i])
      throw DescriptorError("dst: is not what the other keys make");
    // The windows that read the padding behind read zeros; that there are as
    // many is all that counts.
    if (getExtent(2 * shape.padLow[i]) != shape.dst[i])
      throw DescriptorError("pad_hi: cuDNN pads both sides by the same");
  }
  auto join = [](int64_t first, int64_t second, const Descriptor::Dims &rest) {
    std::vector<int> dims = {static_cast<int>(first), static_cast<int>(second)};
    dims.insert(dims.end(), rest.begin(), rest.end());
    return dims;
  };
  map.src = join(shape.samples, shape.channels, shape.src);
  map.weights = join(weights[0], weights[1], kernel);
  map.dst = join(dst[0], dst[1], shape.dst);
  map.srcStrides = getStrides(map.src);
  map.dstStrides = getStrides(map.dst);
  map.pad = toInts(shape.padLow);
  map.strides = toInts(shape.strides);
  map.dilations = toInts(shape.dilations);
  return map;
}
