//===- Padding.cpp --------------------------------------------------------===//
#include "exec/Padding.h"
#include "plan/ShortFloat.h"

#include <algorithm>
#include <cstring>

using namespace pp::runtime;

/// The bytes of one element.
static std::vector<char> encode(DataType type, double value) {
  std::vector<char> bytes(sizeOf(type));
  auto put = [&](auto number) {
    std::memcpy(bytes.data(), &number, bytes.size());
  };
  switch (type) {
  case DataType::F32:
    put(static_cast<float>(value));
    break;
  case DataType::F64:
    put(value);
    break;
  case DataType::BF16:
  case DataType::F16:
    put(toShortFloat(type, static_cast<float>(value)));
    break;
  case DataType::U64:
    put(static_cast<uint64_t>(value));
    break;
  case DataType::I64:
  case DataType::I32:
  case DataType::I16:
  case DataType::I8:
  case DataType::U32:
  case DataType::U16:
  case DataType::U8:
  case DataType::I1:
    // Little-endian: the low bytes are the shorter number.
    put(static_cast<int64_t>(value));
    break;
  }
  return bytes;
}

Array pp::runtime::resizeAxis(const Array &array, size_t axis, int64_t size,
                              double value) {
  Array result{array.type, array.shape, {}};
  result.shape[axis] = size;
  uint64_t outer = 1, inner = sizeOf(array.type);
  for (size_t i = 0; i < axis; ++i)
    outer *= array.shape[i];
  for (size_t i = axis + 1; i < array.shape.size(); ++i)
    inner *= array.shape[i];
  uint64_t before = array.shape[axis] * inner, after = size * inner;
  uint64_t kept = std::min(before, after);
  std::vector<char> filler = encode(array.type, value);
  result.data.resize(outer * after);
  for (uint64_t i = 0; i < outer; ++i) {
    char *row = result.data.data() + i * after;
    std::memcpy(row, array.data.data() + i * before, kept);
    for (uint64_t at = kept; at < after; at += filler.size())
      std::memcpy(row + at, filler.data(), filler.size());
  }
  return result;
}
