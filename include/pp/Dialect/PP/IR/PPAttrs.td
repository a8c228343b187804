//===- PPAttrs.td - Attributes of the pp dialect ---------------*- tablegen -*-===//

#ifndef PP_DIALECT_PP_IR_PPATTRS_TD
#define PP_DIALECT_PP_IR_PPATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "pp/Dialect/PP/IR/PPDialect.td"

class PP_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::pp::pipeline";
  let genSpecializedAttr = 0;
}

def PP_PhaseEnum : PP_Enum<"Phase", "when an operation of a step runs", [
  I32EnumAttrCase<"forward", 0>, I32EnumAttrCase<"backward_input", 1>,
  I32EnumAttrCase<"backward_weight", 2>, I32EnumAttrCase<"update", 3>]>;
def PP_Phase : EnumAttr<PP_Dialect, PP_PhaseEnum, "phase"> {
  let assemblyFormat = "`<` $value `>`";
}

def PP_AreaEnum : PP_Enum<"Area", "an area of a stage's memory", [
  I32EnumAttrCase<"parameters", 0>, I32EnumAttrCase<"buffers", 1>,
  I32EnumAttrCase<"gradients", 2>, I32EnumAttrCase<"statistics", 3>,
  I32EnumAttrCase<"residuals", 4>, I32EnumAttrCase<"scratch", 5>,
  I32EnumAttrCase<"input", 6>, I32EnumAttrCase<"output", 7>]>;
def PP_Area : EnumAttr<PP_Dialect, PP_AreaEnum, "area">;

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
