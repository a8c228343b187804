//===- KernelOpInterface.h - How an operation is executed -------*- C++ -*-===//

#ifndef PP_INTERFACES_KERNELOPINTERFACE_H
#define PP_INTERFACES_KERNELOPINTERFACE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"

namespace pp {

enum class KernelClass {
  /// A tuned library implements it: one call.
  Library,
  /// Code is generated for it, alone or fused with its neighbours.
  Generated,
  /// It names memory that exists already: no code at all.
  View,
};

} // namespace pp

#include "pp/Interfaces/KernelOpInterface.h.inc"

#endif // PP_INTERFACES_KERNELOPINTERFACE_H
