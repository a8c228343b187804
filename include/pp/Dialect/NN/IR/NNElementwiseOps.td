//===- NNElementwiseOps.td - One result element per operand element -*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNELEMENTWISEOPS_TD
#define PP_DIALECT_NN_IR_NNELEMENTWISEOPS_TD

include "pp/Dialect/NN/IR/NNBase.td"

def NN_NegOp : NN_UnaryFunctionOp<"neg", NN_NumberTensor, [{
    e.neg(g)
  }]> { let summary = "-x"; }
def NN_AbsOp : NN_UnaryFunctionOp<"abs", NN_NumberTensor, [{
    e.mul(g, e.make<SignOp>(x))
  }]> { let summary = "|x|"; }
def NN_SignOp : NN_UnaryFunctionOp<"sign", NN_FloatTensor, [{
    ::mlir::Value()
  }]> {
  let summary = "-1, 0 or 1";
}
def NN_FloorOp : NN_UnaryFunctionOp<"floor", NN_FloatTensor, [{
    ::mlir::Value()
  }]> {
  let summary = "the largest integer not above x";
}
def NN_CeilOp : NN_UnaryFunctionOp<"ceil", NN_FloatTensor, [{
    ::mlir::Value()
  }]> {
  let summary = "the smallest integer not below x";
}
def NN_RoundOp : NN_UnaryFunctionOp<"round", NN_FloatTensor, [{
    ::mlir::Value()
  }]> {
  let summary = "the nearest integer, at a tie the even one";
}
def NN_ExpOp : NN_UnaryFunctionOp<"exp", NN_FloatTensor, [{
    e.mul(g, y)
  }]> { let summary = "e^x"; }
