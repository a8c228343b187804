//===- NNLossOps.td - Losses -----------------------------------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNLOSSOPS_TD
#define PP_DIALECT_NN_IR_NNLOSSOPS_TD

include "pp/Dialect/NN/IR/NNBase.td"

class NN_LossOp<string mnemonic, list<Trait> traits>
    : NN_GeneratedOp<mnemonic, traits # [NN_Batch<["propagateBatch"]>,
                                         KernelOpInterface,
                                         NN_Cost<["getFlops"]>]> {
  let hasVerifier = 1;
}

def NN_SoftmaxCrossEntropyOp : NN_LossOp<"softmax_cross_entropy", [
    NN_Differentiable, InferTypeOpAdaptor]> {
  let summary = "sum of the cross entropies of rows of logits";
  let description = [{
    Sum over rows r of -log_softmax(logits[r])[labels[r]], a scalar. `logits` has
    the classes on its last axis, `labels` the shape without it. Also returns the
    logarithm of each row's normaliser, for the derivative. Rows with the label
    `ignoreIndex` add nothing. A label that is no class makes the loss NaN.
  }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IndexTensor:$labels,
                       OptionalAttr<I64Attr>:$ignoreIndex);
  let results = (outs NN_FloatTensor:$loss, NN_FloatTensor:$logNormalizer);
  let assemblyFormat = [{
    $logits `,` $labels attr-dict `:` functional-type(operands, results)
  }];
}

def NN_SoftmaxCrossEntropyBackwardOp
    : NN_LossOp<"softmax_cross_entropy_backward", [
        AllTypesMatch<["logits", "output"]>,
        AllElementTypesMatch<["logits", "logNormalizer", "lossGradient"]>]> {
  let summary = "the cotangent of the logits";
  let description = [{
    (softmax(logits) - onehot(labels)) * lossGradient; `lossGradient` is a scalar.
    Rows with the label `ignoreIndex` are 0.
  }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IndexTensor:$labels,
                       NN_FloatTensor:$logNormalizer,
                       NN_FloatTensor:$lossGradient,
                       OptionalAttr<I64Attr>:$ignoreIndex);
  let results = (outs NN_FloatTensor:$output);
  let assemblyFormat = [{
    $logits `,` $labels `,` $logNormalizer `,` $lossGradient attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // PP_DIALECT_NN_IR_NNLOSSOPS_TD
