//===- Products.h - Products and convolutions of operators ------*- C++ -*-===//

#ifndef PP_LIB_IMPORT_PRODUCTS_H
#define PP_LIB_IMPORT_PRODUCTS_H

#include "NodeImporter.h"

namespace pp {

/// The product of MatMul; null, with an error, where the shapes do not fit.
mlir::Value importMatMul(NodeImporter &n, mlir::Value a, mlir::Value b);

/// The convolution that the attributes of the node describe, without a bias;
/// null, with an error, where they do not fit the shapes.
mlir::Value importConv(NodeImporter &n, mlir::Value x, mlir::Value w);

/// alpha * A * B + beta * C, as the attributes of the node say, where C may be
/// broadcast or not; null, with an error, where the shapes do not fit.
mlir::Value importGemm(NodeImporter &n, bool broadcasts);

/// Adds input #2, one number per channel, where the node has it.
llvm::LogicalResult addBias(NodeImporter &n, mlir::Value &value);

} // namespace pp

#endif // PP_LIB_IMPORT_PRODUCTS_H
