//===- MatmulKernel.cpp - `matmul` ----------------------------------------===//
#include "cpu/KernelBuilder.h"
#include "cpu/MatmulEpilogue.h"
#include "cpu/PackedWeights.h"

using namespace pp::runtime;

static KernelBuilder::MemoryDesc describe(Descriptor &descriptor,
                                          const std::string &key,
                                          const KernelBuilder::Dims &dims,
                                          KernelBuilder::Type type) {
  std::string strides = key + "s";
  if (!descriptor.has(strides))
    return KernelBuilder::dense(dims, type);
  return KernelBuilder::strided(
      dims, descriptor.getDims(strides, dims.size(), 0), type);
}

/// For what a GPU does: on the processor, programs have none.
static void buildWithEpilogue(const MatmulEpilogue &epilogue,
                              const KernelBuilder::MemoryDesc &aDesc,
                              const KernelBuilder::MemoryDesc &bDesc,
                              const KernelBuilder::MemoryDesc &cDesc,
                              KernelBuilder &builder) {
  auto a = builder.addTensor(aDesc), b = builder.addTensor(bDesc);
  auto biasDesc = KernelBuilder::dense({1, cDesc.dims()[1]}, cDesc.data_type());
  auto bias = builder.addTensor(biasDesc);
  dnnl::memory sum;
  if (epilogue.hasAuxiliary)
    sum = builder.addResult(cDesc);
  auto c = builder.addResult(cDesc);

  auto algorithm = epilogue.activation == MatmulEpilogue::Relu
                       ? dnnl::algorithm::eltwise_relu
                       : dnnl::algorithm::eltwise_gelu_tanh;
  dnnl::primitive_attr attributes = builder.getAttributes();
  if (epilogue.activation != MatmulEpilogue::None && !epilogue.hasAuxiliary) {
    dnnl::post_ops operations;
    operations.append_eltwise(/*scale=*/1, algorithm, /*alpha=*/0, /*beta=*/0);
    attributes.set_post_ops(operations);
  }
  dnnl::matmul::primitive_desc product(
      {KernelBuilder::widened(aDesc), KernelBuilder::widened(bDesc),
       KernelBuilder::widened(biasDesc), KernelBuilder::widened(cDesc)},
      attributes, builder.getEngine());
  builder.addPrimitive(dnnl::matmul(product), product.scratchpad_desc(),
                       {{DNNL_ARG_SRC, a},
                        {DNNL_ARG_WEIGHTS, b},
                        {DNNL_ARG_BIAS, bias},
                        {DNNL_ARG_DST, epilogue.hasAuxiliary ? sum : c}});
  if (!epilogue.hasAuxiliary)
    return;
  dnnl::eltwise_forward::primitive_desc activation(
      {dnnl::prop_kind::forward_inference, algorithm,
       KernelBuilder::widened(cDesc)},
      builder.getAttributes(), builder.getEngine());
  builder.addPrimitive(dnnl::eltwise_forward(activation),
                       activation.scratchpad_desc(),
                       {{DNNL_ARG_SRC, sum}, {DNNL_ARG_DST, c}});
}

namespace {
/// What the keys of a product say.
struct Product {
  KernelBuilder::MemoryDesc a, b, c;
  MatmulEpilogue epilogue;
  bool isAdded = false;
  /// The bytes of b in the library's layout; 0: it has strides.
  size_t packedBytes = 0;
};
} // namespace

static Product readProduct(Descriptor &descriptor) {
  Product product;
  auto a = descriptor.getDims("a");
  if (a.size() < 2)
    throw DescriptorError("a: expected at least two dimensions");
  auto b = descriptor.getDims("b", a.size(), 1);
  auto c = descriptor.getDims("c", a.size(), 1);
  auto types = KernelBuilder::types(descriptor, 3);
  product.a = describe(descriptor, "a", a, types[0]);
  product.b = describe(descriptor, "b", b, types[1]);
  product.c = describe(descriptor, "c", c, types[2]);
  product.epilogue = readEpilogue(
      descriptor, c, product.c == KernelBuilder::dense(c, types[2]));
  product.isAdded = descriptor.has("accumulate") &&
                    descriptor.getInteger("accumulate", 0, 1) == 1;
  if (product.isAdded && types[2] != KernelBuilder::Type::f32)
    throw DescriptorError("accumulate: the result must be f32");
  product.packedBytes = readPackedBytes(descriptor);
  if (product.packedBytes == 0)
    return product;
  if (types[1] == KernelBuilder::Type::f16 || product.epilogue.hasBias ||
      product.isAdded)
    throw DescriptorError("packed: only in products of f32 and bf16 without "
                          "epilogue and sum");
  return product;
}

