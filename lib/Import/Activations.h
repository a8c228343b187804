//===- Activations.h - Activations that attributes name ---------*- C++ -*-===//

#ifndef PP_LIB_IMPORT_ACTIVATIONS_H
#define PP_LIB_IMPORT_ACTIVATIONS_H

#include "Expressions.h"

namespace pp {

/// In place of a number that an activation does not have.
inline constexpr double noParameter = -1;

/// An activation that an attribute names, as ONNX's recurrent operators and
/// ONNX Runtime's fused ones do.
struct ActivationKind {
  llvm::StringLiteral name;
  /// What they are where the node does not say, or `noParameter`.
  double alpha, beta;
  mlir::Value (*make)(Expressions &, mlir::Value x, double alpha, double beta);
};

/// Null if there is none of that name, in which case does not matter.
const ActivationKind *findActivation(llvm::StringRef name);

} // namespace pp

#endif // PP_LIB_IMPORT_ACTIVATIONS_H
