//===- NNContractionOps.td - Matrix products and convolutions --*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNCONTRACTIONOPS_TD
#define PP_DIALECT_NN_IR_NNCONTRACTIONOPS_TD

include "pp/Dialect/NN/IR/NNBase.td"

def NN_DotGeneralOp : NN_LibraryOp<"dot_general", [
    NN_Differentiable, SameOperandsElementType]> {
  let summary = "sums of products over contracted axes";
  let description = [{
    Axes `lhsBatch[i]` and `rhsBatch[i]` run together, axes `lhsContract[i]` and
    `rhsContract[i]` are summed. The result has the batch axes, then the free
    axes of `lhs`, then those of `rhs`.
    ```mlir
    %y = nn.dot_general %x, %w batch [] x [] contract [1] x [1]
         : (tensor<8x64xf32>, tensor<10x64xf32>) -> tensor<8x10xf32>
    ```
    `rhs` may be packed (`#nn.packed`) for exactly this product.

    Factors of sixteen bits (bf16, f16) give a result of their type or of f32;
    sums have the precision of f32. So do the convolutions.
  }];
  let arguments = (ins NN_FactorTensor:$lhs, NN_FactorTensor:$rhs,
                       DenseI64ArrayAttr:$lhsBatch, DenseI64ArrayAttr:$rhsBatch,
                       DenseI64ArrayAttr:$lhsContract,
                       DenseI64ArrayAttr:$rhsContract);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat = [{
    $lhs `,` $rhs `batch` $lhsBatch `x` $rhsBatch
    `contract` $lhsContract `x` $rhsContract attr-dict
    `:` functional-type(operands, $output)
  }];
  let hasCanonicalizer = 1;
  let extraClassDeclaration = libraryKernelClass # [{
    uint64_t getEffectiveFlops();
    /// Axes of an operand that are neither batch nor contracted, increasing.
    ::llvm::SmallVector<int64_t> getFreeAxes(bool ofRhs);
    /// The descriptor with a result of another element type, and the key
    /// `epilogue` if `epilogue` is not empty, as if nothing were packed.
    std::string describe(::mlir::Type result, ::llvm::StringRef epilogue);
    /// Whether the library multiplies one matrix by one matrix.
    bool isOneProduct();
  }];
}

def NN_PackOp : NN_Op<"pack", [
    Pure, NotDifferentiable, BatchAxisOpInterface, CostOpInterface,
    KernelOpInterface]> {
  let summary = "brings a factor into the layout that its reader likes best";
  let description = [{
    The values stay the same. The library would do it in each product or
    convolution.

    ```mlir
    %p = nn.pack %w : tensor<64x128xf32>
        -> tensor<64x128xf32, #nn.packed<"matmul a=8x64 b=64x128 c=8x128", 32768>>
    ```
  }];
  let arguments = (ins NN_FactorTensor:$input);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($output)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::pp::KernelClass getKernelClass() { return ::pp::KernelClass::Library; }
    std::string getLibraryDescriptor();
    uint64_t getFlops() { return 0; }
  }];
}

def NN_IntegerProductOp : NN_LibraryOp<"integer_product", [NotDifferentiable]> {
  let summary = "a product of 8-bit integers, summed up in 32 bits";
  let description = [{
    result[m..., n] is the sum of lhs[m..., k] * w[k, n], whose K x N numbers are
    in `panels` of 64 columns, where four terms of a column lie side by side:
    panels[n / 64, k / 4, n % 64, k % 4]. What panels have beyond K and N does not
    count. Sums wrap around.
    ```mlir
    %y = nn.integer_product %x, %w
         : (tensor<8x30xui8>, tensor<2x8x64x4xi8>) -> tensor<8x100xi32>
    ```
  }];
  let arguments = (ins NN_TensorOf<[UI8]>:$lhs, NN_TensorOf<[I8]>:$panels);
  let results = (outs NN_TensorOf<[I32]>:$output);
  let assemblyFormat = [{
    $lhs `,` $panels attr-dict `:` functional-type(operands, $output)
  }];
}

