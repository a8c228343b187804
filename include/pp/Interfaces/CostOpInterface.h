//===- CostOpInterface.h - What an operation costs --------------*- C++ -*-===//

#ifndef PP_INTERFACES_COSTOPINTERFACE_H
#define PP_INTERFACES_COSTOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace pp {

/// Bytes of a statically shaped tensor (i1 takes a byte), as its encoding says
/// if it has one; 0 for any other type.
uint64_t getTensorBytes(mlir::Type type);

namespace detail {
/// Elements of all results together.
uint64_t getResultElements(mlir::Operation *op);
/// Bytes of all distinct tensor operands.
uint64_t getOperandBytes(mlir::Operation *op);
/// Bytes of all tensor results.
uint64_t getResultBytes(mlir::Operation *op);
} // namespace detail
} // namespace pp

#include "pp/Interfaces/CostOpInterface.h.inc"

#endif // PP_INTERFACES_COSTOPINTERFACE_H
