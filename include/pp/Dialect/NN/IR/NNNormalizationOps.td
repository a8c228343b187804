//===- NNNormalizationOps.td - Softmax, layer and batch norm ---*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNNORMALIZATIONOPS_TD
#define PP_DIALECT_NN_IR_NNNORMALIZATIONOPS_TD

include "pp/Dialect/NN/IR/NNBase.td"

class NN_RowOp<string mnemonic, list<Trait> traits = []>
    : NN_GeneratedOp<mnemonic, traits # [NN_Batch<["propagateBatch"]>,
                                         KernelOpInterface,
                                         NN_Cost<["getFlops"]>]> {
  let hasVerifier = 1;
}

def NN_SoftmaxOp : NN_RowOp<"softmax", [
    NN_Differentiable, SameOperandsAndResultType]> {
  let summary = "e^x / sum(e^x) along the last axis";
  let description = [{
    The maximum is subtracted first, so it cannot overflow. With `zeroed`, rows
    that would be no numbers are 0, and so are their derivatives: rows of
    -infinity alone, which masks hide as a whole.
  }];
  let arguments = (ins NN_FloatTensor:$input, UnitAttr:$zeroed);
  let results = (outs NN_FloatTensor:$output);
  let assemblyFormat = "$input (`zeroed` $zeroed^)? attr-dict `:` type($output)";
}

