//===- Passes.td - Passes on the pp dialect --------------------*- tablegen -*-===//

#ifndef PP_DIALECT_PP_TRANSFORMS_PASSES_TD
#define PP_DIALECT_PP_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

class PPPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::pp::pipeline::PPDialect"];
}

def VerifyStep : PPPass<"pp-verify-step"> {
  let summary = "Check what placing a step relies on";
  let description = [{
    One function of one block with static shapes and operations that are known as
    kernels or views; none reads what a later phase computes, and each of a
    backward phase says to which forward operation it belongs. The optimizer's function takes
    what its `step.optimizer` says. Changes nothing.
  }];
}

def VerifyStages : PPPass<"pp-verify-stages"> {
  let summary = "Check what scheduling relies on";
  let description = [{
    Stages without gaps, each with one `pp.stage` for every phase that schedules
    run; activations go to later stages and gradients to earlier ones, and what
    skips stages goes through a portal. Changes nothing.
  }];
}

def VerifyMemory : PPPass<"pp-verify-memory"> {
  let summary = "Check what lowering stages and the plan rely on";
  let description = [{
    A `pp.memory` for each stage; every value of a phase lies inside of its area,
    every kernel is in its stage's table, every channel has slots, and every
    action a slot of its stage. Changes nothing.
  }];
}

def AnnotateCosts : PPPass<"pp-annotate-costs"> {
  let summary = "Predict the time of every kernel";
  let description = [{
    Puts a `pp.cost` on each kernel: the time that a cost file has measured, or,
    for kernels that it does not have, a roofline: the larger of operations over
    the device's arithmetic rate and bytes over its memory rate, plus a fixed time
    per launch. What kernels with few bytes read, others have just left in a cache. A cost file, which pp-profile writes, is JSON: `{"version": 1,
    "kernels": {"<key>": <seconds>}}` (docs/cost-format.md). The key is the
    descriptor of a library kernel, and names what a generated one computes.

    With `microbatches`, a kernel that only adds to gradients counts for all
    micro-batches but the first, which writes them (`pp-plan-memory`): its time is
    the average. With `threads`, the times are those of kernels that so many
    threads compute together; an estimate is that of one, divided. With `alone`,
    they are those of one stage that has the machine for itself, where the file
    has them.
  }];
  let options = [
    Option<"costFile", "cost-file", "std::string", "\"\"",
           "JSON file with measured times">,
    Option<"gflops", "gflops", "double", "100.0",
           "Arithmetic rate of a device, in 1e9 operations per second">,
    Option<"bandwidth", "bandwidth", "double", "15.0",
           "Memory rate of a device, in 1e9 bytes per second">,
    Option<"cacheBandwidth", "cache-bandwidth", "double", "35.0",
           "Rate of kernels that move few bytes, if it is larger">,
    Option<"cacheBytes", "cache-mbytes", "double", "8.0",
           "How many they move at most, in 1e6 bytes">,
    Option<"launch", "launch", "double", "0.5e-6",
           "Fixed time of a kernel, in seconds">,
    Option<"microbatches", "microbatches", "int64_t", "0",
           "Micro-batches of a step, where the first one writes gradients; 0: "
           "all add to them">,
    Option<"threads", "threads", "int64_t", "1",
           "Threads of a rank, which compute each kernel together">,
    Option<"alone", "alone", "bool", "false",
           "Measured times of one stage while the other cores are idle">
  ];
}

