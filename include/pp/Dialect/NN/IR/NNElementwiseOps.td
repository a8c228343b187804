//===- NNElementwiseOps.td - One result element per operand element -*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNELEMENTWISEOPS_TD
#define PP_DIALECT_NN_IR_NNELEMENTWISEOPS_TD

include "pp/Dialect/NN/IR/NNBase.td"

def NN_NegOp : NN_UnaryOp<"neg", NN_NumberTensor> { let summary = "-x"; }
def NN_AbsOp : NN_UnaryOp<"abs", NN_NumberTensor> { let summary = "|x|"; }
def NN_SignOp : NN_UnaryOp<"sign", NN_FloatTensor> {
  let summary = "-1, 0 or 1";
}
def NN_FloorOp : NN_UnaryOp<"floor", NN_FloatTensor> {
  let summary = "the largest integer not above x";
}
def NN_CeilOp : NN_UnaryOp<"ceil", NN_FloatTensor> {
  let summary = "the smallest integer not below x";
}
def NN_ExpOp : NN_UnaryOp<"exp", NN_FloatTensor> { let summary = "e^x"; }
def NN_LogOp : NN_UnaryOp<"log", NN_FloatTensor> { let summary = "ln x"; }
def NN_SqrtOp : NN_UnaryOp<"sqrt", NN_FloatTensor> {
  let summary = "square root";
}
def NN_RsqrtOp : NN_UnaryOp<"rsqrt", NN_FloatTensor> {
  let summary = "1 / sqrt(x)";
}
def NN_SinOp : NN_UnaryOp<"sin", NN_FloatTensor> { let summary = "sine"; }
def NN_CosOp : NN_UnaryOp<"cos", NN_FloatTensor> { let summary = "cosine"; }
def NN_TanhOp : NN_UnaryOp<"tanh", NN_FloatTensor> {
  let summary = "hyperbolic tangent";
}
def NN_LogisticOp : NN_UnaryOp<"logistic", NN_FloatTensor> {
  let summary = "1 / (1 + e^-x)";
}
def NN_ErfOp : NN_UnaryOp<"erf", NN_FloatTensor> {
  let summary = "error function";
}
def NN_ReluOp : NN_UnaryOp<"relu", NN_FloatTensor> {
  let summary = "max(x, 0)";
  let description = [{
    The derivative at 0 is 0, as in PyTorch. It is found from the result, so
    the operand need not be saved.
  }];
}
def NN_NotOp : NN_UnaryOp<"not", NN_BoolTensor> {
  let summary = "logical negation";
}
def NN_GeluOp : NN_UnaryOp<"gelu", NN_FloatTensor> {
  let summary = "Gaussian error linear unit";
  let description = [{
    x * Phi(x), with the error function, or with the tanh approximation
    0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) where `approximate` is set
    (Hendrycks and Gimpel, arXiv 1606.08415).
  }];
  let arguments = (ins NN_FloatTensor:$input, UnitAttr:$approximate);
  let assemblyFormat =
    "$input (`approximate` $approximate^)? attr-dict `:` type($output)";
}

def NN_CopyOp : NN_UnaryOp<"copy", NN_Tensor> {
  let summary = "x, in memory of its own";
  let description = [{
    What the importer makes of a model's output that nothing computes: an input,
    a view of one, a constant, an initializer, or an output that has another name
    already.
  }];
}

def NN_AddOp : NN_BinaryOp<"add", NN_NumberTensor, [Commutative]> {
  let summary = "x + y";
}
def NN_SubOp : NN_BinaryOp<"sub", NN_NumberTensor> { let summary = "x - y"; }
def NN_MulOp : NN_BinaryOp<"mul", NN_NumberTensor, [Commutative]> {
  let summary = "x * y";
}
def NN_DivOp : NN_BinaryOp<"div", NN_NumberTensor> { let summary = "x / y"; }
def NN_PowOp : NN_BinaryOp<"pow", NN_FloatTensor> { let summary = "x^y"; }
def NN_MaximumOp : NN_BinaryOp<"maximum", NN_NumberTensor, [Commutative]> {
  let summary = "the larger of two";
  let description = "At a tie each operand gets half of the cotangent.";
}
def NN_MinimumOp : NN_BinaryOp<"minimum", NN_NumberTensor, [Commutative]> {
  let summary = "the smaller of two";
  let description = "At a tie each operand gets half of the cotangent.";
}
def NN_AndOp : NN_BinaryOp<"and", NN_BoolTensor, [Commutative]> {
  let summary = "logical conjunction";
}
def NN_OrOp : NN_BinaryOp<"or", NN_BoolTensor, [Commutative]> {
  let summary = "logical disjunction";
}

def NN_CompareOp : NN_ElementwiseOp<"compare", [
    SameTypeOperands, SameOperandsAndResultShape]> {
  let summary = "compares two tensors element by element";
  let description = [{
    ```mlir
    %0 = nn.compare lt %a, %b : tensor<4xf32> -> tensor<4xi1>
    ```
  }];
  let arguments = (ins NN_Comparison:$comparison, NN_NumberTensor:$lhs,
                       NN_NumberTensor:$rhs);
  let results = (outs NN_BoolTensor:$output);
  let assemblyFormat = [{
    $comparison $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($output)
  }];
}

def NN_SelectOp : NN_ElementwiseOp<"select", [
    AllTypesMatch<["whenTrue", "whenFalse", "output"]>,
    SameOperandsAndResultShape]> {
  let summary = "chooses between two tensors element by element";
  let arguments = (ins NN_BoolTensor:$condition, NN_Tensor:$whenTrue,
                       NN_Tensor:$whenFalse);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = [{
    $condition `,` $whenTrue `,` $whenFalse attr-dict
    `:` type($condition) `,` type($output)
  }];
}

def NN_CastOp : NN_ElementwiseOp<"cast", [SameOperandsAndResultShape]> {
  let summary = "converts the element type";
  let description = [{
    Floating point to integer rounds towards zero; to i1 it is x != 0.
  }];
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($output)";
  let hasFolder = 1;
}

#endif // PP_DIALECT_NN_IR_NNELEMENTWISEOPS_TD
