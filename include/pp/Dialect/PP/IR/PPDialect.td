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

    Attributes that passes attach to operations of any dialect:

    | attribute | on | meaning |
    |---|---|---|
    | `pp.phase` | operations of a step | when it runs: `#pp.phase<forward>` ... |
    | `pp.origin` | operations of a step | number of the forward operation it is (derived from) |
    | `pp.cost` | kernels | predicted work and time |
    | `pp.stage` | kernels | the stage it is placed on |
    | `pp.stage_hint` | operations and kernels | the stage that the model's author asked for |
    | `pp.buffers` | operations in a stage | where each result lies |
    | `pp.feed`, `pp.fetch` | function arguments and results | names of what is fed and fetched |
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

#endif // PP_DIALECT_PP_IR_PPDIALECT_TD
