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

/// What is kept for a symbol besides (or instead of) its value.
enum class StateKind {
  /// The value itself: a parameter or a buffer.
  Value,
  /// The sum of the gradients of a step's micro-batches.
  Gradient,
  /// The sum of the statistics of a step's micro-batches.
  Statistics,
};

/// One state of one `ml_program.global`.
struct StateReference {
  mlir::FlatSymbolRefAttr symbol;
  StateKind kind;
  /// Of a gradient that is added up in several parts, one for each reader of a
  /// tied parameter: its number. The parts are added once per step.
  int64_t part = 0;
};

} // namespace pp

#include "pp/Interfaces/KernelOpInterface.h.inc"

#endif // PP_INTERFACES_KERNELOPINTERFACE_H
