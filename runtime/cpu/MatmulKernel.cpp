//===- MatmulKernel.cpp - `matmul` ----------------------------------------===//
#include "cpu/KernelBuilder.h"

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
  dnnl::matmul::primitive_desc desc(
      {builder.widened(aDesc), builder.widened(bDesc), builder.widened(cDesc)},
      builder.getAttributes(), builder.getEngine());
  auto aMemory = builder.addTensor(aDesc);
  auto bMemory = builder.addTensor(bDesc);
  auto cMemory = builder.addResult(cDesc);
  builder.addPrimitive(dnnl::matmul(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_SRC, aMemory},
                        {DNNL_ARG_WEIGHTS, bMemory},
                        {DNNL_ARG_DST, cMemory}});
}
