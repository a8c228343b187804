//===- NarrowType.h - Floats of 8 and 4 bits, integers of 4 and 2 -*- C++ -*-=//
//
// No tensor of nn has elements of these types. Integers are kept as numbers of
// 8 bits with the same sign, floating-point numbers as their bits in an
// unsigned one; inputs and outputs of a program too. They are moved as they
// are, and converted to be computed with.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_IMPORT_NARROWTYPE_H
#define PP_LIB_IMPORT_NARROWTYPE_H

#include "NodeImporter.h"

namespace pp {

/// How a number that lies between two of a narrow type is converted.
struct Narrowing {
  /// Whether what is too large becomes the largest number.
  bool saturate = true;
  /// Powers of two are rounded up, down or to the nearest.
  std::string roundMode = "up";
};

bool isNarrow(onnx::DataType type);
bool isNarrowFloat(onnx::DataType type);

/// The bytes of a tensor of the file, without those of several elements.
std::vector<uint8_t> unpackNarrow(onnx::DataType type, uint64_t elements,
                                  llvm::ArrayRef<uint8_t> bytes);

/// The numbers that the kept elements stand for: f32, or integers of 8 bits.
mlir::Value fromNarrow(NodeImporter &n, mlir::Value kept, onnx::DataType type);

/// The numbers as they are kept. Integers lose the bits that they have too
/// many.
mlir::Value toNarrow(NodeImporter &n, mlir::Value numbers, onnx::DataType type,
                     const Narrowing &narrowing);

/// Smallest and largest number of an integer type.
std::pair<double, double> rangeOf(onnx::DataType type);

} // namespace pp

#endif // PP_LIB_IMPORT_NARROWTYPE_H
