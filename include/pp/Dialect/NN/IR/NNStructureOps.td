//===- NNStructureOps.td - Leaves, state and kernels -----------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNSTRUCTUREOPS_TD
#define PP_DIALECT_NN_IR_NNSTRUCTUREOPS_TD

include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "pp/Dialect/NN/IR/NNBase.td"

def NN_ConstantOp : NN_Op<"constant", [
    Pure, ConstantLike, CostOpInterface, KernelOpInterface,
    NotDifferentiable,
    NN_Batch<["rebatch", "demandBatch"]>, AllTypesMatch<["value", "output"]>]> {
  let summary = "a small constant tensor";
  let description = [{
    Constants hold what the graph computes with besides parameters: masks,
    index tables, scalars. A splat becomes part of the code of its users; any
    other constant lies in the stage's buffers.

    ```mlir
    %0 = nn.constant dense<1.0> : tensor<4xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::pp::KernelClass getKernelClass() { return ::pp::KernelClass::View; }
    uint64_t getFlops() { return 0; }
    uint64_t getBytesRead() { return 0; }
    uint64_t getBytesWritten() { return 0; }
  }];
}

def NN_ParameterOp : NN_ViewOp<"parameter", [
    NotDifferentiable, BatchAxisOpInterface, KernelOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a parameter";
  let description = [{
    The value that the `ml_program.global` of this name has during the step.
    It does not change within a step.

    ```mlir
    %w = nn.parameter @fc.weight : tensor<10x84xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$symbol);
  let results = (outs NN_Tensor:$output);
  let assemblyFormat = "$symbol attr-dict `:` type($output)";
  let extraClassDeclaration = viewKernelClass # [{
    ::mlir::FlatSymbolRefAttr getParameter() { return getSymbolAttr(); }
  }];
}

def NN_AccumulateOp : NN_Op<"accumulate", [
    CostOpInterface, KernelOpInterface,
    NotDifferentiable,
    NN_Batch<["propagateBatch"]>, MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "adds a micro-batch's contribution to a state";
  let description = [{
    Adds `value` to the gradient, or to the running-statistics sums, of a
    symbol. The state is zero when a step begins; micro-batches add to it in the
    order 0, 1, ..., so the sum has the same bits for every schedule.

    In an `nn.kernel`, it adds what the kernel computes when it is complete, so
    the sum is the same; but the micro-batch's part has no place in memory.

    The gradient of a tied parameter has a part for each of its readers. A stage
    that adds to one of them has the parameter; the sums of all parts, in the
    order of their numbers, are added up before the update.

    ```mlir
    nn.accumulate gradient @fc.weight, %dw : tensor<10x84xf32>
    nn.accumulate gradient @wte part 1, %dw : tensor<8192x768xf32>
    ```
  }];
  let arguments = (ins NN_State:$state, FlatSymbolRefAttr:$symbol,
                       NN_FloatTensor:$value,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>,
                                         "0">:$part);
  let assemblyFormat =
    "$state $symbol (`part` $part^)? `,` $value attr-dict `:` type($value)";
  let extraClassDeclaration = [{
    ::pp::KernelClass getKernelClass() { return ::pp::KernelClass::Generated; }
    std::string getCostKey();
    ::llvm::SmallVector<::pp::StateReference> getUpdatedStates() {
      bool isGradient = getState() == ::pp::nn::State::gradient;
      return {{getSymbolAttr(),
               isGradient ? ::pp::StateKind::Gradient
                          : ::pp::StateKind::Statistics,
               static_cast<int64_t>(getPart())}};
    }
    uint64_t getFlops() { return getValue().getType().getNumElements(); }
    uint64_t getBytesWritten() {
      return ::pp::getTensorBytes(getValue().getType());
    }
  }];
}

