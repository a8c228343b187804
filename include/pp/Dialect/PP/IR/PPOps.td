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

def PP_StageOp : PP_Op<"stage", [
    IsolatedFromAbove, SingleBlock, HasParent<"::mlir::func::FuncOp">]> {
  let summary = "what one stage runs in one phase";
  let description = [{
    Its operands are feeds, values from other stages, and residuals: values that
    an earlier phase of the same stage left. An operand that another stage
    defined is a transfer; one that skips stages comes from a `pp.pop`.

    ```mlir
    %0:2 = pp.stage 0 forward (%a = %x) : (tensor<8x64xf32>) -> (tensor<8x16xf32>, tensor<8x64xf32>) {
      ...
      pp.return %y, %saved : tensor<8x16xf32>, tensor<8x64xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$stage, PP_Phase:$phase,
                       Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ReturnOp getReturn();
  }];
}

def PP_ReturnOp : PP_Op<"return", [
    Pure, Terminator, ReturnLike, HasParent<"StageOp">]> {
  let summary = "the results of a stage's phase";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
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
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$from, I64Attr:$to,
                       PP_Phase:$phase, TypeAttr:$type);
  let assemblyFormat = [{
    $sym_name `from` `(` $from `)` `to` `(` $to `)`
    custom<PhaseName>($phase) attr-dict
    `:` $type
  }];
  let hasVerifier = 1;
}

def PP_StashOp : PP_Op<"stash", [
    MemoryEffects<[MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "puts a value into a portal";
  let arguments = (ins FlatSymbolRefAttr:$portal, AnyRankedTensor:$value);
  let assemblyFormat = "$portal `,` $value attr-dict `:` type($value)";
}

def PP_PopOp : PP_Op<"pop", [
    MemoryEffects<[MemRead]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "takes the value out of a portal";
  let arguments = (ins FlatSymbolRefAttr:$portal);
  let results = (outs AnyRankedTensor:$value);
  let assemblyFormat = "$portal attr-dict `:` type($value)";
}

def PP_ChannelOp : PP_Op<"channel", [Symbol]> {
  let summary = "a value that crosses from one stage to another";
  let description = [{
    Point to point, once per micro-batch. `send_slots` and `receive_slots` say,
    per micro-batch, which of the slots is used; if both stages are on one rank,
    `send_slots` is empty and the value is made in its receive slot. `release` is the last action of the
    receiver that reads it. `producer` and `result` name the value: the phase of
    stage `from` that computes it and the number of its result.

    ```mlir
    pp.channel @c0 next from(0) forward result(1) to(1) forward release("B")
        send_slots([0, 0]) receive_slots([0, 1]) : tensor<8x64xf32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$kind, I64Attr:$from,
                       PP_Phase:$fromPhase, I64Attr:$result, I64Attr:$to,
                       PP_Phase:$toPhase, StrAttr:$release,
                       DenseI64ArrayAttr:$sendSlots,
                       DenseI64ArrayAttr:$receiveSlots, TypeAttr:$type);
  let assemblyFormat = [{
    $sym_name custom<Word>($kind) `from` `(` $from `)`
    custom<PhaseName>($fromPhase) `result` `(` $result `)` `to` `(` $to `)`
    custom<PhaseName>($toPhase)
    `release` `(` $release `)` `send_slots` `(` $sendSlots `)`
    `receive_slots` `(` $receiveSlots `)` attr-dict `:` $type
  }];
  let hasVerifier = 1;
}

def PP_ScheduleOp : PP_Op<"schedule"> {
  let summary = "what each rank does, in order";
  let description = [{
    One list of actions per rank in the notation of PyTorch: `0F2` is the forward
    of stage 0 on micro-batch 2, `R` a recomputed forward, `I` and `W` the two halves
    of a backward `B`, `U` the update; `0SEND_F2` and `1RECV_F2` send a value of
    a forward of micro-batch 2 and receive it. `slots` has the residual slot of each
    action, -1 for those without.

    With `replicas`, that many copies of the whole pipeline run side by side (data
    parallelism). The lists and `microbatches` are those of one copy; micro-batch k of
    copy q is micro-batch k * replicas + q of the step. `0REDUCE_GRAD` adds up the
    gradients of all copies of stage 0.

    ```mlir
    pp.schedule "1f1b" microbatches(2) checkpoint("never")
        ranks([["0F0", "0F1", "0B0", "0B1", "0U"]])
    ```
  }];
  let arguments = (ins StrAttr:$kind, I64Attr:$microbatches,
                       DefaultValuedAttr<I64Attr, "1">:$replicas,
                       StrAttr:$checkpoint, ArrayAttr:$ranks,
                       OptionalAttr<ArrayAttr>:$slots);
  let assemblyFormat = [{
    $kind `microbatches` `(` $microbatches `)` (`replicas` `(` $replicas^ `)`)?
    `checkpoint` `(` $checkpoint `)` `ranks` `(` $ranks `)`
    (`slots` `(` $slots^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def PP_MemoryOp : PP_Op<"memory"> {
  let summary = "the memory of a stage";
  let description = [{
    One allocation of `total` bytes; `areas` is a dictionary from the name of an
    area to its [offset, bytes]. `symbols` says where each parameter, buffer and
    statistic lies in its area. The numbers are the stage's peak memory.
  }];
  let arguments = (ins I64Attr:$stage, I64Attr:$total, DictionaryAttr:$areas,
                       DictionaryAttr:$symbols);
  let assemblyFormat = [{
    $stage `total` `(` $total `)` `areas` $areas `symbols` $symbols attr-dict
  }];
  let hasVerifier = 1;
}

#endif // PP_DIALECT_PP_IR_PPOPS_TD