def Partition : PPPass<"pp-partition"> {
  let summary = "Place every kernel on a stage";
  let description = [{
    Places the forward kernels on `stages` stages such that no value goes back
    to an earlier stage, nor a gradient to a later one, and that the slowest stage
    (computation of all phases and communication) is as fast as possible, or that
    the largest memory is smallest. Exact where the graph is not too wide; the
    attribute `pp.partition` has the value and its lower bound. A backward kernel
    goes where its forward kernel is. Kernels that depend on no fed value and have
    no derivative are copied into each stage that needs them.

    `cuts` names the ONNX nodes with which stages 1, 2, ... begin, instead. `plan`
    names a file of pp-plan that places every kernel.
    Operations with a `step.stage_hint` (from the model's pipeline_stage) keep it.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "0",
           "Number of stages; 0: as many as the hints name, else one">,
    Option<"objective", "objective", "::pp::pipeline::PartitionObjective",
           "::pp::pipeline::PartitionObjective::Time",
           "What the stages have in equal parts">,
    Option<"microbatches", "microbatches", "int64_t", "1",
           "Micro-batches of a step, for memory">,
    Option<"plan", "plan", "::pp::pipeline::GivenPlan",
           "::pp::pipeline::GivenPlan()",
           "File of pp-plan with the stage of every kernel">,
    ListOption<"cuts", "cuts", "std::string",
               "ONNX node names that begin stages 1, 2, ...">,
    Option<"ignoreHints", "ignore-hints", "bool", "false",
           "Ignore the model's pipeline_stage annotations">
  ];
}

def InsertPortals : PPPass<"pp-insert-portals"> {
  let summary = "Make edges that skip stages explicit";
  let description = [{
    A value that a stage other than its neighbours reads gets a `pp.portal` for
    each such stage, a `pp.stash` where it is made and a `pp.pop` before its first
    reader there.
  }];
}

def PlaceCheckpoints : PPPass<"pp-place-checkpoints"> {
  let summary = "Choose which micro-batches are recomputed";
  let description = [{
    `always` keeps only the inputs of a stage and runs its forward again before
    the backward, `never` keeps all residuals, `except_last` recomputes all
    micro-batches but the last, whose backward follows at once (torchgpipe, arXiv
    2004.09910, section 2.1).
  }];
  let options = [
    Option<"mode", "mode", "::pp::CheckpointMode",
           "::pp::CheckpointMode::Never", "What is recomputed">
  ];
}

def OutlineStages : PPPass<"pp-outline-stages"> {
  let summary = "Collect the operations of each stage and phase";
  let description = [{
    One `pp.stage` per stage and phase. Views and kernels without a stage are
    copied into each that reads them, so what crosses a border is always memory
    that a kernel wrote or that was fed.
  }];
}

def Schedule : PPPass<"pp-schedule"> {
  let summary = "Order the actions of each rank";
  let description = [{
    Lists the computations of each rank; pp-insert-transfers adds the sends and
    receives. With fewer ranks than stages, a rank has several stages (chunks):
    `interleaved` and `looped-bfs` deal them out in turn, `zb-v`, `v-half`, `v-min`
    and `dualpipev` go there and back. The others have one stage per rank. `auto`
    searches an order for the predicted times of the stages, and if `memory` is
    given, one whose residuals fit; with half as many ranks as stages it goes there
    and back, with fewer it deals the stages out. `plan` names a file of
    pp-plan with the actions of every rank, instead. With `replicas`, the lists are
    those of one of that many copies, each of which has its share of the
    micro-batches; a stage adds up the gradients of its copies after its last W.
    With `stage-replicas`, stages have copies in unequal numbers, between which
    micro-batches are dealt out, and each copy has a list.
    `threads` does not change the order of anything. `pipedream`, `pipedream-2bw` and
    `pipemare` have no flush: passes read weights that are some updates old, which
    needs `allow-stale`. A name that ends in `.csv` is a file of
    torch.distributed.pipelining: the order of its computations is taken.
  }];
  let options = [
    Option<"plan", "plan", "::pp::pipeline::GivenPlan",
           "::pp::pipeline::GivenPlan()",
           "File of pp-plan with the actions of each rank">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"",
           "Name of a schedule (docs/schedules), inference, auto or FILE.csv">,
    Option<"ranks", "ranks", "int64_t", "0",
           "Number of ranks; 0: two stages per rank where a schedule goes there "
           "and back, else one">,
    Option<"memory", "memory", "int64_t", "0",
           "auto: bytes of residuals that a rank may keep; 0: no limit">,
    Option<"microbatches", "microbatches", "int64_t", "1",
           "Micro-batches of a step, over all replicas">,
    Option<"replicas", "replicas", "int64_t", "1",
           "Copies of the pipeline, which run side by side">,
    ListOption<"stageReplicas", "stage-replicas", "int64_t",
               "Copies of each stage, instead: inference, 1f1b and gpipe">,
    Option<"threads", "threads", "int64_t", "1",
           "Threads of a rank, which compute each kernel together">,
    Option<"weightsTogether", "weights-together", "int64_t", "1",
           "How many W of a stage wait for each other, which then pass over its "
           "gradients once; with a flush">,
    Option<"lanes", "lanes", "int64_t", "1",
           "Sums that gradients are added in before they are added up, over all "
           "replicas, a power of two; 1: one for each replica">,
    Option<"correction", "correction", "double", "0",
           "pipemare: between 0 and 1, corrects the weights of backward passes "
           "by the mean of their latest changes, of which this much is left "
           "after as many updates as a gradient is late; 0: does not">,
    Option<"clockDistance", "clock-distance", "int64_t", "0",
           "wsp: how many waves the weights that the virtual workers share may "
           "be behind">,
    ListOption<"workerStages", "worker-stages", "std::string",
           "wsp: of each virtual worker how many stages each of its ranks has, "
           "such as 2+1+1; none: each rank of all has one">,
    Option<"allowStale", "allow-stale", "bool", "false",
           "Whether passes may read weights that are some updates old">
  ];
}

def InsertTransfers : PPPass<"pp-insert-transfers"> {
  let summary = "Insert the sends and receives of a schedule";
  let description = [{
    Makes a `pp.channel` for each value that crosses from a stage to another and
    puts its sends and receives into the schedule such that it completes even if
    each send waits for its receive.
  }];
}

def VerifySchedule : PPPass<"pp-verify-schedule"> {
  let summary = "Prove that a schedule is right";
  let description = [{
    Every action once and in order, every send with its receive, no deadlock under
    rendezvous, in all replicas together. Changes nothing; every fault is an error
    that names the actions.
  }];
}

def PlanMemory : PPPass<"pp-plan-memory"> {
  let summary = "Give every value a place in its stage's memory";
  let description = [{
    Residuals get slots (as many as the schedule has micro-batches between F and
    B), channels send and receive slots, and what lives only inside a phase is
    packed by lifetime. Adds a `pp.memory` per stage, whose total is the stage's
    peak memory.
  }];
}

#endif // PP_DIALECT_PP_TRANSFORMS_PASSES_TD
