//===- AttentionMapping.cpp -----------------------------------------------===//
#include "AttentionMapping.h"

using namespace pp::cuda;
using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;

/// Elements of two bytes that the kernels read and write at once.
static constexpr int64_t vectorElements = 8;
static constexpr int64_t largestHead = 128;

static ElementType readType(Descriptor &descriptor) {
  std::string word =
      descriptor.getWords("types", 1, {"f32", "bf16", "f16"}).front();
  if (word == "f32")
    throw DescriptorError(
        "types=f32: cuDNN has attention only for bf16 and f16; compile the "
        "model with --fuse-attention=never, or with --precision=bf16");
  return word == "bf16" ? ElementType::BF16 : ElementType::F16;
}

static std::vector<int64_t> getDense(const Descriptor::Dims &dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return strides;
}

/// A tensor of the given dimensions, with the strides of `key` if it is there.
static AttentionTensor readTensor(Descriptor &descriptor,
                                  const std::string &key,
                                  const Descriptor::Dims &dims,
                                  ElementType type) {
  AttentionTensor tensor{dims, getDense(dims), type};
  if (!descriptor.has(key))
    return tensor;
  tensor.strides = descriptor.getDims(key, dims.size(), 0);
  auto fail = [&](const std::string &what) {
    throw DescriptorError(key + "=" + descriptor.getText(key) + ": " + what);
  };
  if (tensor.strides.back() != 1)
    fail("cuDNN wants the last dimension contiguous");
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (dims[i] == 1)
      continue;
    if (tensor.strides[i] == 0)
      fail("cuDNN takes no tensors that are broadcast");
    if (tensor.strides[i] % vectorElements != 0)
      fail("cuDNN wants strides that are multiples of 8 elements");
  }
  return tensor;
}

AttentionMapping pp::cuda::mapAttention(Descriptor &descriptor) {
  AttentionMapping map{};
  map.isBackward = descriptor.getKind() == "attention_backward";
  auto q = descriptor.getDims("q", 4, 1), k = descriptor.getDims("k", 4, 1),
       v = descriptor.getDims("v", 4, 1);
  if (k[0] != q[0] || k[1] != q[1] || k[3] != q[3])
    throw DescriptorError("k: batch, heads or columns disagree with q");
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2])
    throw DescriptorError("v: batch, heads or rows disagree with k");
  for (const auto &[key, columns] : {std::pair("q", q[3]), {"v", v[3]}})
    if (columns % vectorElements != 0 || columns > largestHead)
      throw DescriptorError(
          std::string(key) + "=" + descriptor.getText(key) +
          ": cuDNN wants a multiple of 8 columns, and at most 128; compile the "
          "model with --fuse-attention=never");
  map.scale = descriptor.getFloat("scale");
  map.isCausal = descriptor.getInteger("causal", 0, 1) != 0;
  if (map.isCausal && q[2] != k[2])
    throw DescriptorError("causal=1: q and k have different numbers of rows");

  ElementType type = readType(descriptor);
  Descriptor::Dims out = {q[0], q[1], q[2], v[3]}, rows = {q[0], q[1], q[2], 1};
  auto add = [&](const char *key, const Descriptor::Dims &dims) {
    map.tensors.push_back(readTensor(descriptor, key, dims, type));
  };
  add("qs", q);
  add("ks", k);
  add("vs", v);
  add("os", out);
  map.tensors.push_back({rows, getDense(rows), ElementType::F32});
  if (!map.isBackward)
    return map;
  add("dos", out);
  add("dqs", q);
  add("dks", k);
  add("dvs", v);
  return map;
}
