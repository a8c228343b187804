//===- ReorderKernel.cpp - `reorder` --------------------------------------===//
#include "cpu/KernelBuilder.h"

using namespace pp::runtime;

void pp::runtime::buildReorder(Descriptor &descriptor, KernelBuilder &builder) {
  auto dims = descriptor.getDims("src");
  auto type = KernelBuilder::types(descriptor, 1)[0];
  auto from = builder.addTensor(
      KernelBuilder::inLayout(dims, descriptor.getText("from"), type));
  auto to = builder.addResult(
      KernelBuilder::inLayout(dims, descriptor.getText("to"), type));
  dnnl::reorder::primitive_desc desc(builder.getEngine(), from.get_desc(),
                                     builder.getEngine(), to.get_desc(),
                                     builder.getAttributes());
  builder.addPrimitive(dnnl::reorder(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}