def NN_BlockProductOp : NN_LibraryOp<"block_product", [NotDifferentiable]> {
  let summary = "a product with a matrix of 4-bit numbers in blocks";
  let description = [{
    result[m..., n] is the sum of lhs[m..., k] * (q[n, k] - zero) * scale. The
    numbers q are halves of the bytes of `blocks`, N x B x 16 L, the lower half
    first: B blocks of 32 L numbers, which have a scale, and a zero point in the
    halves of the bytes of `zeros`, or 8 where there is none. What blocks have
    beyond the columns of `lhs` does not count.
    ```mlir
    %y = nn.block_product %x, %w, %scales
         : (tensor<8x60xf32>, tensor<100x2x16xui8>, tensor<100x2xf32>) -> tensor<8x100xf32>
    ```
  }];
  let arguments = (ins NN_TensorOf<[F32]>:$lhs, NN_TensorOf<[UI8]>:$blocks,
                       NN_TensorOf<[F32]>:$scales,
                       Optional<NN_TensorOf<[UI8]>>:$zeros);
  let results = (outs NN_TensorOf<[F32]>:$output);
  let assemblyFormat = [{
    $lhs `,` $blocks `,` $scales (`,` $zeros^)? attr-dict
    `:` functional-type(operands, $output)
  }];
}

class NN_ConvolutionOp<string mnemonic>
    : NN_LibraryOp<mnemonic, [NN_Differentiable, SameOperandsElementType]> {
  // The geometry of the forward convolution, for one to three spatial axes.
  dag geometry = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                      DenseI64ArrayAttr:$padLow, DenseI64ArrayAttr:$padHigh,
                      I64Attr:$groups);
  dag kernel = (ins
    DefaultValuedAttr<NN_Layout, "Layout::plain">:$layout,
    DefaultValuedAttr<NN_ConvolutionAlgorithm,
                      "ConvolutionAlgorithm::direct">:$algorithm);
  string geometryFormat = [{
    `strides` $strides `dilations` $dilations `pad` $padLow `x` $padHigh
    `groups` $groups (`layout` $layout^)? (`algorithm` $algorithm^)? attr-dict
    `:` functional-type(operands, $output)
  }];
  let extraClassDeclaration = libraryKernelClass # [{
    uint64_t getEffectiveFlops();
  }];
}

def NN_ConvOp : NN_ConvolutionOp<"conv"> {
  let summary = "convolution";
  let description = [{
    `input` is N x C x spatial, `weight` O x C/groups x kernel, the result N x O
    x spatial. Strides, dilations (1 is dense) and padding are per spatial axis.
    The three convolution ops are closed under differentiation. With a `layout`,
    input and result lie in it (see `nn.reorder`), the weight does not; a blocked
    layout leaves a tensor plain whose channels are no multiple of the block.
    The weight may be packed (`#nn.packed`) for exactly this operation, also in
    `nn.conv_backward_input`. With the `algorithm` `winograd`, the library takes
    F(4x4, 3x3) of Lavin and Gray (arXiv 1509.09308), where it has it; with
    `winograd2` and `winograd4`, the runtime computes F(2x2, 3x3) and F(4x4, 3x3);
    with `winograd2_bf16`, F(2x2, 3x3) whose transformed numbers are rounded to bf16.
  }];
  let arguments = !con((ins NN_FactorTensor:$input, NN_FactorTensor:$weight),
                       geometry, kernel);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat = "$input `,` $weight " # geometryFormat;
  let hasCanonicalizer = 1;
}

def NN_ConvBackwardInputOp : NN_ConvolutionOp<"conv_backward_input"> {
  let summary = "transposed convolution";
  let description = [{
    The cotangent of the input of `nn.conv` with this geometry, whose result has
    the shape of `outputGradient`; also what other systems call ConvTranspose.
  }];
  let arguments = !con((ins NN_FactorTensor:$outputGradient,
                            NN_FactorTensor:$weight), geometry, kernel);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat = "$outputGradient `,` $weight " # geometryFormat;
}

def NN_ConvBackwardWeightOp : NN_ConvolutionOp<"conv_backward_weight"> {
  let summary = "the cotangent of a convolution's weight";
  let arguments = !con((ins NN_FactorTensor:$input,
                            NN_FactorTensor:$outputGradient), geometry, kernel);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat = "$input `,` $outputGradient " # geometryFormat;
}

#endif // PP_DIALECT_NN_IR_NNCONTRACTIONOPS_TD