def NN_LogOp : NN_UnaryFunctionOp<"log", NN_FloatTensor, [{
    e.select(e.compare(Comparison::eq, g, e.splat(g, 0)), g, e.div(g, x))
  }]> {
  let summary = "ln x";
  let description = [{
    Where its cotangent is 0, so is the derivative: also for x = 0, whose
    logarithm others may bound (PyTorch's binary cross entropy does, by -100).
  }];
  let hasCanonicalizer = 1;
}
def NN_Expm1Op : NN_UnaryFunctionOp<"expm1", NN_FloatTensor, [{
    e.mul(g, e.add(y, e.splat(y, 1)))
  }]> {
  let summary = "e^x - 1, exact near 0";
}
def NN_Log1pOp : NN_UnaryFunctionOp<"log1p", NN_FloatTensor, [{
    e.div(g, e.add(x, e.splat(x, 1)))
  }]> {
  let summary = "ln(1 + x), exact near 0";
}
def NN_SqrtOp : NN_UnaryFunctionOp<"sqrt", NN_FloatTensor, [{
    e.div(e.scale(g, 0.5), y)
  }]> {
  let summary = "square root";
}
def NN_RsqrtOp : NN_UnaryFunctionOp<"rsqrt", NN_FloatTensor, [{
    e.mul(e.scale(g, -0.5), e.mul(y, e.mul(y, y)))
  }]> {
  let summary = "1 / sqrt(x)";
}
def NN_SinOp : NN_UnaryFunctionOp<"sin", NN_FloatTensor, [{
    e.mul(g, e.make<CosOp>(x))
  }]> { let summary = "sine"; }
def NN_CosOp : NN_UnaryFunctionOp<"cos", NN_FloatTensor, [{
    e.neg(e.mul(g, e.make<SinOp>(x)))
  }]> { let summary = "cosine"; }
def NN_AtanOp : NN_UnaryFunctionOp<"atan", NN_FloatTensor, [{
    e.div(g, e.add(e.mul(x, x), e.splat(x, 1)))
  }]> {
  let summary = "inverse tangent";
}
def NN_TanhOp : NN_UnaryFunctionOp<"tanh", NN_FloatTensor, [{
    e.mul(g, e.sub(e.splat(y, 1), e.mul(y, y)))
  }]> {
  let summary = "hyperbolic tangent";
}
def NN_LogisticOp : NN_UnaryFunctionOp<"logistic", NN_FloatTensor, [{
    e.mul(g, e.mul(y, e.sub(e.splat(y, 1), y)))
  }]> {
  let summary = "1 / (1 + e^-x)";
}
def NN_ErfOp : NN_UnaryFunctionOp<"erf", NN_FloatTensor, [{
    e.mul(e.scale(g, 2 * std::numbers::inv_sqrtpi),
          e.make<ExpOp>(e.neg(e.mul(x, x))))
  }]> {
  let summary = "error function";
}
def NN_ReluOp : NN_UnaryFunctionOp<"relu", NN_FloatTensor, [{
    e.select(e.compare(Comparison::gt, y, e.splat(y, 0)), g, e.splat(g, 0))
  }]> {
  let summary = "max(x, 0)";
  let description = [{
    The derivative at 0 is 0, as in PyTorch. It is found from the result, so
    the operand need not be saved.
  }];
}
def NN_SoftplusOp : NN_UnaryFunctionOp<"softplus", NN_FloatTensor, [{
    e.mul(g, e.make<LogisticOp>(x))
  }]> {
  let summary = "ln(1 + e^x)";
}
def NN_StopGradientOp : NN_UnaryOp<"stop_gradient", NN_FloatTensor,
                                   [NotDifferentiable]> {
  let summary = "x, whose derivative is 0";
  let description = "PyTorch's detach(). `nn-differentiate` leaves none.";
}
def NN_NotOp : NN_UnaryOp<"not", NN_BitsTensor, [NotDifferentiable]> {
  let summary = "negates every bit";
}
def NN_GeluOp : NN_UnaryOp<"gelu", NN_FloatTensor, [NN_Differentiable]> {
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

def NN_CopyOp : NN_UnaryFunctionOp<"copy", NN_Tensor, [{
    g
  }]> {
  let summary = "x, in memory of its own";
  let description = [{
    What the importer makes of a model's output that nothing computes: an input,
    a view of one, a constant, an initializer, or an output that has another name
    already.
  }];
}

def NN_AddOp : NN_BinaryFunctionOp<"add", NN_NumberTensor,
    [{ g }], [{ g }], [Commutative]> {
  let summary = "x + y";
}
def NN_SubOp : NN_BinaryFunctionOp<"sub", NN_NumberTensor,
    [{ g }], [{ e.neg(g) }]> { let summary = "x - y"; }
def NN_MulOp : NN_BinaryFunctionOp<"mul", NN_NumberTensor,
    [{ e.mul(g, z) }], [{ e.mul(g, x) }], [Commutative]> {
  let summary = "x * y";
}
def NN_DivOp : NN_BinaryFunctionOp<"div", NN_NumberTensor,
    [{ e.div(g, z) }], [{ e.neg(e.div(e.mul(g, y), z)) }]> { let summary = "x / y"; }
def NN_RemOp : NN_BinaryFunctionOp<"rem", NN_NumberTensor,
    [{ g }], [{ e.neg(e.mul(g, e.div(e.sub(x, y), z))) }]> {
  let summary = "the remainder of x / y, with the sign of x";
  let description = "Of integers, the remainder of a division by zero is x.";
}
def NN_PowOp : NN_BinaryOp<"pow", NN_FloatTensor, [NN_Differentiable]> { let summary = "x^y"; }
def NN_MaximumOp : NN_BinaryOp<"maximum", NN_NumberTensor, [
    Commutative, NN_Differentiable]> {
  let summary = "the larger of two";
  let description = [{
    At a tie each operand gets half of the cotangent; with the attribute
    `nn.stops_at_bound`, none gets any.
  }];
}
def NN_MinimumOp : NN_BinaryOp<"minimum", NN_NumberTensor, [
    Commutative, NN_Differentiable]> {
  let summary = "the smaller of two";
  let description = [{
    At a tie each operand gets half of the cotangent; with the attribute
    `nn.stops_at_bound`, none gets any.
  }];
}
def NN_AndOp : NN_BinaryOp<"and", NN_BitsTensor, [
    Commutative, NotDifferentiable]> {
  let summary = "the bits that both have";
}
def NN_OrOp : NN_BinaryOp<"or", NN_BitsTensor, [
    Commutative, NotDifferentiable]> {
  let summary = "the bits that one of both has";
}
def NN_XorOp : NN_BinaryOp<"xor", NN_BitsTensor, [
    Commutative, NotDifferentiable]> {
  let summary = "the bits that only one of both has";
}

def NN_CompareOp : NN_ElementwiseOp<"compare", [
    NotDifferentiable, InferTypeOpAdaptor, SameTypeOperands, SameOperandsAndResultShape]> {
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
    NN_Differentiable, AllTypesMatch<["whenTrue", "whenFalse", "output"]>,
    SameOperandsAndResultShape]> {
  let summary = "chooses between two tensors element by element";
  let arguments = (ins NN_BoolTensor:$condition, NN_Tensor:$whenTrue,
                       NN_Tensor:$whenFalse);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = [{
    $condition `,` $whenTrue `,` $whenFalse attr-dict
    `:` type($condition) `,` type($output)
  }];
  let hasCanonicalizer = 1;
}

def NN_CastOp : NN_ElementwiseOp<"cast", [
    NN_Differentiable, SameOperandsAndResultShape]> {
  let summary = "converts the element type";
  let description = [{
    Floating point to integer rounds towards zero; to i1 it is x != 0. An integer
    that has too many bits keeps the last ones.
  }];
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($output)";
  let hasFolder = 1;
}

def NN_BitcastOp : NN_ElementwiseOp<"bitcast", [
    NotDifferentiable, SameOperandsAndResultShape]> {
  let summary = "reads the bits of an element as one of another type";
  let description = [{
    Both types have as many bits.
    ```mlir
    %0 = nn.bitcast %x : tensor<4xf32> -> tensor<4xi32>
    ```
  }];
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($output)";
  let hasVerifier = 1;
}

#endif // PP_DIALECT_NN_IR_NNELEMENTWISEOPS_TD
