//===- FakeNumbers.h - Elements of NVIDIA's types on the processor --------===//
#ifndef PP_RUNTIME_TEST_CUDA_FAKENUMBERS_H
#define PP_RUNTIME_TEST_CUDA_FAKENUMBERS_H

#include <bit>
#include <cstdint>

namespace fakenumbers {

enum class Type { F32, BF16, F16 };

/// Keeps the upper bits of a float; ties to even.
inline float roundedBy(float value, unsigned bits) {
  auto word = std::bit_cast<uint32_t>(value);
  word += (1u << (bits - 1)) - 1 + ((word >> bits) & 1);
  return std::bit_cast<float>(word & ~((1u << bits) - 1));
}

/// What a tensor core makes of a factor of f32: 10 bits of mantissa.
inline float toTf32(float value) { return roundedBy(value, 13); }

inline float load(const void *data, Type type, int64_t at) {
  if (type == Type::F32)
    return static_cast<const float *>(data)[at];
  if (type == Type::F16)
    return static_cast<float>(static_cast<const _Float16 *>(data)[at]);
  return std::bit_cast<float>(uint32_t(static_cast<const uint16_t *>(data)[at])
                              << 16);
}

inline void store(void *data, Type type, int64_t at, float value) {
  if (type == Type::F32)
    static_cast<float *>(data)[at] = value;
  else if (type == Type::F16)
    static_cast<_Float16 *>(data)[at] = static_cast<_Float16>(value);
  else
    static_cast<uint16_t *>(data)[at] =
        std::bit_cast<uint32_t>(roundedBy(value, 16)) >> 16;
}

} // namespace fakenumbers

#endif // PP_RUNTIME_TEST_CUDA_FAKENUMBERS_H
