//===- DifferentiableOpInterface.td - Reverse-mode derivatives -*- tablegen -*-===//

#ifndef PP_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
#define PP_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::pp";
  let description = [{
    The vector-Jacobian product of an operation. `buildVJP` builds the
    operations that turn the cotangents of the results into the cotangents of
    the operands. It may use operands and results of the operation itself:
    those uses are what reverse mode saves.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the cotangents of the operands for which `needed` is set, in
        `operandCotangents` (one entry per operand; a null value stands for
        zero). `cotangents` has one entry per result; null stands for zero, and
        at least one is not null. Fails, with an error emitted, when the
        derivative is not known.
      }], "::llvm::LogicalResult", "buildVJP",
      (ins "::mlir::OpBuilder &":$builder,
           "::llvm::ArrayRef<::mlir::Value>":$cotangents,
           "::llvm::ArrayRef<bool>":$needed,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandCotangents)>
  ];
}

// No cotangent flows through the operation by definition: comparisons, logic,
// constants. What has neither this nor the interface has no known derivative.
def NotDifferentiable : NativeOpTrait<"NotDifferentiable"> {
  let cppNamespace = "::pp";
}

#endif // PP_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
