//===- PPOps.td - Operations of the pp dialect -----------------*- tablegen -*-===//

#ifndef PP_DIALECT_PP_IR_PPOPS_TD
#define PP_DIALECT_PP_IR_PPOPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "pp/Dialect/PP/IR/PPAttrs.td"

class PP_Op<string mnemonic, list<Trait> traits = []>
    : Op<PP_Dialect, mnemonic, traits>;

def PP_Count : ConfinedAttr<I64Attr, [IntNonNegative]>;
def PP_PositiveCount : ConfinedAttr<I64Attr, [IntPositive]>;

def PP_EndArrayAttr : TypedArrayAttrBase<PP_EndAttr, "list of ends">;
def PP_EndListsAttr :
  TypedArrayAttrBase<PP_EndArrayAttr, "list of ends for each result">;
def PP_RanksAttr :
  TypedArrayAttrBase<TypedArrayAttrBase<PP_ActionAttr, "list of actions">,
                     "list of actions for each rank">;

// What moves through portals: neither removed nor merged.
def PP_PortalResource : Resource<"::pp::pipeline::PortalResource">;

// Its effects are unknown: schedules run every phase of every stage, so one
// without results, or even without operations, must stay.
def PP_StageOp : PP_Op<"stage", [
    IsolatedFromAbove, SingleBlockImplicitTerminator<"ReturnOp">,
    HasParent<"::mlir::func::FuncOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what one stage runs in one phase";
  let description = [{
    Its operands are feeds, values from other stages, and residuals: values that
    an earlier phase of the same stage left. The phase `prepare`, which runs once
    per step, has none: it computes of parameters and constants what the other
    phases read. An operand that another stage
    defined is a transfer; one that skips stages comes from a `pp.pop`.

    pp-insert-transfers says where each operand comes from (`sources`) and to
    which channels and fetches each result goes (`targets`, empty for a result
    that only the same stage reads). pp-plan-memory adds `argument_buffers`, a
    place for each operand, and `copies`: further places of the results. What a
    phase is handed as input k is the operand of the k-th source that is neither
    `residual` nor `prepared`, and as output k the k-th of all targets.

    ```mlir
    %0:2 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0], []])
        : (tensor<8x64xf32>) -> (tensor<8x16xf32>, tensor<8x64xf32>) {
      ...
      pp.return %y, %saved : tensor<8x16xf32>, tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins PP_Count:$stage, Step_Phase:$phase,
                       Variadic<AnyRankedTensor>:$inputs,
                       OptionalAttr<PP_EndArrayAttr>:$sources,
                       OptionalAttr<PP_EndListsAttr>:$targets,
                       OptionalAttr<TypedArrayAttrBase<PP_BufferAttr,
                         "array of #pp.buffer">>:$argument_buffers,
                       OptionalAttr<TypedArrayAttrBase<PP_CopyAttr,
                         "array of #pp.copy">>:$copies);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [
    OpBuilder<(ins "::mlir::TypeRange":$types, "int64_t":$stage,
                   "::pp::Phase":$phase, "::mlir::ValueRange":$inputs)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ReturnOp getReturn();
    /// The targets of result `result`; none before pp-insert-transfers.
    ::llvm::ArrayRef<::mlir::Attribute> getTargetsOf(unsigned result);
  }];
}

def PP_ReturnOp : PP_Op<"return", [
    Pure, Terminator, ReturnLike, HasParent<"StageOp">]> {
  let summary = "the results of a stage's phase";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let builders = [
    OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def PP_PortalOp : PP_Op<"portal", [
    Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "an edge that skips stages";
  let description = [{
    The value is stashed once by stage `from` and popped once by stage `to`, per
    micro-batch, and moves between their devices without touching the stages
    between (torchgpipe, arXiv 2004.09910, section 3.2.2: portals). In the forward
    phase a portal leads to a later stage, in the backward phases to an earlier one.

    ```mlir
    pp.portal @skip0 from(0) to(3) forward : tensor<8x16x32x32xf32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, PP_Count:$from, PP_Count:$to,
                       Step_Phase:$phase, TypeAttr:$type);
  let assemblyFormat = [{
    $sym_name `from` `(` $from `)` `to` `(` $to `)`
    custom<PhaseName>($phase) attr-dict
    `:` $type
  }];
  let hasVerifier = 1;
}

def PP_StashOp : PP_Op<"stash", [
    MemoryEffects<[MemWrite<PP_PortalResource>]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "puts a value into a portal";
  let arguments = (ins FlatSymbolRefAttr:$portal, AnyRankedTensor:$value);
  let assemblyFormat = "$portal `,` $value attr-dict `:` type($value)";
}

// It takes the value away: a second pop would find nothing.
def PP_PopOp : PP_Op<"pop", [
    MemoryEffects<[MemRead<PP_PortalResource>, MemWrite<PP_PortalResource>]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "takes the value out of a portal";
  let arguments = (ins FlatSymbolRefAttr:$portal);
  let results = (outs AnyRankedTensor:$value);
  let assemblyFormat = "$portal attr-dict `:` type($value)";
}

def PP_ChannelOp : PP_Op<"channel", [Symbol]> {
  let summary = "a value that crosses from one stage to another";
  let description = [{
    Point to point, once per micro-batch. The phase of stage `from` that computes
    the value names the channel as a target, and each phase of stage `to` that
    reads it as a source: first `to_phase`, last `last_reader`. `value` is the
    name to show.

    pp-plan-memory adds `release`, the last action of the receiver that reads it,
    and for each end the offset of its slots in the channels of the stage and the
    slot of each micro-batch. If both stages are on one rank, there are no send
    slots: the value is made in its receive slot.

    ```mlir
    pp.channel @c0 next from(0) forward to(1) forward until backward_weight
        value("F:/0/Gemm:0") : tensor<8x64xf32>
    pp.channel @c1 next from(0) forward to(1) forward until forward
        value("F:/0/Gemm:0") release(F) send(64, [0, 0]) receive(0, [0, 1])
        : tensor<8x64xf32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, PP_ChannelKind:$kind,
                       PP_Count:$from, Step_Phase:$fromPhase, PP_Count:$to,
                       Step_Phase:$toPhase, Step_Phase:$lastReader, StrAttr:$value,
                       OptionalAttr<PP_ActionKind>:$release,
                       OptionalAttr<PP_Count>:$sendOffset,
                       OptionalAttr<DenseI64ArrayAttr>:$sendSlots,
                       OptionalAttr<PP_Count>:$receiveOffset,
                       OptionalAttr<DenseI64ArrayAttr>:$receiveSlots,
                       TypeAttrOf<AnyStaticShapeTensor>:$type);
  let assemblyFormat = [{
    $sym_name custom<ChannelKindName>($kind) `from` `(` $from `)` custom<PhaseName>($fromPhase)
    `to` `(` $to `)` custom<PhaseName>($toPhase)
    `until` custom<PhaseName>($lastReader) `value` `(` $value `)`
    (`release` `(` custom<ActionKindName>($release)^ `)`)?
    (`send` `(` $sendOffset^ `,` $sendSlots `)`)?
    (`receive` `(` $receiveOffset^ `,` $receiveSlots `)`)?
    attr-dict `:` $type
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether pp-plan-memory has placed its slots.
    bool isPlaced() { return getRelease().has_value(); }
  }];
}

def PP_ScheduleOp : PP_Op<"schedule", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what each rank does, in order";
  let description = [{
    One list of actions (`#pp.action`) per rank. Sends and receives come with
    pp-insert-transfers, residual slots with pp-plan-memory.

    With `replicas`, that many copies of the whole pipeline run side by side (data
    parallelism). The lists and `microbatches` are those of one copy; micro-batch k of
    copy q is micro-batch k * replicas + q of the step. With `threads`, that many
    of a rank compute each kernel together.

    With `stage_replicas`, stage s has that many copies instead. There is a list
    for each copy of each stage, and micro-batches have their numbers in the
    step: copy q of n has those that are q modulo n.

    With `lanes`, gradients and statistics are added in that many sums over all
    copies, micro-batch k of the step in sum k modulo their number, and these in
    pairs: then the number of copies, which divides them, changes no bit.

    With `versions`, there is no flush: a list runs once for each step that is
    handed in, and each action of it is for the step `lag` before. Stage s keeps
    that many versions of its weights. With `correction`, backward passes read
    weights that are corrected by the mean of their latest changes; it is what
    is left of the mean after as many updates as a gradient is late. With
    `stage_replicas`, each copy has an update for each of its micro-batches,
    which all copies of the stage share.

    With `clock_distance`, the replicas are virtual workers: a step is a wave of
    each, a stage has an update for each of its micro-batches, `PUSH` sends the
    sum of its wave's updates to where all workers' are added up, and `PULL` of a
    step takes the waves of all workers up to that step. Weights lack at most as
    many waves of the others as the distance, and those in flight.

    ```mlir
    pp.schedule "1f1b" microbatches(2) checkpoint(never) ranks([
      [0F0, 0F1, 0B0, 0B1, 0U]])
    ```
  }];
  let arguments = (ins StrAttr:$kind, PP_PositiveCount:$microbatches,
                       DefaultValuedAttr<PP_PositiveCount, "1">:$replicas,
                       OptionalAttr<DenseI64ArrayAttr>:$stageReplicas,
                       DefaultValuedAttr<PP_PositiveCount, "1">:$threads,
                       DefaultValuedAttr<PP_PositiveCount, "1">:$lanes,
                       PP_CheckpointMode:$checkpoint,
                       OptionalAttr<DenseI64ArrayAttr>:$versions,
                       OptionalAttr<F64Attr>:$correction,
                       OptionalAttr<I64Attr>:$clockDistance,
                       PP_RanksAttr:$ranks);
  let assemblyFormat = [{
    $kind `microbatches` `(` $microbatches `)` (`replicas` `(` $replicas^ `)`)?
    (`stage_replicas` `(` $stageReplicas^ `)`)?
    (`threads` `(` $threads^ `)`)? (`lanes` `(` $lanes^ `)`)? (`versions` `(` $versions^ `)`)?
    (`correction` `(` $correction^ `)`)? (`clock_distance` `(` $clockDistance^ `)`)? `checkpoint` `(` custom<CheckpointName>($checkpoint) `)`
    `ranks` `(` custom<Ranks>($ranks) `)` attr-dict
  }];
  let extraClassDeclaration = [{
    /// Copies of a stage.
    int64_t getReplicasOf(int64_t stage);
    /// The most micro-batches of a step that a copy of a stage has.
    int64_t getMicrobatchesOf(int64_t stage);
  }];
  let hasVerifier = 1;
}

def PP_MemoryOp : PP_Op<"memory", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the memory of a stage";
  let description = [{
    One allocation of `total` bytes, the stage's peak memory, cut into `areas`.
    The area of the residuals has `slots` slots of `slot_bytes`. `parameters`,
    `buffers` and `statistics` say where each lies in its area, in order.
    `kernels` is the stage's kernel table, and four entries may have a purpose of
    their own. `discards` has the offset of each output of the forward phase in
    the area `discard`, for a recomputed forward, and `discard_statistics` that
    of its statistics. With `writes_gradients`, the first B of a step and its first W
    write the gradients that they add to, and nobody clears them. With
    `weights_together`, a W may run for so many micro-batches at once.

    ```mlir
    pp.memory 0 total(192) areas([<parameters, 0, 64>, <residuals, 64, 128>])
        slots(2, 64) parameters([<@w, 0>]) buffers([]) statistics([])
        kernels([<"matmul m=4 n=4 k=4 ...", 0>]) discards([0], 64)
    ```
  }];
  let arguments = (ins PP_Count:$stage, PP_Count:$total,
                       TypedArrayAttrBase<PP_AreaRangeAttr,
                         "list of areas">:$areas,
                       PP_Count:$slots, PP_Count:$slotBytes,
                       TypedArrayAttrBase<PP_PlaceAttr,
                         "list of places">:$parameters,
                       TypedArrayAttrBase<PP_PlaceAttr,
                         "list of places">:$buffers,
                       TypedArrayAttrBase<PP_PlaceAttr,
                         "list of places">:$statistics,
                       TypedArrayAttrBase<PP_KernelAttr,
                         "list of kernels">:$kernels,
                       DenseI64ArrayAttr:$discards,
                       PP_Count:$discardStatistics,
                       OptionalAttr<PP_Count>:$optimizer_kernel,
                       OptionalAttr<PP_Count>:$finite_kernel,
                       OptionalAttr<PP_Count>:$finite_loss_kernel,
                       OptionalAttr<PP_Count>:$loss_scale_kernel,
                       UnitAttr:$writesGradients,
                       OptionalAttr<PP_Count>:$weightsTogether);
  let assemblyFormat = [{
    $stage `total` `(` $total `)` `areas` `(` custom<Areas>($areas) `)`
    `slots` `(` $slots `,` $slotBytes `)`
    `parameters` `(` custom<Places>($parameters) `)`
    `buffers` `(` custom<Places>($buffers) `)`
    `statistics` `(` custom<Places>($statistics) `)`
    `kernels` `(` custom<Kernels>($kernels) `)`
    `discards` `(` $discards `,` $discardStatistics `)`
    (`optimizer_kernel` `(` $optimizer_kernel^ `)`)?
    (`finite_kernel` `(` $finite_kernel^ `)`)?
    (`finite_loss_kernel` `(` $finite_loss_kernel^ `)`)?
    (`loss_scale_kernel` `(` $loss_scale_kernel^ `)`)?
    (`writes_gradients` $writesGradients^)?
    (`weights_together` `(` $weightsTogether^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The range of an area; empty for one that the stage does not have.
    AreaRangeAttr getArea(MemoryArea area);
  }];
}

#endif // PP_DIALECT_PP_IR_PPOPS_TD
