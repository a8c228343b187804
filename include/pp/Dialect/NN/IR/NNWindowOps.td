//===- NNWindowOps.td - Pooling --------------------------------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNWINDOWOPS_TD
#define PP_DIALECT_NN_IR_NNWINDOWOPS_TD

include "pp/Dialect/NN/IR/NNBase.td"

class NN_WindowOp<string mnemonic, list<Trait> traits = [NN_Differentiable]>
    : NN_LibraryOp<mnemonic, traits # [SameOperandsAndResultElementType]> {
  dag window = (ins DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                    DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$padLow,
                    DenseI64ArrayAttr:$padHigh);
  // In which all tensors lie.
  dag layout = (ins DefaultValuedAttr<NN_Layout, "Layout::plain">:$layout);
  string windowFormat = [{
    `kernel` $kernel `strides` $strides `dilations` $dilations
    `pad` $padLow `x` $padHigh
  }];
  string typeFormat = [{
    (`layout` $layout^)? attr-dict `:` functional-type(operands, $output)
  }];
}

def NN_MaxPoolOp : NN_WindowOp<"max_pool"> {
  let summary = "the maximum of each window";
  let description = [{
    `input` is N x C x spatial. Padding never wins. The cotangent goes to the
    first maximum of a window.
  }];
  let arguments = !con((ins NN_FactorTensor:$input), window, layout);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat = "$input " # windowFormat # typeFormat;
}

def NN_MaxPoolBackwardOp : NN_WindowOp<"max_pool_backward", [
    AllTypesMatch<["input", "output"]>]> {
  let summary = "the cotangent of the input of nn.max_pool";
  let arguments = !con((ins NN_FactorTensor:$input,
                            NN_FactorTensor:$outputGradient), window, layout);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat =
    "$input `,` $outputGradient " # windowFormat # typeFormat;
}

def NN_AvgPoolOp : NN_WindowOp<"avg_pool"> {
  let summary = "the mean of each window";
  let description = [{
    With `includePad` the divisor is the size of the window, else the number of
    its elements inside the input.
  }];
  let arguments = !con((ins NN_FloatTensor:$input), window,
                       (ins UnitAttr:$includePad), layout);
  let results = (outs NN_FloatTensor:$output);
  let assemblyFormat = "$input " # windowFormat #
                       "(`include_pad` $includePad^)?" # typeFormat;
}

def NN_AvgPoolBackwardOp : NN_WindowOp<"avg_pool_backward"> {
  let summary = "the cotangent of the input of nn.avg_pool";
  let arguments = !con((ins NN_FloatTensor:$outputGradient), window,
                       (ins UnitAttr:$includePad), layout);
  let results = (outs NN_FloatTensor:$output);
  let assemblyFormat = "$outputGradient " # windowFormat #
                       "(`include_pad` $includePad^)?" # typeFormat;
}

#endif // PP_DIALECT_NN_IR_NNWINDOWOPS_TD
