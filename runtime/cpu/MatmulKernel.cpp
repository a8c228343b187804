//===- MatmulKernel.cpp - `matmul` ----------------------------------------===//
#include "cpu/KernelBuilder.h"
#include "cpu/MatmulEpilogue.h"

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
  if (!descriptor.has("packed"))
    return product;
  product.packedBytes = descriptor.getInteger("packed", 1, INT32_MAX);
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

/// The same, if b has the size then that it had for the compiler.
static dnnl::matmul::primitive_desc demandPacked(const Product &product,
                                                 KernelBuilder &builder) {
  auto desc = describePacked(product, builder);
  if (size_t bytes = desc.weights_desc().get_size();
      bytes != product.packedBytes)
    throw DescriptorError("packed=" + std::to_string(product.packedBytes) +
                          ": the library's layout takes " +
                          std::to_string(bytes) +
                          " bytes on this processor; compile for it");
  return desc;
}

void pp::runtime::buildMatmul(Descriptor &descriptor, KernelBuilder &builder) {
  Product product = readProduct(descriptor);
  if (product.epilogue.hasBias)
    return buildWithEpilogue(product.epilogue, product.a, product.b, product.c,
                             builder);
  bool isPacked = product.packedBytes != 0;
  auto desc = isPacked
                  ? demandPacked(product, builder)
                  : describeProduct(product, KernelBuilder::widened(product.b),
                                    builder);
  auto a = builder.addTensor(product.a);
  auto b = builder.addTensor(isPacked ? desc.weights_desc() : product.b);
  auto c = builder.addResult(product.c);
  builder.addPrimitive(
      dnnl::matmul(desc), desc.scratchpad_desc(),
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

void pp::runtime::buildPack(Descriptor &descriptor, KernelBuilder &builder) {
  Product product = readProduct(descriptor);
  if (product.packedBytes == 0)
    throw DescriptorError("key 'packed' is missing");
  auto packed = demandPacked(product, builder).weights_desc();
  dnnl::reorder::primitive_desc desc(builder.getEngine(), product.b,
                                     builder.getEngine(), packed,
                                     builder.getAttributes());
  auto from = builder.addTensor(product.b), to = builder.addResult(packed);
  builder.addPrimitive(dnnl::reorder(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

uint64_t pp::runtime::measurePacked(Descriptor &descriptor,
                                    KernelBuilder &builder) {
  auto packed = describePacked(readProduct(descriptor), builder).weights_desc();
  bool hasBlocks = packed.data.format_kind == dnnl_blocked &&
                   packed.data.format_desc.blocking.inner_nblks > 0;
  return hasBlocks && packed.get_size() <= INT32_MAX ? packed.get_size() : 0;
}
