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
  constexpr int64_t line = 64, piece = 4 * line, block = 64 * piece;
  // A core asks for more at once than the processor does by itself (Emerald
  // Rapids: 9.9 GB/s, 13.4 so).
  constexpr int64_t ahead = 8192;
  const auto *bytes = static_cast<const char *>(values);
  const char *const end = bytes + count * static_cast<int64_t>(sizeof(Bits));
  auto isFound = [](const char *at) __attribute__((always_inline)) {
    Bits bits;
    std::memcpy(&bits, at, sizeof(bits));
    return static_cast<Bits>((bits & exponent) == exponent);
  };
  while (end - bytes >= block) {
    Bits found = 0;
    for (const char *const next = bytes + block; bytes < next; bytes += piece) {
      for (int64_t at = 0; at < piece; at += line)
        __builtin_prefetch(bytes + ahead + at, /*rw=*/0, /*locality=*/2);
      for (size_t at = 0; at < piece; at += sizeof(Bits))
        found |= isFound(bytes + at);
    }
    if (found)
      return true;
  }
  Bits found = 0;
  for (; bytes < end; bytes += sizeof(Bits))
    found |= isFound(bytes);
  return found != 0;
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
  const DataType type = isDouble(descriptor) ? DataType::F64 : DataType::F32;
  const KernelBuilder::Range share = builder.share(count);
  builder.setFunction(
      {KernelBuilder::tensorOf(type, count),
       KernelBuilder::tensorOf(DataType::F32, 1)},
      [share, size = sizeOf(type), find](void *const *tensors, void *) {
        if (find(static_cast<const char *>(tensors[0]) + share.begin * size,
                 share.count))
          // Other parts may set it at the same time.
          std::atomic_ref(*static_cast<float *>(tensors[1]))
              .store(1, std::memory_order_relaxed);
      });
}

/// `Scalar`: of the optimizer's scalars; everything else is of f32.
template <typename Scalar, DataType scalar>
static void buildLossScaleOf(Descriptor &descriptor, KernelBuilder &builder) {
  int64_t ranks = descriptor.getInteger("ranks", 1, 1 << 20);
  int64_t scale = descriptor.getInteger("scale", 0, 1 << 10);
  int64_t skipped = descriptor.getInteger("skipped", 0, 1 << 10);
  bool isDynamic = descriptor.has("interval");
  int64_t interval =
      isDynamic ? descriptor.getInteger("interval", 0, 1 << 10) : 0;
  constexpr int64_t stateSize = 5;
  const std::vector<KernelBuilder::Tensor> tensors{
      KernelBuilder::tensorOf(DataType::F32, ranks),
      KernelBuilder::tensorOf(DataType::F32, stateSize),
      KernelBuilder::tensorOf(scalar,
                              std::max({scale, skipped, interval}) + 1)};
  builder.setFunction(tensors, [=](void *const *tensors, void *) {
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
    buildLossScaleOf<double, DataType::F64>(descriptor, builder);
  else
    buildLossScaleOf<float, DataType::F32>(descriptor, builder);
}
