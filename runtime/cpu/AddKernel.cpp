//===- AddKernel.cpp - `add` ----------------------------------------------===//
#include "cpu/KernelBuilder.h"

using namespace pp::runtime;

void pp::runtime::buildAdd(Descriptor &descriptor, KernelBuilder &builder) {
  int64_t count = descriptor.getInteger("count", 1, INT64_MAX);
  builder.setFunction(3, [count](void *const *tensors, void *) {
    auto *a = static_cast<const float *>(tensors[0]);
    auto *b = static_cast<const float *>(tensors[1]);
    auto *sum = static_cast<float *>(tensors[2]);
    for (int64_t i = 0; i < count; ++i)
      sum[i] = a[i] + b[i];
  });
}
