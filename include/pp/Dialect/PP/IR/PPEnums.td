//===- PPEnums.td - Enumerations of the pp dialect -------------*- tablegen -*-===//

#ifndef PP_DIALECT_PP_IR_PPENUMS_TD
#define PP_DIALECT_PP_IR_PPENUMS_TD

include "mlir/IR/EnumAttr.td"

class PP_IREnum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::pp::pipeline";
  let genSpecializedAttr = 0;
}

def PP_ChannelKindEnum : PP_IREnum<"ChannelKind", "which values a channel moves", [
  I32EnumAttrCase<"Next", 0, "next">,
  I32EnumAttrCase<"Portal", 1, "portal">,
  I32EnumAttrCase<"Gradient", 2, "gradient">,
  I32EnumAttrCase<"GradientPortal", 3, "gradient_portal">]>;

def PP_EndKindEnum : PP_IREnum<"EndKind", "what is at the other end", [
  I32EnumAttrCase<"Residual", 0, "residual">,
  I32EnumAttrCase<"Channel", 1, "channel">,
  I32EnumAttrCase<"Feed", 2, "feed">,
  I32EnumAttrCase<"Fetch", 3, "fetch">,
  I32EnumAttrCase<"Loss", 4, "loss">,
  I32EnumAttrCase<"LossScale", 5, "loss_scale">,
  I32EnumAttrCase<"Prepared", 6, "prepared">]>;

// In the order in which they lie.
def PP_MemoryAreaEnum : PP_IREnum<"MemoryArea", "a part of a stage's memory", [
  I32EnumAttrCase<"Parameters", 0, "parameters">,
  I32EnumAttrCase<"Gradients", 1, "gradients">,
  I32EnumAttrCase<"Optimizer", 2, "optimizer">,
  I32EnumAttrCase<"Buffers", 3, "buffers">,
  I32EnumAttrCase<"Prepared", 4, "prepared">,
  I32EnumAttrCase<"Statistics", 5, "statistics">,
  I32EnumAttrCase<"Residuals", 6, "residuals">,
  I32EnumAttrCase<"Scratch", 7, "scratch">,
  I32EnumAttrCase<"Channels", 8, "channels">,
  I32EnumAttrCase<"Discard", 9, "discard">,
  I32EnumAttrCase<"Loss", 10, "loss">,
  I32EnumAttrCase<"LossScale", 11, "loss_scale">,
  I32EnumAttrCase<"Exchange", 12, "exchange">,
  I32EnumAttrCase<"Versions", 13, "versions">,
  I32EnumAttrCase<"Lanes", 14, "lanes">,
  I32EnumAttrCase<"Corrected", 15, "corrected">,
  I32EnumAttrCase<"Shared", 16, "shared">]>;

#endif // PP_DIALECT_PP_IR_PPENUMS_TD
