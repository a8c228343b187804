//===- NNShapeOps.td - Moving elements -------------------------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNSHAPEOPS_TD
#define PP_DIALECT_NN_IR_NNSHAPEOPS_TD

include "pp/Dialect/NN/IR/NNBase.td"

class NN_MoveOp<string mnemonic, list<string> batchMethods = [],
                list<Trait> traits = [NN_Differentiable]>
    : NN_GeneratedOp<mnemonic, traits # [NN_Batch<batchMethods>,
                                         KernelOpInterface]> {
  let extraClassDeclaration = kernelClass # [{
    uint64_t getFlops() { return 0; }
  }];
  let hasVerifier = 1;
}

/// Operands and attributes say all of the result's type, and are checked where
/// it is inferred.
class NN_InferredMoveOp<string mnemonic, list<string> batchMethods = []>
    : NN_MoveOp<mnemonic, batchMethods, [NN_Differentiable, InferTypeOpAdaptor]> {
  let hasVerifier = 0;
}

def NN_IotaOp : NN_MoveOp<"iota", ["demandBatch"], [NotDifferentiable]> {
  let summary = "counts along an axis";
  let description = [{
    Element (..., i, ...) of axis `axis` is i.
    ```mlir
    %0 = nn.iota 1 : tensor<2x4xi64>
    ```
  }];
  let arguments = (ins I64Attr:$axis);
  let results = (outs NN_NumberTensor:$output);
  let assemblyFormat = "$axis attr-dict `:` type($output)";
}

def NN_PresentRowsOp : NN_MoveOp<"present_rows", ["demandBatch"],
                                 [NotDifferentiable]> {
  let summary = "how many rows of a micro-batch belong to samples";
  let description = [{
    The last micro-batch of a smaller mini-batch is not full: its rows behind the
    samples that there are hold copies. `counter` is that of `nn.uniform`. With
    n samples in the step, of which the micro-batch's first one is number f, and
    `samples` and `rows` of each of them in a full micro-batch:

        rows * min(n - f, samples)
    ```mlir
    %0 = nn.present_rows %c samples 8 rows 1 : tensor<5xi32> -> tensor<i32>
    ```
  }];
  let arguments = (ins NN_TensorOf<[I32]>:$counter, I64Attr:$samples,
                       I64Attr:$rows);
  let results = (outs NN_TensorOf<[I32]>:$output);
  let assemblyFormat = [{
    $counter `samples` $samples `rows` $rows attr-dict
    `:` type($counter) `->` type($output)
  }];
}

