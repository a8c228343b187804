//===- AddKernel.cpp - `add` ----------------------------------------------===//
#include "cpu/KernelBuilder.h"

using namespace pp::runtime;

template <typename T> static void add(int64_t count, void *const *tensors) {
  auto *a = static_cast<const T *>(tensors[0]);
  auto *b = static_cast<const T *>(tensors[1]);
  auto *sum = static_cast<T *>(tensors[2]);
  for (int64_t i = 0; i < count; ++i)
    sum[i] = a[i] + b[i];
}

void pp::runtime::buildAdd(Descriptor &descriptor, KernelBuilder &builder) {
  int64_t count = descriptor.getInteger("count", 1, INT64_MAX);
  auto *work = isDouble(descriptor) ? add<double> : add<float>;
  const auto tensor = KernelBuilder::tensorOf(
      isDouble(descriptor) ? DataType::F64 : DataType::F32, count);
  builder.setFunction(
      {tensor, tensor, tensor},
      [count, work](void *const *tensors, void *) { work(count, tensors); });
}