def NN_LogSoftmaxOp : NN_RowOp<"log_softmax", [
    NN_Differentiable, SameOperandsAndResultType]> {
  let summary = "x - ln(sum(e^x)) along the last axis";
  let arguments = (ins NN_FloatTensor:$input);
  let results = (outs NN_FloatTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($output)";
}

def NN_LayerNormOp : NN_RowOp<"layer_norm", [
    NN_Differentiable, InferTypeOpAdaptor, SameOperandsAndResultElementType]> {
  let summary = "normalises the last axis";
  let description = [{
    (x - mean) * rstd * scale + shift over the last axis, with the population
    variance and rstd = 1 / sqrt(variance + epsilon); `mean` and `rstd` are what
    the derivative needs (Ba et al., arXiv 1607.06450).
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$scale,
                       NN_FloatTensor:$shift, F64Attr:$epsilon);
  let results = (outs NN_FloatTensor:$output, NN_FloatTensor:$mean,
                      NN_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input `,` $scale `,` $shift `epsilon` $epsilon attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_LayerNormBackwardOp : NN_RowOp<"layer_norm_backward", [
    AllTypesMatch<["outputGradient", "input", "output"]>,
    SameOperandsAndResultElementType]> {
  let summary = "the cotangent of the input of nn.layer_norm";
  let description = [{
    With g = outputGradient * scale and n = (x - mean) * rstd:
    rstd * (g - mean(g) - n * mean(g * n)).
  }];
  let arguments = (ins NN_FloatTensor:$outputGradient, NN_FloatTensor:$input,
                       NN_FloatTensor:$scale, NN_FloatTensor:$mean,
                       NN_FloatTensor:$rstd);
  let results = (outs NN_FloatTensor:$output);
  let assemblyFormat = [{
    $outputGradient `,` $input `,` $scale `,` $mean `,` $rstd attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_BatchNormOp : NN_LibraryOp<"batch_norm", [
    NN_Differentiable, AllTypesMatch<["input", "output"]>,
    AllTypesMatch<["scale", "shift", "mean", "variance"]>]> {
  let summary = "normalises each channel over the micro-batch";
  let description = [{
    `input` is N x C x spatial (or N x C). Returns the normalised tensor and the
    mean and the population variance of each channel (Ioffe and Szegedy, arXiv
    1502.03167). It mixes the samples of a micro-batch: its result depends on the
    size of the micro-batch. With a `layout` (see `nn.reorder`), input and result
    lie in it. Both may be bf16, while the numbers of channels are f32, as are
    sums. With `rows`, the statistics are those of so many of the first along axis
    0 (`nn.present_rows`).
  }];
  let arguments = (ins NN_FactorTensor:$input, NN_FloatTensor:$scale,
                       NN_FloatTensor:$shift,
                       Optional<NN_TensorOf<[I32]>>:$rows, F64Attr:$epsilon,
                       DefaultValuedAttr<NN_Layout, "Layout::plain">:$layout);
  let results = (outs NN_FactorTensor:$output, NN_FloatTensor:$mean,
                      NN_FloatTensor:$variance);
  let assemblyFormat = [{
    $input `,` $scale `,` $shift (`rows` $rows^)? `epsilon` $epsilon
    (`layout` $layout^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def NN_BatchNormBackwardOp : NN_LibraryOp<"batch_norm_backward", [
    AllTypesMatch<["input", "outputGradient", "inputGradient"]>,
    AllTypesMatch<["mean", "variance", "scale", "scaleGradient",
                   "shiftGradient"]>]> {
  let summary = "the cotangents of input, scale and shift of nn.batch_norm";
  let description = [{
    With `rows`, those of the other rows are 0.
  }];
  let arguments = (ins NN_FactorTensor:$input, NN_FactorTensor:$outputGradient,
                       NN_FloatTensor:$mean, NN_FloatTensor:$variance,
                       NN_FloatTensor:$scale,
                       Optional<NN_TensorOf<[I32]>>:$rows, F64Attr:$epsilon,
                       DefaultValuedAttr<NN_Layout, "Layout::plain">:$layout);
  let results = (outs NN_FactorTensor:$inputGradient,
                      NN_FloatTensor:$scaleGradient,
                      NN_FloatTensor:$shiftGradient);
  let assemblyFormat = [{
    $input `,` $outputGradient `,` $mean `,` $variance `,` $scale
    (`rows` $rows^)? `epsilon` $epsilon (`layout` $layout^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

/// What a batch norm needs of each channel, from an image that lies in `layout`.
/// Short numbers are widened as they are read.
class NN_ChannelOp<string mnemonic, list<Trait> traits = []>
    : NN_GeneratedOp<mnemonic, traits # [KernelOpInterface,
                                         NN_Cost<["getFlops"]>]> {
  let hasVerifier = 1;
}

def NN_ChannelMomentsOp : NN_ChannelOp<"channel_moments", [
    AllTypesMatch<["mean", "variance"]>]> {
  let summary = "mean and population variance of each channel";
  let description = [{
    `input` is N x C x spatial, in `layout` (see `nn.reorder`). Mean and squared
    deviations of a sample's channel come first, from two passes over what a
    cache holds; those of the samples are then combined in their order (Chan,
    Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
    sample variances", 1979, equation 2.1), so that memory is read once and no
    long sum loses its last terms. With `rows`, those of the first so many along
    axis 0.
  }];
  let arguments = (ins NN_FactorTensor:$input,
                       Optional<NN_TensorOf<[I32]>>:$rows,
                       DefaultValuedAttr<NN_Layout, "Layout::plain">:$layout);
  let results = (outs NN_FloatTensor:$mean, NN_FloatTensor:$variance);
  let assemblyFormat = [{
    $input (`rows` $rows^)? (`layout` $layout^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_ChannelSumsOp : NN_ChannelOp<"channel_sums", [
    AllTypesMatch<["gradient", "input"]>,
    AllTypesMatch<["mean", "sum", "weighted"]>]> {
  let summary = "what the derivative of a batch norm needs of each channel";
  let description = [{
    The sums over each channel of `gradient` and of gradient * (input - mean),
    one sample after the other. With `rows`, over the first so many along axis 0.
  }];
  let arguments = (ins NN_FactorTensor:$gradient, NN_FactorTensor:$input,
                       NN_FloatTensor:$mean,
                       Optional<NN_TensorOf<[I32]>>:$rows,
                       DefaultValuedAttr<NN_Layout, "Layout::plain">:$layout);
  let results = (outs NN_FloatTensor:$sum, NN_FloatTensor:$weighted);
  let assemblyFormat = [{
    $gradient `,` $input `,` $mean (`rows` $rows^)? (`layout` $layout^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // PP_DIALECT_NN_IR_NNNORMALIZATIONOPS_TD
