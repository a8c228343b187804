//===- StepEnums.td - Enumerations of the step dialect ---------*- tablegen -*-===//

#ifndef PP_INTERFACES_STEPENUMS_TD
#define PP_INTERFACES_STEPENUMS_TD

include "mlir/IR/EnumAttr.td"

def Step_ScalarKindEnum : I32EnumAttr<"ScalarKind", "what a scalar is", [
    I32EnumAttrCase<"Value", 0, "value">,
    I32EnumAttrCase<"OneMinusPowerOf", 1, "one_minus_power_of">,
    I32EnumAttrCase<"IsFirstStep", 2, "is_first_step">,
    I32EnumAttrCase<"LossScale", 3, "initial_scale">,
    I32EnumAttrCase<"IsSkipped", 4, "is_skipped">,
    I32EnumAttrCase<"PowerOfStep", 5, "power_of_step">]> {
  let cppNamespace = "::pp::step";
  let genSpecializedAttr = 0;
}

def Step_RoleEnum : I32EnumAttr<"Role", "what a function argument is for", [
    I32EnumAttrCase<"Input", 0, "input">,
    I32EnumAttrCase<"Target", 1, "target">,
    I32EnumAttrCase<"LossWeight", 2, "loss_weight">,
    I32EnumAttrCase<"LossScale", 3, "loss_scale">,
    I32EnumAttrCase<"RandomCounter", 4, "random_counter">,
    I32EnumAttrCase<"SampleMask", 5, "sample_mask">]> {
  let cppNamespace = "::pp::step";
  let genSpecializedAttr = 0;
}

#endif // PP_INTERFACES_STEPENUMS_TD
