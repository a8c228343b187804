//===- NonFinite.cpp ------------------------------------------------------===//
#include "exec/NonFinite.h"
#include "plan/ShortFloat.h"

#include <cmath>
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

template <typename Bits, typename Value>
static std::optional<FoundElement> findFirst(const char *data, uint64_t count,
                                             Value value) {
  for (uint64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
    if (double number = value(bits); !std::isfinite(number))
      return FoundElement{i, number};
  }
  return std::nullopt;
}

std::optional<FoundElement>
pp::runtime::findNonFinite(DataType type, const char *data, uint64_t count) {
  if (type == DataType::F32)
    return findFirst<float>(data, count, [](float value) { return value; });
  if (type == DataType::F64)
    return findFirst<double>(data, count, [](double value) { return value; });
  if (isShortFloat(type))
    return findFirst<uint16_t>(data, count, [type](uint16_t bits) {
      return fromShortFloat(type, bits);
    });
  return std::nullopt;
}

void pp::runtime::keepFirst(std::optional<NonFinite> &first,
                            std::optional<NonFinite> other) {
  if (other && (!first || other->isBefore(*first)))
    first = std::move(other);
}
