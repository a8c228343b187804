//===- LossScaleKernels.cpp - `check_finite` and `loss_scale` -------------===//
#include "cpu/KernelBuilder.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstring>

using namespace pp::runtime;

bool pp::runtime::isDouble(Descriptor &descriptor) {
  return descriptor.has("type") &&
         descriptor.getWords("type", 1, {"f32", "f64"}).front() == "f64";
}

/// Ones everywhere in the exponent: infinity or NaN.
template <typename Bits, Bits exponent>
[[gnu::always_inline]] static inline bool findNonFinite(const void *values,
                                                        int64_t count) {
  constexpr int64_t block = 4096;
  auto *bytes = static_cast<const char *>(values);
  for (int64_t begin = 0; begin < count; begin += block) {
    Bits found = 0;
    for (int64_t i = begin, end = std::min(begin + block, count); i < end;
         ++i) {
      Bits bits;
      std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
      found |= (bits & exponent) == exponent;
    }
    if (found)
      return true;
  }
  return false;
}

#if defined(__x86_64__)
// In the processor's vectors: for the runtime, which is compiled for any
// processor, they would be those of 2003.
template <typename Bits, Bits exponent>
[[gnu::target("avx512f")]] static bool findNonFinite512(const void *values,
                                                        int64_t count) {
  return findNonFinite<Bits, exponent>(values, count);
}
template <typename Bits, Bits exponent>
[[gnu::target("avx2")]] static bool findNonFinite256(const void *values,
                                                     int64_t count) {
  return findNonFinite<Bits, exponent>(values, count);
}
#endif

template <typename Bits, Bits exponent>
static bool hasNonFinite(const void *values, int64_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return findNonFinite512<Bits, exponent>(values, count);
  if (__builtin_cpu_supports("avx2"))
    return findNonFinite256<Bits, exponent>(values, count);
#endif
  return findNonFinite<Bits, exponent>(values, count);
}

void pp::runtime::buildCheckFinite(Descriptor &descriptor,
                                   KernelBuilder &builder) {
  int64_t count = descriptor.getInteger("count", 1, INT32_MAX);
  auto *find = isDouble(descriptor) ? hasNonFinite<uint64_t, 0x7ff0000000000000>
                                    : hasNonFinite<uint32_t, 0x7f800000>;
  const size_t size = isDouble(descriptor) ? sizeof(double) : sizeof(float);
  const KernelBuilder::Range share =
      builder.isWhole() ? KernelBuilder::Range{0, count} : builder.share(count);
  builder.setFunction(2, [share, size, find](void *const *tensors, void *) {
    if (find(static_cast<const char *>(tensors[0]) + share.begin * size,
             share.count))
      // Other parts may set it at the same time.
      std::atomic_ref(*static_cast<float *>(tensors[1]))
          .store(1, std::memory_order_relaxed);
  });
}

/// `Scalar`: of the optimizer's scalars; everything else is of f32.
template <typename Scalar>
static void buildLossScaleOf(Descriptor &descriptor, KernelBuilder &builder) {
  int64_t ranks = descriptor.getInteger("ranks", 1, 1 << 20);
  int64_t scale = descriptor.getInteger("scale", 0, 1 << 10);
  int64_t skipped = descriptor.getInteger("skipped", 0, 1 << 10);
  bool isDynamic = descriptor.has("interval");
  int64_t interval =
      isDynamic ? descriptor.getInteger("interval", 0, 1 << 10) : 0;
  builder.setFunction(3, [=](void *const *tensors, void *) {
    auto *flags = static_cast<const float *>(tensors[0]);
    auto *state = static_cast<float *>(tensors[1]);
    auto *scalars = static_cast<Scalar *>(tensors[2]);
    float skips = *std::max_element(flags, flags + ranks);
    // A training that stops at such a step makes no other one.
    if (scalars[skipped] != 0 && state[3] > 0)
      skips = 1;
    scalars[scale] = state[4] = state[0];
    scalars[skipped] = skips;
    if (skips != 0) {
      state[1] = 0;
      state[2] += 1;
      state[3] += 1;
      if (isDynamic)
        state[0] = std::max(state[0] / 2, FLT_MIN);
      return;
    }
    state[1] += 1;
    state[3] = 0;
    if (!isDynamic || state[1] < scalars[interval])
      return;
    state[1] = 0;
    if (state[0] <= FLT_MAX / 2)
      state[0] *= 2;
  });
}

void pp::runtime::buildLossScale(Descriptor &descriptor,
                                 KernelBuilder &builder) {
  if (isDouble(descriptor))
    buildLossScaleOf<double>(descriptor, builder);
  else
    buildLossScaleOf<float>(descriptor, builder);
}
