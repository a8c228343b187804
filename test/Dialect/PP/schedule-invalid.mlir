// RUN: split-file %s %t
// RUN: not pp-opt %t/forward.mlir --pp-schedule="schedule=1f1b" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not pp-opt %t/forward.mlir --pp-schedule="schedule=inference microbatches=0" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not pp-opt %t/forward.mlir --pp-place-checkpoints=mode=sometimes 2>&1 | FileCheck %s --check-prefix=MODE
// RUN: not pp-opt %t/forward.mlir --pp-schedule="schedule=inference" --pp-schedule="schedule=inference" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=fastest" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pp-opt %t/none.mlir --pp-schedule="schedule=inference" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not pp-opt %t/forward.mlir --pp-insert-transfers 2>&1 | FileCheck %s --check-prefix=UNSCHEDULED
// RUN: not pp-opt %t/forward.mlir --pp-plan-memory 2>&1 | FileCheck %s --check-prefix=UNSCHEDULED
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=1f1b ranks=2" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not pp-opt %t/forward.mlir --pp-schedule="schedule=auto" 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=auto memory=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=gpipe memory=64" 2>&1 | FileCheck %s --check-prefix=LIMITED
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=auto memory=63" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not pp-opt %t/training.mlir --pp-place-checkpoints=mode=always --pp-schedule="schedule=auto memory=63" 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not pp-opt %t/costless.mlir --pp-schedule="schedule=auto" 2>&1 | FileCheck %s --check-prefix=COST
// RUN: not pp-opt %t/three.mlir --pp-schedule="schedule=auto ranks=2" 2>&1 | FileCheck %s --check-prefix=DEAL
// RUN: not pp-opt %t/two.mlir --pp-schedule="schedule=auto ranks=1 microbatches=2 memory=64" 2>&1 | FileCheck %s --check-prefix=ADD
// RUN: not pp-opt %t/training.mlir --pp-schedule="microbatches=4 replicas=3" 2>&1 | FileCheck %s --check-prefix=REPLICAS
// RUN: not pp-opt %t/training.mlir --pp-schedule="microbatches=4 replicas=0" 2>&1 | FileCheck %s --check-prefix=NOREPLICA
// RUN: not pp-opt %t/forward.mlir --pp-schedule="schedule=inference threads=0" 2>&1 | FileCheck %s --check-prefix=THREADS
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=pipedream" 2>&1 | FileCheck %s --check-prefix=STALE
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=pipedream allow-stale microbatches=2" 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: not pp-opt %t/two.mlir --pp-schedule="schedule=pipedream-2bw allow-stale" 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=pipemare allow-stale microbatches=2 replicas=2" 2>&1 | FileCheck %s --check-prefix=COPIES
// RUN: not pp-opt %t/training.mlir --pp-place-checkpoints=mode=always --pp-schedule="schedule=pipemare allow-stale" 2>&1 | FileCheck %s --check-prefix=AGAIN
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=pipedream allow-stale correction=0.5" 2>&1 | FileCheck %s --check-prefix=CORRECT
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=pipemare allow-stale correction=1" 2>&1 | FileCheck %s --check-prefix=CORRECT
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=pipemare allow-stale correction=-0.5" 2>&1 | FileCheck %s --check-prefix=CORRECT
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=pipemare allow-stale clock-distance=1" 2>&1 | FileCheck %s --check-prefix=DISTANCE
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=pipemare allow-stale worker-stages=1" 2>&1 | FileCheck %s --check-prefix=WORKERS
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=wsp allow-stale clock-distance=1025" 2>&1 | FileCheck %s --check-prefix=FAR
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=wsp allow-stale worker-stages=1,1" 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not pp-opt %t/training.mlir --pp-schedule="schedule=wsp allow-stale worker-stages=1+1" 2>&1 | FileCheck %s --check-prefix=TOTAL
// RUN: not pp-opt %t/two.mlir --pp-schedule="microbatches=4 stage-replicas=2" 2>&1 | FileCheck %s --check-prefix=DEALTONE
// DEALTONE: error: stage-replicas: 1 numbers for 2 stages; there must be one for each
// RUN: not pp-opt %t/two.mlir --pp-schedule="microbatches=2 stage-replicas=3,1" 2>&1 | FileCheck %s --check-prefix=DEALTFEW
// DEALTFEW: error: stage-replicas: 3 replicas of a stage cannot share 2 micro-batches
// RUN: not pp-opt %t/two.mlir --pp-schedule="schedule=zb-h1 microbatches=4 stage-replicas=2,1" 2>&1 | FileCheck %s --check-prefix=DEALTZERO
// DEALTZERO: error: schedule 'zb-h1' needs the same number of replicas of all stages; with others there are 1f1b and gpipe
// RUN: not pp-opt %t/two.mlir --pp-schedule="microbatches=4 replicas=2 stage-replicas=2,1" 2>&1 | FileCheck %s --check-prefix=DEALTBOTH
// DEALTBOTH: error: stage-replicas: there are replicas of the pipeline too
// RUN: not pp-opt %t/two.mlir --pp-place-checkpoints=mode=except_last --pp-schedule="microbatches=4 stage-replicas=2,1" 2>&1 | FileCheck %s --check-prefix=DEALTLAST
// DEALTLAST: error: stage-replicas: only one replica of a stage has the last micro-batch; use --checkpoint=always or never
// CORRECT: error: correction is {{.*}}, must be between 0 and 1, and is for the schedule 'pipemare', but the schedule is 'pipe{{.*}}'
// STALE: error: schedule 'pipedream' runs without a flush, and so trains with weights that are some updates old: another training than that of the model. --allow-stale allows it
// ONE: error: pipedream updates the weights after each micro-batch, so a step has one, but there are 2; pipedream-2bw has an update per several
// DISTANCE: error: clock-distance is 1, which is for the schedule 'wsp', but the schedule is 'pipemare'
// WORKERS: error: schedule 'pipemare' runs without a flush, and has no virtual workers, which 'worker-stages' is for; use the schedule 'wsp'
// FAR: error: clock-distance is 1025, must be from 0 to 1024
// TWO: error: worker-stages has 2 virtual workers, but there are 1
// TOTAL: error: worker-stages: '1+1': the ranks of a virtual worker have 2 stages, but there are 1
// FEW: error: pipedream-2bw keeps two weight versions, which are enough only for at least as many micro-batches per update as stages, but there are 1 micro-batches and 2 stages
// COPIES: error: schedule 'pipemare' runs without a flush, and has no copies of the pipeline; 'pipedream' has replicas of stages
// AGAIN: error: schedule 'pipemare' runs without a flush, and does not keep the weights of a forward pass, so cannot compute it again; use --checkpoint=never
// RUN: not pp-opt %t/forward.mlir --pp-schedule="schedule=inference threads=1025" 2>&1 | FileCheck %s --check-prefix=THREADS

