//===- NNAttentionOps.td - Attention without its matrix --------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNATTENTIONOPS_TD
#define PP_DIALECT_NN_IR_NNATTENTIONOPS_TD

include "pp/Dialect/NN/IR/NNBase.td"

def NN_AttentionTensor : NN_TensorOf<[F32, BF16, F16]>;
def NN_LogsumexpTensor : NN_TensorOf<[F32]>;
def NN_MaskTensor : NN_TensorOf<[F32]>;

class NN_AttentionBaseOp<string mnemonic, list<Trait> traits = []>
    : NN_LibraryOp<mnemonic, traits> {
  // Which axis of a tensor is the batch, the head, the row and the column.
  dag geometry = (ins DenseI64ArrayAttr:$queryAxes, DenseI64ArrayAttr:$keyAxes,
                      DenseI64ArrayAttr:$valueAxes,
                      DenseI64ArrayAttr:$outputAxes, F64Attr:$scale,
                      UnitAttr:$causal, UnitAttr:$zeroed);
  code sizes = [{
    /// B x H x M x D, B x H x N x D and B x H x N x E, whatever the axes are
    /// called in the tensors.
    ::llvm::SmallVector<int64_t> getQueryShape();
    ::llvm::SmallVector<int64_t> getKeyShape();
    ::llvm::SmallVector<int64_t> getValueShape();
  }];
  let extraClassDeclaration = libraryKernelClass # sizes;
}

def NN_AttentionOp : NN_AttentionBaseOp<"attention", [NN_Differentiable]> {
  let summary = "softmax(scale * query x key^T + mask) x value";
  let description = [{
    For each of B x H heads, `query` is M x D, `key` N x D and `value` N x E.
    Row i of the result is the mean of the rows j of `value`, weighted by
    exp(S[i, j]) with S[i, j] = scale * sum over d of query[i, d] * key[j, d].
    With `causal`, which needs M = N, only rows j <= i count. A `mask` of f32,
    B x H x M x N or with 1 for any of the first three, is added to S; it has no
    derivative. Where all S[i, j] are minus infinity then, row i is 0 with
    `zeroed`, and no numbers without it. `logsumexp`
    (f32, B x H x M) is ln(sum over j of exp(S[i, j])), from which the
    derivative computes the weights again: S is in memory at no time (Dao et al.,
    arXiv 2205.14135). With a mask, S[i, j] is less the row's largest where that
    is far from 0, so that the logarithm stays exact.

    The lists behind the tensors say which of their axes is B, H, M or N, and D
    or E; so views of what is laid out as batch x row x head x column need no
    copy.
    ```mlir
    %out, %lse = nn.attention %q [0, 2, 1, 3], %k [0, 2, 1, 3], %v [0, 2, 1, 3]
        scale 0.25 causal output [0, 2, 1, 3]
        : (tensor<2x32x4x16xf32>, tensor<2x32x4x16xf32>, tensor<2x32x4x16xf32>)
        -> (tensor<2x32x4x16xf32>, tensor<2x4x32xf32>)
    ```
    Sums have the precision of f32 for tensors of sixteen bits too.
  }];
  let arguments = !con((ins NN_AttentionTensor:$query, NN_AttentionTensor:$key,
                            NN_AttentionTensor:$value,
                            Optional<NN_MaskTensor>:$mask), geometry);
  let results = (outs NN_AttentionTensor:$output,
                      NN_LogsumexpTensor:$logsumexp);
  let assemblyFormat = [{
    $query $queryAxes `,` $key $keyAxes `,` $value $valueAxes
    (`mask` $mask^)? (`zeroed` $zeroed^)? `scale` $scale (`causal` $causal^)?
    `output` $outputAxes attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_AttentionBackwardOp : NN_AttentionBaseOp<"attention_backward"> {
  let summary = "the cotangents of query, key and value of nn.attention";
  let description = [{
    `output` and `logsumexp` are the results of `nn.attention`, whose axes,
    scale and mask this has. With P = exp(S - logsumexp) and
    R = P * (outputGradient x value^T - rowsum(outputGradient * output)), the
    results are scale * R x key, scale * R^T x query and P^T x outputGradient.
  }];
  let arguments = !con((ins NN_AttentionTensor:$query, NN_AttentionTensor:$key,
                            NN_AttentionTensor:$value,
                            NN_AttentionTensor:$output,
                            NN_LogsumexpTensor:$logsumexp,
                            NN_AttentionTensor:$outputGradient,
                            Optional<NN_MaskTensor>:$mask), geometry);
  let results = (outs NN_AttentionTensor:$queryGradient,
                      NN_AttentionTensor:$keyGradient,
                      NN_AttentionTensor:$valueGradient);
  let assemblyFormat = [{
    $query $queryAxes `,` $key $keyAxes `,` $value $valueAxes `,`
    $output $outputAxes `,` $logsumexp `,` $outputGradient (`mask` $mask^)?
    (`zeroed` $zeroed^)?
    `scale` $scale (`causal` $causal^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // PP_DIALECT_NN_IR_NNATTENTIONOPS_TD