def NN_UniformOp : NN_MoveOp<"uniform", ["demandBatch"], [NotDifferentiable]> {
  let summary = "numbers drawn at random from [0, 1)";
  let description = [{
    Multiples of 2^-24, drawn with Philox4x32-10 (Salmon et al., Parallel random
    numbers: as easy as 1, 2, 3, SC 2011). A number is a function of the seed, the step, the
    sample, the stream and the element within the sample alone, so it can be drawn again
    anywhere, and no kernel needs to keep it.

    `counter` holds the lower and the upper half of the seed, the number of the
    step, the number of the first sample of `output` in the step, and how many
    samples the step has. `samples`
    says where `output` has its samples: axis `samples[0]` is made of
    `samples[1]` x samples x `samples[2]`, row-major. Without it the numbers
    belong to no sample, and every micro-batch of the step has the same.

    Of the n elements of a sample, in row-major order, element e is word
    floor(e / q) of the block with the counter (e mod q, sample, step, `stream`),
    where q = ceil(n / 4), and the key (lower, upper half of the seed xor
    `seed`); samples are counted from 0, and where there are none, that word is 0.
    A word w stands for floor(w / 2^8) * 2^-24. With `layout`, the order is that of
    the plain tensor.
    ```mlir
    %0 = nn.uniform %c stream 3 samples [0, 1, 1] : tensor<5xi32> -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins NN_TensorOf<[I32]>:$counter, I64Attr:$stream,
                       DefaultValuedAttr<I64Attr, "0">:$seed,
                       OptionalAttr<DenseI64ArrayAttr>:$samples,
                       DefaultValuedAttr<NN_Layout, "Layout::plain">:$layout);
  let results = (outs NN_TensorOf<[F32]>:$output);
  let assemblyFormat = [{
    $counter `stream` $stream (`seed` $seed^)? (`samples` $samples^)?
    (`layout` $layout^)? attr-dict
    `:` type($counter) `->` type($output)
  }];
  let extraClassDeclaration = kernelClass # [{
    /// Ten rounds of two products, for four numbers.
    uint64_t getFlops() { return 20 * getOutput().getType().getNumElements(); }
    uint64_t getBytesRead() { return 16; }
    /// Elements of a sample; of all where there are none.
    int64_t getSampleElements();
    /// By how much the number of an element within its sample grows along each
    /// axis; along one of samples, along what is inside of them.
    ::llvm::SmallVector<int64_t> getSteps();
  }];
}

def NN_ReshapeOp : NN_ViewOp<"reshape", [
    NN_Differentiable, NN_Batch<["propagateBatch", "demandBatch"]>, KernelOpInterface]> {
  let summary = "the same elements, in row-major order, under another shape";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($output)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_TransposeOp : NN_InferredMoveOp<"transpose", ["propagateBatch", "demandBatch"]> {
  let summary = "permutes the axes";
  let description = [{
    Axis i of the result is axis `permutation[i]` of the operand.
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = [{
    $input $permutation attr-dict `:` type($input) `->` type($output)
  }];
  let hasFolder = 1;
}

def NN_ReorderOp : NN_LibraryOp<"reorder", [
    NN_Differentiable, SameOperandsAndResultElementType]> {
  let summary = "moves the channels of a tensor to another place in memory";
  let description = [{
    From one layout to another. A tensor of N x C x spatial is, in the layout

    | layout | a tensor of |
    |---|---|
    | `plain` | N x C x spatial |
    | `channels_last` | N x spatial x C |
    | `blocked8`, `blocked16` | N x C/b x spatial x b; b divides C |

    Layouts other than the plain one exist from nn-assign-layouts on.
    ```mlir
    %0 = nn.reorder %x plain to blocked16
        : tensor<8x64x56x56xf32> -> tensor<8x4x56x56x16xf32>
    ```
  }];
  let arguments = (ins NN_FactorTensor:$input, NN_Layout:$from, NN_Layout:$to);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat = [{
    $input $from `to` $to attr-dict `:` type($input) `->` type($output)
  }];
}

def NN_BroadcastOp : NN_MoveOp<"broadcast", ["propagateBatch", "demandBatch"]> {
  let summary = "repeats a tensor along new axes";
  let description = [{
    Axis i of the operand becomes axis `axes[i]` of the result and has its size;
    the other axes of the result repeat. `axes` is increasing.
    ```mlir
    %0 = nn.broadcast %bias [1] : tensor<64xf32> -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$axes);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = [{
    $input $axes attr-dict `:` type($input) `->` type($output)
  }];
  let hasFolder = 1;
}

def NN_SliceOp : NN_InferredMoveOp<"slice", ["propagateBatch", "rebatch"]> {
  let summary = "a strided part of a tensor";
  let description = [{
    Takes elements starts[i], starts[i] + strides[i], ... below limits[i].
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$strides);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = [{
    $input `starts` $starts `limits` $limits `strides` $strides attr-dict
    `:` type($input) `->` type($output)
  }];
  let hasFolder = 1;
}

def NN_PadOp : NN_InferredMoveOp<"pad", ["propagateBatch"]> {
  let summary = "puts a constant around and between the elements";
  let description = [{
    `low[i]` elements before, `high[i]` after and `interior[i]` between
    neighbours along axis i, all of them `value`.
  }];
  let arguments = (ins NN_FactorTensor:$input, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$interior,
                       DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs NN_FactorTensor:$output);
  let assemblyFormat = [{
    $input `low` $low `high` $high `interior` $interior attr-dict
    `:` type($input) `->` type($output)
  }];
  let hasFolder = 1;
}

def NN_ConcatOp : NN_InferredMoveOp<"concat", ["propagateBatch", "demandBatch"]> {
  let summary = "joins tensors along an axis";
  let arguments = (ins Variadic<NN_Tensor>:$inputs, I64Attr:$axis);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = [{
    $inputs `axis` $axis attr-dict `:` functional-type($inputs, $output)
  }];
  let hasFolder = 1;
}

def NN_GatherOp : NN_InferredMoveOp<"gather", ["propagateBatch"]> {
  let summary = "picks slices of a tensor by index";
  let description = [{
    result[a..., i..., b...] = input[a..., indices[i...], b...], where `a` are
    the axes before `axis` and `b` those after it. Negative indices count from
    the end; the result of an index outside of the axis is NaN, or an element of
    the axis where there is none.

    With `shared`, the first axes of both operands are the same ones:
    result[s..., a..., i..., b...] = input[s..., a..., indices[s..., i...], b...].
    ```mlir
    %0 = nn.gather %x[%i] axis 1 shared 1
        : (tensor<8x16x4xf32>, tensor<8x3xi64>) -> tensor<8x3x4xf32>
    ```
    The slice of index `untrained` gets no gradient from here: that of padding
    in a table of words.
  }];
  let arguments = (ins NN_Tensor:$input, NN_IndexTensor:$indices,
                       I64Attr:$axis,
                       DefaultValuedAttr<I64Attr, "0">:$shared,
                       DefaultValuedAttr<I64Attr, "-1">:$untrained);
  let results = (outs NN_Tensor:$output);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $input `[` $indices `]` `axis` $axis (`shared` $shared^)?
    (`untrained` $untrained^)? attr-dict
    `:` functional-type(operands, $output)
  }];
}

