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

void pp::runtime::buildMatmul(Descriptor &descriptor, KernelBuilder &builder) {
  auto a = descriptor.getDims("a");
  if (a.size() < 2)
    throw DescriptorError("a: expected at least two dimensions");
  auto b = descriptor.getDims("b", a.size(), 1);
  auto c = descriptor.getDims("c", a.size(), 1);
  auto types = KernelBuilder::types(descriptor, 3);
  auto aDesc = describe(descriptor, "a", a, types[0]);
  auto bDesc = describe(descriptor, "b", b, types[1]);
  auto cDesc = describe(descriptor, "c", c, types[2]);
  auto epilogue =
      readEpilogue(descriptor, c, cDesc == KernelBuilder::dense(c, types[2]));
  if (epilogue.hasBias)
    return buildWithEpilogue(epilogue, aDesc, bDesc, cDesc, builder);
  dnnl::primitive_attr attributes = builder.getAttributes();
  if (descriptor.has("accumulate") &&
      descriptor.getInteger("accumulate", 0, 1) == 1) {
    if (types[2] != KernelBuilder::Type::f32)
      throw DescriptorError("accumulate: the result must be f32");
    dnnl::post_ops operations;
    operations.append_sum(/*scale=*/1);
    attributes.set_post_ops(operations);
  }
  dnnl::matmul::primitive_desc desc(
      {builder.widened(aDesc), builder.widened(bDesc), builder.widened(cDesc)},
      attributes, builder.getEngine());
  auto aMemory = builder.addTensor(aDesc);
  auto bMemory = builder.addTensor(bDesc);
  auto cMemory = builder.addResult(cDesc);
  builder.addPrimitive(dnnl::matmul(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_SRC, aMemory},
                        {DNNL_ARG_WEIGHTS, bMemory},
                        {DNNL_ARG_DST, cMemory}});
}
