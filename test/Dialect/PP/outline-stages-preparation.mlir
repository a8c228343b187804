// RUN: pp-opt %s --pp-outline-stages --pp-verify-stages | FileCheck %s
// RUN: pp-opt %s --pp-outline-stages --pp-schedule="schedule=1f1b microbatches=2" --pp-insert-transfers --pp-verify-schedule | FileCheck %s --check-prefix=SCHEDULE
// RUN: pp-opt %s --pp-outline-stages --pp-schedule="schedule=gpipe microbatches=2" --pp-insert-transfers --pp-plan-memory | FileCheck %s --check-prefix=MEMORY

// Both stages read what @v gives, so each has it; only stage 0 has @w, which
// stage 1 borrows: it has the value in each micro-batch, and so the kernel.
// CHECK: %[[P0:.+]]:2 = pp.stage 0 prepare () : () -> (tensor<4xf32>, tensor<4xf32>)
// CHECK: nn.parameter @w
// CHECK: nn.parameter @v
// CHECK: pp.return
// CHECK: %[[P1:.+]] = pp.stage 1 prepare () : () -> tensor<4xf32>
// CHECK-NOT: @w
// CHECK: nn.parameter @v
// CHECK: pp.return
// CHECK: %[[F0:.+]]:{{[23]}} = pp.stage 0 forward ({{.*}} = %[[P0]]#0{{.*}} = %[[P0]]#1
// CHECK-NOT: nn.exp
// CHECK: pp.stage 1 forward ({{.*}} = %[[P1]]
// CHECK: nn.exp
// CHECK: pp.stage 0 backward_weight ({{.*}} = %[[P0]]#0

// Each P once, before all that its stage does.
// SCHEDULE: pp.stage 0 prepare () sources([]) targets({{\[\[\], \[\]\]}})
// SCHEDULE: pp.stage 0 forward ({{.*}}) sources([feed 0, prepared, prepared])
// SCHEDULE: ranks([
// SCHEDULE-NEXT: [0P, 0F0, 0SEND_F0
// SCHEDULE-NEXT: [1P, 1RECV_F0

// One place for all micro-batches.
// MEMORY: pp.memory 0
// MEMORY-SAME: <prepared, {{[0-9]+}}, 128>
// MEMORY: pp.memory 1
// MEMORY-SAME: <prepared, {{[0-9]+}}, 64>
// MEMORY: [0P, 0F0[0]
module attributes {pp.stages = 2 : i64} {
  ml_program.global private mutable @w(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  ml_program.global private @v(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %w = nn.parameter @w : tensor<4xf32>
    %v = nn.parameter @v : tensor<4xf32>
    %pw = nn.kernel(%a = %w) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.exp %a : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %pv = nn.kernel(%a = %v) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.neg %a : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %0 = nn.kernel(%a = %x, %b = %pw, %d = %pv) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>, pp.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      %e = nn.mul %c, %d : tensor<4xf32>
      nn.yield %e : tensor<4xf32>
    }
    %1 = nn.kernel(%a = %0, %b = %pw, %d = %pv) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>, pp.stage = 1 : i64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      %e = nn.mul %c, %d : tensor<4xf32>
      nn.yield %e : tensor<4xf32>
    }
    nn.accumulate gradient @w, %pw {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
