//===- PPAttrs.td - Attributes of the pp dialect ---------------*- tablegen -*-===//

#ifndef PP_DIALECT_PP_IR_PPATTRS_TD
#define PP_DIALECT_PP_IR_PPATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "pp/Dialect/PP/IR/PPDialect.td"
include "pp/Dialect/PP/IR/PPEnums.td"
include "pp/Interfaces/Step.td"

def PP_AreaEnum : PlanEnum<"Area", "an area of a stage's memory", [
  I32EnumAttrCase<"Parameters", 0, "parameters">,
  I32EnumAttrCase<"Buffers", 1, "buffers">,
  I32EnumAttrCase<"Gradients", 2, "gradients">,
  I32EnumAttrCase<"Statistics", 3, "statistics">,
  I32EnumAttrCase<"Residuals", 4, "residuals">,
  I32EnumAttrCase<"Scratch", 5, "scratch">,
  I32EnumAttrCase<"Prepared", 6, "prepared">,
  I32EnumAttrCase<"Input", 7, "input">,
  I32EnumAttrCase<"Output", 8, "output">]>;
def PP_Area : EnumAttr<PP_Dialect, PP_AreaEnum, "area"> {
  let cppNamespace = "::pp::pipeline";
}

def PP_ActionKindEnum : PlanEnum<"ActionKind", "what a rank does next", [
  I32EnumAttrCase<"Forward", 0, "F">,
  I32EnumAttrCase<"Recompute", 1, "R">,
  I32EnumAttrCase<"BackwardInput", 2, "I">,
  I32EnumAttrCase<"BackwardWeight", 3, "W">,
  I32EnumAttrCase<"Backward", 4, "B">,
  I32EnumAttrCase<"Send", 5, "SEND">,
  I32EnumAttrCase<"Receive", 6, "RECV">,
  I32EnumAttrCase<"Update", 7, "U">,
  I32EnumAttrCase<"ReduceGradients", 8, "REDUCE_GRAD">,
  I32EnumAttrCase<"AllReduce", 9, "ALLREDUCE">,
  I32EnumAttrCase<"SumGradients", 10, "SUM_GRAD">,
  I32EnumAttrCase<"Prepare", 11, "P">,
  I32EnumAttrCase<"Push", 12, "PUSH">,
  I32EnumAttrCase<"Pull", 13, "PULL">,
  I32EnumAttrCase<"AddPushes", 14, "ADD_PUSH">]>;
def PP_ActionKind : EnumAttr<PP_Dialect, PP_ActionKindEnum, "action_kind"> {
  let cppNamespace = "::pp::pipeline";
  let assemblyFormat = "`<` $value `>`";
}

def PP_CheckpointModeEnum : PlanEnum<"CheckpointMode",
    "which micro-batches are recomputed", [
  I32EnumAttrCase<"Always", 0, "always">,
  I32EnumAttrCase<"ExceptLast", 1, "except_last">,
  I32EnumAttrCase<"Never", 2, "never">]>;
def PP_CheckpointMode : EnumAttr<PP_Dialect, PP_CheckpointModeEnum, "checkpoint"> {
  let cppNamespace = "::pp::pipeline";
  let assemblyFormat = "`<` $value `>`";
}

def PP_ChannelKind : EnumAttr<PP_Dialect, PP_ChannelKindEnum, "channel_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def PP_ActionAttr : AttrDef<PP_Dialect, "Action"> {
  let mnemonic = "action";
  let summary = "one entry of a rank's list";
  let description = [{
    The notation is PyTorch's: `0F2` is the forward of stage 0 on micro-batch 2,
    `R` a recomputed forward, `I` and `W` the two halves of a backward `B`, `U`
    the update, `0P` what is computed once per step of parameters alone. `0SEND_F2 @c1` sends a value of a forward of micro-batch 2
    through a channel and `1RECV_F2 @c1` receives it; `_B` is a value of a
    backward. `0REDUCE_GRAD` adds up the gradients of all replicas of stage 0.
    `[1]` is the residual slot, once pp-plan-memory has assigned it.

    In a schedule without a flush, `lag 1` is for the step before the one that was
    handed in, and `version -1` uses the weights of step t after t - 1 updates.

    ```mlir
    #pp.action<0F2>
    #pp.action<0B2 lag 1 version -1>
    #pp.action<0B2[1]>
    #pp.action<0SEND_F2 @c1>
    ```
  }];
  let parameters = (ins "::pp::ActionKind":$kind, "int":$stage,
                        // Of transfers.
                        "bool":$isForward,
                        // -1 for what is done once per step.
                        "int":$microbatch,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$channel,
                        OptionalParameter<"std::optional<int64_t>">:$slot,
                        DefaultValuedParameter<"int", "0">:$lag,
                        DefaultValuedParameter<"int", "0">:$version);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// What stands before channel and slot.
    ::pp::ActionText getText();
    /// The same action with a residual slot.
    ActionAttr withSlot(int64_t slot);
    /// Without the angle brackets.
    static ActionAttr parseBare(::mlir::AsmParser &parser);
    void printBare(::mlir::AsmPrinter &printer);
  }];
}

