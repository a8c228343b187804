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

} // namespace pp

#endif // PP_LIB_IMPORT_PRODUCTS_H
