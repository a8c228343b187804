//===- Step.td - The step dialect ------------------------------*- tablegen -*-===//

#ifndef PP_INTERFACES_STEP_TD
#define PP_INTERFACES_STEP_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td" // for the documentation
include "pp/Interfaces/StepEnums.td"

def Step_Dialect : Dialect {
  let name = "step";
  let cppNamespace = "::pp::step";
  let summary = "What a step of training or inference is";
  let description = [{
    What the dialect of the operations and that of the pipeline say to each other:
    when an operation runs, which forward operation it belongs to, and what is
    fed, fetched and updated. It has attributes only. The dialect checks their
    types and refuses any other `step.` attribute.

    | attribute | on | meaning |
    |---|---|---|
    | `step.phase` | operations of a step | when it runs: `#step.phase<forward>` ... |
    | `step.origin` | operations of a step | number of the forward operation it is (derived from) |
    | `step.stage_hint` | operations and kernels | the stage that the model's author asked for |
    | `step.prepared_by_update` | kernels of the phase prepare | the update writes the result, a parameter with fewer bits, with the parameter |
    | `step.feed` | function arguments | name of what is fed |
    | `step.role` | function arguments | `#step.role<input>` or `<target>`, which the caller feeds, `<loss_weight>`, `<sample_mask>`, `<loss_scale>` or `<random_counter>`, which the runtime keeps |
    | `step.range`, `step.ignore_index` | function arguments | the numbers that may be fed |
    | `step.class_weights` | function arguments | what each label counts in the loss |
    | `step.fetch` | function results | name of what is fetched, or "loss" |
    | `step.batched` | function arguments and results | axis 0 has the samples |
    | `step.samples` | function results | of one that got an axis 0 of samples: where the model has them, [axis, outer, inner] of a size outer x samples x inner |
    | `step.added` | function results | those of the micro-batches add up to that of the mini-batch |
    | `step.mixes_samples` | the function of a step | which operation makes a sample's result depend on the others of its micro-batch |
    | `step.whole_batches` | the function of a step | why it cannot be given fewer samples than a mini-batch has |
    | `step.optimizer` | the optimizer's function | what the runtime hands it |
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

// An enumeration of the plan: see PlanEnums.h, which has what -gen-enum-decls
// would make.
class PlanEnum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::pp";
  let genSpecializedAttr = 0;
}

def Step_PhaseEnum : PlanEnum<"Phase", "when an operation of a step runs", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"BackwardInput", 1, "backward_input">,
  I32EnumAttrCase<"BackwardWeight", 2, "backward_weight">,
  I32EnumAttrCase<"Update", 3, "update">,
  I32EnumAttrCase<"Prepare", 4, "prepare">]>;
def Step_Phase : EnumAttr<Step_Dialect, Step_PhaseEnum, "phase"> {
  let cppNamespace = "::pp::step";
  let assemblyFormat = "`<` $value `>`";
}

def Step_Role : EnumAttr<Step_Dialect, Step_RoleEnum, "role"> {
  let cppNamespace = "::pp::step";
  let assemblyFormat = "`<` $value `>`";
}

def Step_ScalarAttr : AttrDef<Step_Dialect, "Scalar"> {
  let mnemonic = "scalar";
  let summary = "a number that the runtime hands the optimizer";
  let description = [{
    Its value is a number of the user's (`value`, `initial_scale`), the name of
    another scalar, or what the runtime knows; docs/plan-format.md has the kinds.

    ```mlir
    #step.scalar<"lr", value = 1.0e-2 : f64>
    #step.scalar<"skipped", is_skipped>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        EnumParameter<Step_ScalarKindEnum>:$kind,
                        OptionalParameter<"::mlir::Attribute">:$value);
  let assemblyFormat = "`<` $name `,` $kind (`=` $value^)? `>`";
  let genVerifyDecl = 1;
}

def Step_OptimizerAttr : AttrDef<Step_Dialect, "Optimizer"> {
  let mnemonic = "optimizer";
  let summary = "what the optimizer's function takes";
  let description = [{
    Parameter, gradient, one value for each of `states` that has the parameter's
    shape, then `scalars`. Other states (`row_var`, `col_var`, `variance`) are the
    runtime's alone; docs/plan-format.md has their shapes.
  }];
  let parameters = (ins "::mlir::StringAttr":$kind, "::mlir::ArrayAttr":$states,
                        "::mlir::ArrayAttr":$scalars);
  let assemblyFormat = [{
    `<` $kind `,` `states` `=` $states `,` `scalars` `=` $scalars `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The number of the scalar of this kind, or name.
    std::optional<unsigned> findScalar(ScalarKind kind);
    std::optional<unsigned> findScalar(::llvm::StringRef name);
    std::vector<std::string> getStateNames();
    /// How many states have the shape of their parameters.
    unsigned countWholeStates();
  }];
}

#endif // PP_INTERFACES_STEP_TD
