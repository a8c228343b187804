//===- ShortFloat.h - Floating-point numbers of 16 bits -------------------===//
#ifndef PP_RUNTIME_PLAN_SHORTFLOAT_H
#define PP_RUNTIME_PLAN_SHORTFLOAT_H

#include "plan/DataType.h"

#include <bit>
#include <cmath>

namespace pp::runtime {

/// The bits of the nearest bf16; at a tie the even one.
inline uint16_t toBF16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float fromBF16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// The bits of the nearest f16; at a tie the even one.
inline uint16_t toF16(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}
inline float fromF16(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

/// Whether `type` is BF16 or F16.
inline bool isShortFloat(DataType type) {
  return type == DataType::BF16 || type == DataType::F16;
}
/// The bits of a number in one of them, and back.
inline uint16_t toShortFloat(DataType type, float value) {
  return type == DataType::BF16 ? toBF16(value) : toF16(value);
}
inline float fromShortFloat(DataType type, uint16_t bits) {
  return type == DataType::BF16 ? fromBF16(bits) : fromF16(bits);
}

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_SHORTFLOAT_H
