//===- DataType.h - Element types of ONNX tensors -------------------------===//
//
// Part of pp-mlir: plain values, no protobuf and no MLIR.
//
//===----------------------------------------------------------------------===//
#ifndef PP_IMPORT_ONNX_DATATYPE_H
#define PP_IMPORT_ONNX_DATATYPE_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>

namespace pp::onnx {

/// TensorProto.DataType up to IR version 13; values are those of the format.
enum class DataType : int32_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float4E2M1 = 23,
  Float8E8M0 = 24,
  UInt2 = 25,
  Int2 = 26,
};

/// True for every enumerator but Undefined.
bool isDataType(int64_t value);

/// The format's spelling, for example "FLOAT8E4M3FN".
llvm::StringRef dataTypeName(DataType type);

/// Bits of one element; 0 for String and Undefined.
unsigned bitWidth(DataType type);

/// Bytes of `elements` elements, elements of less than a byte packed; nothing
/// if the number overflows or the type has no size.
std::optional<uint64_t> byteSize(DataType type, uint64_t elements);

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_DATATYPE_H
