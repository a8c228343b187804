//===- DataType.cpp - Element types of ONNX tensors -----------------------===//
#include "pp/Import/Onnx/DataType.h"
#include "llvm/Support/MathExtras.h"

using namespace pp::onnx;

namespace {
struct Entry {
  llvm::StringLiteral name;
  unsigned bits;
};
} // namespace

static constexpr Entry table[] = {
    {"UNDEFINED", 0},      {"FLOAT", 32},     {"UINT8", 8},
    {"INT8", 8},           {"UINT16", 16},    {"INT16", 16},
    {"INT32", 32},         {"INT64", 64},     {"STRING", 0},
    {"BOOL", 8},           {"FLOAT16", 16},   {"DOUBLE", 64},
    {"UINT32", 32},        {"UINT64", 64},    {"COMPLEX64", 64},
    {"COMPLEX128", 128},   {"BFLOAT16", 16},  {"FLOAT8E4M3FN", 8},
    {"FLOAT8E4M3FNUZ", 8}, {"FLOAT8E5M2", 8}, {"FLOAT8E5M2FNUZ", 8},
    {"UINT4", 4},          {"INT4", 4},       {"FLOAT4E2M1", 4},
    {"FLOAT8E8M0", 8},     {"UINT2", 2},      {"INT2", 2}};
static_assert(std::size(table) == static_cast<size_t>(DataType::Int2) + 1);

bool pp::onnx::isDataType(int64_t value) {
  return value > 0 && value < static_cast<int64_t>(std::size(table));
}

llvm::StringRef pp::onnx::dataTypeName(DataType type) {
  return table[static_cast<size_t>(type)].name;
}

unsigned pp::onnx::bitWidth(DataType type) {
  return table[static_cast<size_t>(type)].bits;
}

std::optional<uint64_t> pp::onnx::byteSize(DataType type, uint64_t elements) {
  unsigned bits = bitWidth(type);
  if (bits == 0)
    return std::nullopt;
  if (bits < 8)
    return llvm::divideCeil(elements, uint64_t(8 / bits));
  bool overflow = false;
  uint64_t bytes =
      llvm::SaturatingMultiply<uint64_t>(elements, bits / 8, &overflow);
  if (overflow)
    return std::nullopt;
  return bytes;
}