// THREADS: error: threads is {{0|1025}}, must be from 1 to 1024
// REPLICAS: error: replicas is 3, must be 1 or more and divide the 4 micro-batches
// NOREPLICA: error: replicas is 0, must be 1 or more and divide the 4 micro-batches
// AUTO: error: schedule 'auto' is for training, but this step is for inference
// NEGATIVE: error: memory is -1, must be 0 or more
// LIMITED: error: memory is a limit for the schedule 'auto', but the schedule is 'gpipe'
// SMALL: error: cannot be scheduled automatically: rank 0 may keep 63 bytes, but one micro-batch needs 64; recompute, or put fewer layers on it
// COST: error: 'nn.relu' op has no cost; run pp-annotate-costs first
// DEAL: error: cannot be scheduled automatically: {{.*}}3 stages
// ADD: error: cannot be scheduled automatically: rank 0 may keep 64 bytes, but one micro-batch needs 128
// KIND: error: schedule '1f1b' is for training, but this step is for inference
// COUNT: error: microbatches is 0, must be from 1 to 1048576
// MODE: for the --mode option: 'sometimes': expected always, except_last, never
// TWICE: error: has a schedule already
// NAME: error: {{.*}}fastest{{.*}}1f1b
// NONE: error: has no stages; run pp-outline-stages first
// RANKS: error: ranks is 2, must be from 0 to the number of stages, 1
// UNSCHEDULED: error: has no schedule; run pp-schedule first

//--- forward.mlir
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
}
//--- training.mlir
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_weight (%a = %0) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %0 : tensor<4xf32>
  }
}
//--- costless.mlir
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      %r = nn.relu %a : tensor<4xf32>
      pp.return %r : tensor<4xf32>
    }
    pp.stage 0 backward_weight (%a = %0) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %0 : tensor<4xf32>
  }
}
//--- two.mlir
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 1 backward_weight (%a = %1) : (tensor<4xf32>) -> () {
      pp.return
    }
    pp.stage 0 backward_weight (%a = %0) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
}
//--- three.mlir
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 2 forward (%a = %1) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 2 backward_weight (%a = %2) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %2 : tensor<4xf32>
  }
}
//--- none.mlir
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