def NN_CommitStatisticsOp : NN_Op<"commit_statistics", [
    CostOpInterface, KernelOpInterface, MemoryEffects<[MemRead, MemWrite]>,
    NotDifferentiable,
    BatchAxisOpInterface,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "moves running statistics once per mini-batch";
  let description = [{
    Ends a step of a batch normalisation that was trained on micro-batches
    (deferred batch normalisation: torchgpipe, section "Deferred Batch
    Normalization"). The statistics of `mean` hold the sum over micro-batches of
    the batch means, those of `variance` the sum of the batch means of squares;
    with M micro-batches of n elements per channel:

        m = mean_sum / M;  v = square_sum / M - m^2
        running_mean += momentum * (m - running_mean)
        running_var  += momentum * (v * Mn / (Mn - 1) - running_var)

    `microbatches` and `elements` are M and n. It runs in the update phase.

    With `each`, each micro-batch moves the running statistics in turn, as in
    PyTorch. The statistics are sums of means and of unbiased variances with the
    weights that they have after the last micro-batch, which `nn-rebatch` gives
    them:

        running += sum - (1 - (1 - momentum)^M) running

    A normalisation that the model uses several times, `uses`, is of this kind:
    each use moves them, one after the other in each micro-batch. What those of
    a micro-batch move is added up where the last one is, and M counts the uses
    of all micro-batches:

        sum += momentum ((s_0 (1 - momentum) + s_1) (1 - momentum) + s_2)

    With `samples`, those of a full micro-batch, a mini-batch may have fewer. How
    many it has, N, the runtime says when the operation runs. A micro-batch
    counts by its samples then: the sums have these as weights and are divided by
    N instead of M, and the unbiased variance is that of N n / `samples`
    elements. M of `each` is ceil(N / `samples`).
  }];
  let arguments = (ins FlatSymbolRefAttr:$mean, FlatSymbolRefAttr:$variance,
                       F64Attr:$momentum,
                       ConfinedAttr<I64Attr, [IntPositive]>:$microbatches,
                       ConfinedAttr<I64Attr, [IntPositive]>:$elements,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$samples,
                       UnitAttr:$each,
                       DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$uses);
  let assemblyFormat = [{
    $mean `,` $variance `momentum` $momentum `microbatches` $microbatches
    `elements` $elements (`samples` $samples^)? (`each` $each^)? (`uses` $uses^)?
    attr-dict
  }];
  let extraClassDeclaration = [{
    ::pp::KernelClass getKernelClass() { return ::pp::KernelClass::Generated; }
    ::llvm::SmallVector<::pp::StateReference> getUpdatedStates() {
      return {{getMeanAttr(), ::pp::StateKind::Value},
              {getVarianceAttr(), ::pp::StateKind::Value},
              {getMeanAttr(), ::pp::StateKind::Statistics},
              {getVarianceAttr(), ::pp::StateKind::Statistics}};
    }
    ::llvm::LogicalResult setMicrobatchesOfUpdate(int64_t count);
  }];
}

def NN_KernelOp : NN_Op<"kernel", [
    IsolatedFromAbove, RecursiveMemoryEffects, RecursivelySpeculatable,
    SingleBlockImplicitTerminator<"YieldOp">, CostOpInterface,
    KernelOpInterface, NotDifferentiable,
    BatchAxisOpInterface]> {
  let summary = "operations that are executed as one launch";
  let description = [{
    A kernel is what the partitioner places and what code is generated for: a
    single library operation, a matrix product or a convolution with its epilogue
    (a bias and an activation), a product with the gradient that it is added to, or
    generated operations fused into one function, which may add to gradients.
    Kernels are formed before the graph is partitioned and are never split, so
    the arithmetic is the same for any number of stages.

    ```mlir
    %y = nn.kernel(%a = %x, %b = %bias) : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32> {
      %0 = nn.broadcast %b [1] : tensor<64xf32> -> tensor<8x64xf32>
      %1 = nn.add %a, %0 : tensor<8x64xf32>
      nn.yield %1 : tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<NN_Tensor>:$inputs);
  let results = (outs Variadic<NN_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::pp::KernelClass getKernelClass();
    std::string getLibraryDescriptor();
    std::string getFirstDescriptor();
    /// Those that the operations inside add to, in their order.
    ::llvm::SmallVector<::pp::StateReference> getUpdatedStates();
    uint64_t getBytesRead();
    uint64_t getBytesWritten();
    /// "generated " and a hash of getFingerprint(), for generated kernels.
    std::string getCostKey();
    uint64_t getFlops();
    uint64_t getEffectiveFlops();
    /// What the region computes, spelled out: equal texts are equal kernels.
    /// Locations, attributes for the planner and the names of states are not
    /// part of it.
    std::string getFingerprint();
    /// The library operation of a library kernel, else null.
    ::mlir::Operation *getLibraryOp();
    /// What a library does after the product or the convolution that the kernel
    /// is; none where the kernel is that alone, or is generated.
    std::optional<Epilogue> getEpilogue();
    /// The gradient that a library adds the product to that the kernel is; null
    /// where it only computes the product.
    AccumulateOp getAccumulation();
    YieldOp getYield();
  }];
}

def NN_YieldOp : NN_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "the results of a kernel";
  let arguments = (ins Variadic<NN_Tensor>:$values);
  let builders = [
    OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // PP_DIALECT_NN_IR_NNSTRUCTUREOPS_TD
