//===- NonFinite.cpp ------------------------------------------------------===//
#include "exec/NonFinite.h"

#include <cstring>
#include <tuple>
#include <utility>

using namespace pp::runtime;

bool NonFinite::isBefore(const NonFinite &other) const {
  auto key = [](const NonFinite &found) {
    bool isBackward = found.phase != Phase::Forward;
    int64_t stage = isBackward ? -int64_t(found.stage) : int64_t(found.stage);
    return std::tuple(found.microbatch, isBackward, stage, found.phase,
                      found.kernel);
  };
  return key(*this) < key(other);
}

std::optional<uint64_t> pp::runtime::findNonFinite(const float *values,
                                                   uint64_t count) {
  constexpr uint32_t exponent = 0x7f800000; // all ones: infinity or NaN
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    if ((bits & exponent) == exponent)
      return i;
  }
  return std::nullopt;
}

void pp::runtime::keepFirst(std::optional<NonFinite> &first,
                            std::optional<NonFinite> other) {
  if (other && (!first || other->isBefore(*first)))
    first = std::move(other);
}
