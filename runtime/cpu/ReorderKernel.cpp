//===- ReorderKernel.cpp - `reorder` --------------------------------------===//
#include "cpu/KernelBuilder.h"

using namespace pp::runtime;

void pp::runtime::buildReorder(Descriptor &descriptor, KernelBuilder &builder) {
  auto dims = descriptor.getDims("src");
  auto type = KernelBuilder::types(descriptor, 1)[0];
  auto isIn = [&](const char *key) {
    return KernelBuilder::inLayout(dims, descriptor.getText(key), type);
  };
  uint64_t fromOffset = 0, toOffset = 0;
  if (!builder.isWhole()) {
    KernelBuilder::Range samples = builder.share(dims[0]);
    fromOffset = KernelBuilder::offsetOfSamples(isIn("from"), samples);
    toOffset = KernelBuilder::offsetOfSamples(isIn("to"), samples);
    dims[0] = samples.count;
  }
  auto from = builder.addTensor(isIn("from"), fromOffset);
  auto to = builder.addResult(isIn("to"), toOffset);
  dnnl::reorder::primitive_desc desc(builder.getEngine(), from.get_desc(),
                                     builder.getEngine(), to.get_desc(),
                                     builder.getAttributes());
  builder.addPrimitive(dnnl::reorder(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}
