//===- PPDialect.td - The pp dialect ---------------------------*- tablegen -*-===//

#ifndef PP_DIALECT_PP_IR_PPDIALECT_TD
#define PP_DIALECT_PP_IR_PPDIALECT_TD

include "mlir/IR/DialectBase.td"

def PP_Dialect : Dialect {
  let name = "pp";
  let cppNamespace = "::pp::pipeline";
  let summary = "How a computation is pipelined";
  let description = [{
    Stages, portals, channels, schedules and the memory of each stage. The
    dialect and its passes see the operations they place through interfaces
    only.

    Attributes that passes attach to operations of any dialect. The dialect
    checks their types and refuses any other `pp.` attribute.

    | attribute | on | meaning |
    |---|---|---|
    | `pp.cost` | kernels | predicted work and time |
    | `pp.stage` | kernels | the stage it is placed on |
    | `pp.buffers` | operations in a stage | where each result lies |
    | `pp.state_buffers` | operations in a stage | where each state that it changes lies |
    | `pp.library`, `pp.scratchpad` | library kernels and launches in a stage | entry of the stage's kernel table, and its scratchpad |
    | `pp.first_library` | library kernels that add to gradients | entry that the first micro-batch of a step runs instead |
    | `pp.callee` | kernels | the function in `@code` that runs it |
    | `pp.launch`, `pp.launch_scratchpad` | kernels | on a GPU, the descriptor of its launches and the bytes between them |
    | `pp.probe` | kernels in a stage | number under which the runtime is told that it has run |
    | `pp.mark` | kernels in a stage | number under which pp-profile measures it |
    | `pp.rows`, `pp.scatter_add` | loops in `@code` | what pp-make-launches maps in a way of its own |
    | `pp.mock_kernel` | functions in `@code` | it runs a thread of a kernel on the mock device: `#pp.mock_kernel` |
    | `pp.target`, `pp.model_hash`, `pp.optimizer_launch` | modules | what code is made for; which model it is; the optimizer's launch on a GPU |
    | `pp.stages`, `pp.partition`, `pp.checkpoint` | modules | number of stages; how good the partition is; what is recomputed |
  }];
  let dependentDialects = ["::mlir::ml_program::MLProgramDialect",
                           "::pp::step::StepDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

#endif // PP_DIALECT_PP_IR_PPDIALECT_TD