def NN_ScatterAddOp : NN_MoveOp<"scatter_add", ["propagateBatch"]> {
  let summary = "adds slices at indices to a tensor of zeros";
  let description = [{
    The transpose of `nn.gather`: slices with equal index are added in row-major
    order of `indices`, so the result has the same bits in every run.
  }];
  let arguments = (ins NN_IndexTensor:$indices, NN_NumberTensor:$updates,
                       I64Attr:$axis,
                       DefaultValuedAttr<I64Attr, "0">:$shared);
  let results = (outs NN_NumberTensor:$output);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $updates `at` `[` $indices `]` `axis` $axis (`shared` $shared^)? attr-dict
    `:` functional-type(operands, $output)
  }];
  let extraClassDeclaration = kernelClass # [{
    uint64_t getFlops() { return 0; }
    /// Of the library kernel that adds the result to a tensor and touches no
    /// other rows of it; empty if there is none.
    std::string describeSum();
  }];
}

def NN_ScatterOp : NN_MoveOp<"scatter", ["propagateBatch"], [
    NN_Differentiable, AllTypesMatch<["input", "output"]>,
    AllElementTypesMatch<["updates", "output"]>]> {
  let summary = "puts slices at indices of a tensor";
  let description = [{
    `input` with the slice at each index replaced by that of `updates`, which has
    the shape of a gather with these indices; of equal indices the last one in
    row-major order counts. Indices outside of the axis are clamped into it.
    The derivative is that of different indices.

    With `combine`, nothing is replaced: the updates are combined with what is
    there, one after the other in row-major order of the indices. The cotangent
    of a maximum or a minimum is shared equally by the elements that attain it.
    ```mlir
    %0 = nn.scatter %u into %x at [%i] axis 0 combine max
        : (tensor<16x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<16x4xf32>
    ```
  }];
  let arguments = (ins NN_Tensor:$input, NN_IndexTensor:$indices,
                       NN_Tensor:$updates, I64Attr:$axis,
                       DefaultValuedAttr<I64Attr, "0">:$shared,
                       OptionalAttr<NN_Reduction>:$combine);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = [{
    $updates `into` $input `at` `[` $indices `]` `axis` $axis
    (`shared` $shared^)? (`combine` $combine^)? attr-dict `:` functional-type(operands, $output)
  }];
}

def NN_CumSumOp : NN_MoveOp<"cumsum", ["propagateBatch"], [
    NN_Differentiable, AllTypesMatch<["input", "output"]>]> {
  let summary = "sums up to each element of an axis";
  let description = [{
    Element i of axis `axis` is the sum of the elements up to i: without element
    i where `exclusive`, from i to the end where `reverse`. The sums are taken
    one after the other.
    ```mlir
    %0 = nn.cumsum %x axis 1 exclusive : tensor<8x16xi64>
    ```
  }];
  let arguments = (ins NN_NumberTensor:$input, I64Attr:$axis,
                       UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs NN_NumberTensor:$output);
  let assemblyFormat = [{
    $input `axis` $axis (`exclusive` $exclusive^)? (`reverse` $reverse^)?
    attr-dict `:` type($output)
  }];
  let extraClassDeclaration = kernelClass # [{
    uint64_t getFlops() { return getOutput().getType().getNumElements(); }
  }];
}

def NN_TopKOp : NN_GeneratedOp<"top_k", [
    NotDifferentiable, NN_Batch<["propagateBatch"]>, KernelOpInterface,
    NN_Cost<["getFlops"]>]> {
  let summary = "where the largest elements of rows are";
  let description = [{
    The places of the largest elements of each row of the last axis (the smallest
    ones where `smallest`), the best first, as many as the result has columns. Of
    equal elements the first comes first; NaN counts as the largest number.
    ```mlir
    %0 = nn.top_k %x : tensor<8x64xf32> -> tensor<8x2xi64>
    ```
  }];
  let arguments = (ins NN_NumberTensor:$input, UnitAttr:$smallest);
  let results = (outs NN_TensorOf<[I64]>:$output);
  let assemblyFormat = [{
    $input (`smallest` $smallest^)? attr-dict `:` type($input) `->` type($output)
  }];
  let hasVerifier = 1;
}

def NN_ReduceOp : NN_GeneratedOp<"reduce", [
    NN_Differentiable, NN_Batch<["propagateBatch"]>, KernelOpInterface,
    NN_Cost<["getFlops"]>, InferTypeOpAdaptor]> {
  let summary = "combines the elements along axes";
  let description = [{
    The reduced axes disappear from the result. The cotangent of a maximum or a
    minimum is shared equally by the elements that attain it.
    ```mlir
    %0 = nn.reduce sum %x [1] : tensor<4x8xf32> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins NN_Reduction:$reduction, NN_NumberTensor:$input,
                       DenseI64ArrayAttr:$axes);
  let results = (outs NN_NumberTensor:$output);
  let assemblyFormat = [{
    $reduction $input $axes attr-dict `:` type($input) `->` type($output)
  }];
}

#endif // PP_DIALECT_NN_IR_NNSHAPEOPS_TD
