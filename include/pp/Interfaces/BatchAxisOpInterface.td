//===- BatchAxisOpInterface.td - Where the samples go ----------*- tablegen -*-===//

#ifndef PP_INTERFACES_BATCHAXISOPINTERFACE_TD
#define PP_INTERFACES_BATCHAXISOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def BatchAxisOpInterface : OpInterface<"BatchAxisOpInterface"> {
  let cppNamespace = "::pp";
  let description = [{
    How the batch axis passes through an operation, and how the operation
    changes when the batch gets another size.
  }];
  let methods = [
    InterfaceMethod<[{
        Given the batch position of each operand (none: the operand is the same
        for all samples), returns those of the results. Fails, after `emitError`
        said why, when the operation mixes samples or when operands disagree.
        The default is the rule of elementwise operations.
      }], "::llvm::LogicalResult", "propagateBatch",
      (ins "::llvm::ArrayRef<::pp::BatchPosition>":$operands,
           "::llvm::SmallVectorImpl<::pp::BatchPosition> &":$results,
           "::llvm::function_ref<::mlir::InFlightDiagnostic()>":$emitError),
      "", [{
        return ::pp::detail::propagateBatchElementwise($_op.getOperation(),
                                                       operands, results,
                                                       emitError);
      }]>,
    InterfaceMethod<[{
        Changes the attributes that hold a size of the batch axis; the caller
        changes the result types. `operands` and `results` are the positions
        found by `propagateBatch`; sizes on the batch axis are multiplied by
        newBatch / oldBatch.
      }], "void", "rebatch",
      (ins "::llvm::ArrayRef<::pp::BatchPosition>":$operands,
           "::llvm::ArrayRef<::pp::BatchPosition>":$results,
           "int64_t":$oldBatch, "int64_t":$newBatch), "", "(void)operands;">,
    InterfaceMethod<[{
        Asks an operation whose result is the same for all samples for a result
        that has the samples at `position` (a splat or a broadcast can be made
        of any size). Returns the operand positions it needs for that in
        `operands`, or fails when it cannot.
      }], "::llvm::LogicalResult", "demandBatch",
      (ins "::pp::BatchPosition":$position,
           "::llvm::SmallVectorImpl<::pp::BatchPosition> &":$operands), "",
      [{
        return ::pp::detail::demandBatchElementwise($_op.getOperation(),
                                                    position, operands);
      }]>
  ];
}

#endif // PP_INTERFACES_BATCHAXISOPINTERFACE_TD