static dnnl::matmul::primitive_desc
describeProduct(const Product &product, const KernelBuilder::MemoryDesc &b,
                KernelBuilder &builder) {
  dnnl::primitive_attr attributes = builder.getAttributes();
  if (product.isAdded) {
    dnnl::post_ops operations;
    operations.append_sum(/*scale=*/1);
    attributes.set_post_ops(operations);
  }
  return {
      {KernelBuilder::widened(product.a), b, KernelBuilder::widened(product.c)},
      attributes,
      builder.getEngine()};
}

/// The product with the layout of b that the library chooses.
static dnnl::matmul::primitive_desc describePacked(const Product &product,
                                                   KernelBuilder &builder) {
  KernelBuilder::MemoryDesc any(product.b.dims(), product.b.data_type(),
                                dnnl::memory::format_tag::any);
  return describeProduct(product, any, builder);
}

namespace {
/// Where the tensors of a part of a product begin.
struct Offsets {
  uint64_t a = 0, b = 0, c = 0;
};
} // namespace

/// Leaves of `product` what `builder`'s part computes: some of its matrices, or
/// else rows, or columns of a single one.
static Offsets takePart(Product &product, KernelBuilder &builder) {
  if (builder.isWhole())
    return {};
  if (product.epilogue.hasBias)
    throw DescriptorError("parts: not with an epilogue");
  KernelBuilder::Dims dims = product.c.dims();
  int64_t parts = builder.countParts(), rows = dims.size() - 2;
  // Whole tiles of registers, and many of them.
  constexpr int64_t tile = 16, fewest = 2 * tile, panel = 64;
  auto take = [&](int64_t axis, int64_t grain) {
    KernelBuilder::Range range = builder.share(dims[axis], grain);
    Offsets offsets;
    auto cut = [&](KernelBuilder::MemoryDesc &desc, uint64_t &offset) {
      KernelBuilder::Slice slice = KernelBuilder::slice(desc, axis, range);
      desc = slice.desc;
      offset = slice.offset;
    };
    cut(product.c, offsets.c);
    if (axis != rows + 1)
      cut(product.a, offsets.a);
    if (axis != rows)
      cut(product.b, offsets.b);
    // Whole panels of columns lie one after the other.
    if (product.packedBytes != 0 && axis == rows + 1) {
      uint64_t column = product.packedBytes / dims[axis];
      offsets.b = column * range.begin;
      product.packedBytes = column * range.count;
    }
    return offsets;
  };
  for (int64_t axis = 0; axis < rows; ++axis)
    if (dims[axis] % parts == 0)
      return take(axis, 1);
  if (dims[rows] >= fewest * parts)
    return take(rows, tile);
  for (int64_t axis = 0; axis < rows; ++axis)
    if (dims[axis] > parts)
      return take(axis, 1);
  if (dims[rows + 1] >= fewest * parts)
    return take(rows + 1, product.packedBytes == 0 ? tile : panel);
  throw DescriptorError("parts: there is not enough to share");
}

void pp::runtime::buildMatmul(Descriptor &descriptor, KernelBuilder &builder) {
  Product product = readProduct(descriptor);
  Offsets offsets = takePart(product, builder);
  if (product.epilogue.hasBias)
    return buildWithEpilogue(product.epilogue, product.a, product.b, product.c,
                             builder);
  bool isPacked = product.packedBytes != 0;
  auto desc = isPacked
                  ? describePacked(product, builder)
                  : describeProduct(product, KernelBuilder::widened(product.b),
                                    builder);
  if (isPacked)
    demandPacked(desc.weights_desc(), product.packedBytes);
  auto a = builder.addTensor(product.a, offsets.a);
  auto b =
      builder.addTensor(isPacked ? desc.weights_desc() : product.b, offsets.b);
  auto c = builder.addResult(product.c, offsets.c);
  builder.addPrimitive(
      dnnl::matmul(desc), desc.scratchpad_desc(),
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

void pp::runtime::buildPackMatmul(Descriptor &descriptor,
                                  KernelBuilder &builder) {
  Product product = readProduct(descriptor);
  buildPack(product.b, describePacked(product, builder).weights_desc(),
            product.packedBytes, builder);
}

uint64_t pp::runtime::measurePackedMatmul(Descriptor &descriptor,
                                          KernelBuilder &builder) {
  Product product = readProduct(descriptor);
  return measurePacked(product.b,
                       describePacked(product, builder).weights_desc());
}
