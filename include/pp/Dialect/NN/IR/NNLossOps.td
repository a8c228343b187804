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

def NN_CtcLossOp : NN_LossOp<"ctc_loss", [
    NN_Differentiable, AllElementTypesMatch<["logProbabilities", "losses"]>,
    AllElementTypesMatch<["logProbabilities", "alphas"]>]> {
  let summary = "connectionist temporal classification of each sample";
  let description = [{
    Graves, Fernandez, Gomez and Schmidhuber, "Connectionist Temporal
    Classification", ICML 2006. `logProbabilities` is samples x frames x classes,
    `labels` samples x labels; those of a sample end in front of its first
    negative one. A sample's loss is minus the logarithm of the probability of
    all paths that give its labels when equal neighbours are one and `blank`s are
    dropped; infinite if there are too few frames. `frames` says how many of its
    frames each sample has; without it, all.

    `alphas`, of samples x frames x (2 labels + 1), are the logarithms of the
    forward variables (section 4.1), for the derivative; -1e30 stands for that of
    0.
  }];
  let arguments = (ins NN_FloatTensor:$logProbabilities,
                       NN_IndexTensor:$labels, Optional<NN_IndexTensor>:$frames,
                       I64Attr:$blank);
  let results = (outs NN_FloatTensor:$losses, NN_FloatTensor:$alphas);
  let assemblyFormat = [{
    $logProbabilities `,` $labels (`frames` $frames^)? `blank` $blank attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_CtcLossBackwardOp : NN_LossOp<"ctc_loss_backward", [
    AllTypesMatch<["logProbabilities", "output"]>,
    AllTypesMatch<["losses", "lossGradients"]>,
    AllElementTypesMatch<["logProbabilities", "alphas"]>]> {
  let summary = "the cotangent of the logarithms of probabilities";
  let description = [{
    At each frame, minus how probable each class is there, given the labels, times
    the sample's `lossGradients`; 0 in frames that a sample does not have.
  }];
  let arguments = (ins NN_FloatTensor:$logProbabilities,
                       NN_IndexTensor:$labels, NN_FloatTensor:$losses,
                       NN_FloatTensor:$alphas, NN_FloatTensor:$lossGradients,
                       Optional<NN_IndexTensor>:$frames, I64Attr:$blank);
  let results = (outs NN_FloatTensor:$output);
  let assemblyFormat = [{
    $logProbabilities `,` $labels `,` $losses `,` $alphas `,` $lossGradients
    (`frames` $frames^)? `blank` $blank attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // PP_DIALECT_NN_IR_NNLOSSOPS_TD
