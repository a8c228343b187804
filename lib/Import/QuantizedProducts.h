//===- QuantizedProducts.h - Sums of products of integers -------*- C++ -*-===//

#ifndef PP_LIB_IMPORT_QUANTIZEDPRODUCTS_H
#define PP_LIB_IMPORT_QUANTIZEDPRODUCTS_H

#include "NodeImporter.h"

namespace pp {

/// Integers of 8 bits less their zero points, as floating-point numbers.
struct QuantizedFactor {
  mlir::Value value;
  /// No number is further from 0.
  int64_t most = 0;
  /// The integers as they are, and their zero points, which may be missing, as
  /// integers of 32 bits.
  mlir::Value whole, zero;
  bool isSigned = false;

  explicit operator bool() const { return bool(value); }
};

/// Input `index` less its zero point, which is one number, or one for each
/// place of `axis`, and may be missing. Null, with an error, where shapes do
/// not fit.
QuantizedFactor quantizedFactor(NodeImporter &n, size_t index, size_t zeroIndex,
                                int64_t axis);

/// The product of MatMul in 32-bit integers; null, with an error, where the
/// shapes do not fit.
mlir::Value quantizedMatMul(NodeImporter &n, const QuantizedFactor &a,
                            const QuantizedFactor &b);

/// The same of the convolution that the attributes of the node describe.
mlir::Value quantizedConv(NodeImporter &n, const QuantizedFactor &x,
                          const QuantizedFactor &w);

/// A scale or zero point in the shape of what it belongs to: one number, one
/// for each place of an axis, or one for each block along it. Null, with an
/// error, where it does not fit.
mlir::Value alignTo(NodeImporter &n, mlir::Value parameter,
                    llvm::ArrayRef<int64_t> shape, int64_t axis, int64_t block);

} // namespace pp

#endif // PP_LIB_IMPORT_QUANTIZEDPRODUCTS_H
