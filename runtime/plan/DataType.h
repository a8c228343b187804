//===- DataType.h - Element types and shapes ------------------------------===//
#ifndef PP_RUNTIME_PLAN_DATATYPE_H
#define PP_RUNTIME_PLAN_DATATYPE_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pp::runtime {

/// Element types of the plan format; `I1` takes one byte.
enum class DataType : uint8_t {
  F32,
  F64,
  I64,
  I32,
  I8,
  U8,
  I1,
  BF16,
  F16,
  I16,
  U16,
  U32,
  U64
};

using Shape = std::vector<int64_t>;

uint64_t sizeOf(DataType type);
/// Whether it has infinities.
constexpr bool isFloatingPoint(DataType type) {
  return type == DataType::F32 || type == DataType::F64 ||
         type == DataType::BF16 || type == DataType::F16;
}
/// Name in the plan format: f32, i64, ...
std::string_view nameOf(DataType type);
std::optional<DataType> parseDataType(std::string_view name);

/// Product of the dimensions; nullopt for a negative dimension or above 2^48.
std::optional<uint64_t> elementCount(const Shape &shape);

/// `[8, 3]`.
std::string toString(const Shape &shape);

/// Rounds up to PP_ALIGNMENT.
constexpr uint64_t alignUp(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_DATATYPE_H
