//===- PPAttrs.td - Attributes of the pp dialect ---------------*- tablegen -*-===//

#ifndef PP_DIALECT_PP_IR_PPATTRS_TD
#define PP_DIALECT_PP_IR_PPATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "pp/Dialect/PP/IR/PPDialect.td"

// The enumerations themselves are those of the plan: see PlanEnums.h, which has
// what -gen-enum-decls would make.
class PP_PlanEnum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::pp";
  let genSpecializedAttr = 0;
}

def PP_PhaseEnum : PP_PlanEnum<"Phase", "when an operation of a step runs", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"BackwardInput", 1, "backward_input">,
  I32EnumAttrCase<"BackwardWeight", 2, "backward_weight">,
  I32EnumAttrCase<"Update", 3, "update">]>;
def PP_Phase : EnumAttr<PP_Dialect, PP_PhaseEnum, "phase"> {
  let cppNamespace = "::pp::pipeline";
  let assemblyFormat = "`<` $value `>`";
}

def PP_AreaEnum : PP_PlanEnum<"Area", "an area of a stage's memory", [
  I32EnumAttrCase<"Parameters", 0, "parameters">,
  I32EnumAttrCase<"Buffers", 1, "buffers">,
  I32EnumAttrCase<"Gradients", 2, "gradients">,
  I32EnumAttrCase<"Statistics", 3, "statistics">,
  I32EnumAttrCase<"Residuals", 4, "residuals">,
  I32EnumAttrCase<"Scratch", 5, "scratch">,
  I32EnumAttrCase<"Input", 6, "input">,
  I32EnumAttrCase<"Output", 7, "output">]>;
def PP_Area : EnumAttr<PP_Dialect, PP_AreaEnum, "area"> {
  let cppNamespace = "::pp::pipeline";
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
