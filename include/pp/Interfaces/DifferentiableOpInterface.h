//===- DifferentiableOpInterface.h - Reverse-mode derivatives ---*- C++ -*-===//

#ifndef PP_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
#define PP_INTERFACES_DIFFERENTIABLEOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

#include "pp/Interfaces/DifferentiableOpInterface.h.inc"

namespace pp {

/// No cotangent flows through the operation by definition.
template <typename ConcreteType>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): as MLIR's traits.
class NotDifferentiable
    : public mlir::OpTrait::TraitBase<ConcreteType, NotDifferentiable> {};

} // namespace pp

#endif // PP_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
