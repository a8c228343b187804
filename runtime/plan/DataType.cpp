//===- DataType.cpp -------------------------------------------------------===//
#include "plan/DataType.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace pp::runtime;

namespace {
struct Entry {
  DataType type;
  std::string_view name;
  uint64_t size;
};
} // namespace

static constexpr Entry entries[] = {
    {DataType::F32, "f32", 4}, {DataType::F64, "f64", 8},
    {DataType::I64, "i64", 8}, {DataType::I32, "i32", 4},
    {DataType::I8, "i8", 1},   {DataType::U8, "u8", 1},
    {DataType::I1, "i1", 1},   {DataType::BF16, "bf16", 2},
    {DataType::F16, "f16", 2}, {DataType::I16, "i16", 2},
    {DataType::U16, "u16", 2}, {DataType::U32, "u32", 4},
    {DataType::U64, "u64", 8},
};

uint64_t pp::runtime::sizeOf(DataType type) {
  return entries[static_cast<unsigned>(type)].size;
}

std::string_view pp::runtime::nameOf(DataType type) {
  return entries[static_cast<unsigned>(type)].name;
}

std::optional<DataType> pp::runtime::parseDataType(std::string_view name) {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return entry.type;
  return std::nullopt;
}

std::optional<uint64_t> pp::runtime::elementCount(const Shape &shape) {
  uint64_t count = 1;
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(count, uint64_t(dim), &count) ||
        count > (uint64_t(1) << 48))
      return std::nullopt;
  return count;
}

std::string pp::runtime::toString(const Shape &shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}
