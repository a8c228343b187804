//===- NNDialect.td - The nn dialect ---------------------------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNDIALECT_TD
#define PP_DIALECT_NN_IR_NNDIALECT_TD

include "mlir/IR/DialectBase.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::pp::nn";
  let summary = "What a neural network computes";
  let description = [{
    Value-semantics operations on statically shaped tensors, closed under
    reverse-mode differentiation: primitives, a few fused operations that have
    a vector-Jacobian product and a cost of their own, and `nn.kernel`, a region
    of operations that is executed as one launch.

    Operands of an elementwise operation have one shape; `nn.broadcast` makes
    it so. Parameters are symbols (`ml_program.global` with an `#nn.external`
    value), never constants: `nn.parameter` names one.

    Attributes on operations of any dialect; the dialect checks their types and
    refuses any other `nn.` attribute:

    | attribute | on | meaning |
    |---|---|---|
    | `nn.trained` | globals | it is trained |
    | `nn.reason` | globals | why it is trained, or why not, in words |
    | `nn.tf32` | products of f32 | a GPU may round the factors to TF32 |
    | `nn.stops_at_bound` | `nn.maximum`, `nn.minimum` | no cotangent passes at a tie |

    Nothing in this dialect knows of stages, devices or schedules.
  }];
  let dependentDialects = ["::mlir::ml_program::MLProgramDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
}

#endif // PP_DIALECT_NN_IR_NNDIALECT_TD