def PP_EndAttr : AttrDef<PP_Dialect, "End"> {
  let mnemonic = "end";
  let summary = "where an operand of a stage comes from, or a result goes";
  let description = [{
    `channel @c1`, `feed 0` and `fetch 0` (by the number of the step's argument
    or result), `loss`, `loss_scale`, `residual`: a value that an earlier
    phase of the same stage left for the micro-batch, or `prepared`: one that its
    phase `prepare` left for the step.

    ```mlir
    #pp.end<channel @c1>
    #pp.end<feed 0>
    #pp.end<loss>
    ```
  }];
  let parameters = (ins EnumParameter<PP_EndKindEnum>:$kind, "int64_t":$number,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$channel);
  let builders = [
    AttrBuilder<(ins "EndKind":$kind, CArg<"int64_t", "0">:$number), [{
      return $_get($_ctxt, kind, number, ::mlir::FlatSymbolRefAttr());
    }]>,
    AttrBuilderWithInferredContext<(ins "::mlir::FlatSymbolRefAttr":$channel), [{
      return $_get(channel.getContext(), EndKind::Channel, 0, channel);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Whether the runtime hands the value to the phase: it does not lie at a
    /// fixed place of the stage.
    bool isHanded() {
      return getKind() != EndKind::Residual && getKind() != EndKind::Prepared;
    }
    static EndAttr parseBare(::mlir::AsmParser &parser);
    void printBare(::mlir::AsmPrinter &printer);
  }];
}

def PP_AreaRangeAttr : AttrDef<PP_Dialect, "AreaRange"> {
  let mnemonic = "area_range";
  let summary = "where an area lies in its stage's memory";
  let parameters = (ins EnumParameter<PP_MemoryAreaEnum>:$area,
                        "int64_t":$offset, "int64_t":$bytes);
  let assemblyFormat = "`<` $area `,` $offset `,` $bytes `>`";
}

def PP_PlaceAttr : AttrDef<PP_Dialect, "Place"> {
  let mnemonic = "place";
  let summary = "the offset of a global in its area";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$symbol, "int64_t":$offset);
  let assemblyFormat = "`<` $symbol `,` $offset `>`";
}

def PP_KernelAttr : AttrDef<PP_Dialect, "Kernel"> {
  let mnemonic = "kernel";
  let summary = "an entry of a stage's kernel table";
  let description = [{
    A descriptor (docs/plan-format.md has the language) and the bytes of its
    scratchpad.
  }];
  let parameters = (ins "::mlir::StringAttr":$descriptor,
                        "int64_t":$scratchpad);
  let assemblyFormat = "`<` $descriptor `,` $scratchpad `>`";
}

def PP_BufferAttr : AttrDef<PP_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "where a value lies while its phase runs";
  let description = [{
    A byte offset in an area of the stage's memory; for `input` and `output` the
    number of the phase's input or output.
  }];
  let parameters = (ins EnumParameter<PP_AreaEnum>:$area, "int64_t":$offset);
  let assemblyFormat = "`<` $area `,` $offset `>`";
}

def PP_CopyAttr : AttrDef<PP_Dialect, "Copy"> {
  let mnemonic = "copy";
  let summary = "a further place of a result of a phase";
  let description = [{
    When the phase ends, result `result` is copied to `to`; on a GPU by entry
    `kernel` of the stage's kernel table.
  }];
  let parameters = (ins "int64_t":$result, "BufferAttr":$to,
                        OptionalParameter<"std::optional<int64_t>">:$kernel);
  let assemblyFormat = "`<` $result `,` $to (`,` `kernel` $kernel^)? `>`";
}

def PP_PartitionAttr : AttrDef<PP_Dialect, "Partition"> {
  let mnemonic = "partition";
  let summary = "how good a partition is";
  let parameters = (ins "::mlir::FloatAttr":$value,
                        "::mlir::FloatAttr":$lowerBound);
  let assemblyFormat = [{
    `<` `value` `=` $value `,` `lower_bound` `=` $lowerBound `>`
  }];
}

def PP_MockKernelAttr : AttrDef<PP_Dialect, "MockKernel"> {
  let mnemonic = "mock_kernel";
  let summary = "how a function runs a thread of a kernel on the mock device";
  let parameters = (ins
    AttrParameter<"int64_t", "bytes of shared memory">:$shared,
    AttrParameter<"int64_t", "1 if threads wait for each other">:$waits);
  let assemblyFormat = "`<` `shared` `=` $shared `,` `waits` `=` $waits `>`";
}

def PP_CostAttr : AttrDef<PP_Dialect, "Cost"> {
  let mnemonic = "cost";
  let summary = "predicted work of one execution of a kernel";
  let parameters = (ins "uint64_t":$flops, "uint64_t":$bytesRead,
                        "uint64_t":$bytesWritten,
                        "::mlir::FloatAttr":$seconds);
  let assemblyFormat = [{
    `<` `flops` `=` $flops `,` `read` `=` $bytesRead `,`
        `written` `=` $bytesWritten `,` `seconds` `=` $seconds `>`
  }];
}

#endif // PP_DIALECT_PP_IR_PPATTRS_TD
