// RUN: pp-opt %s --pp-schedule="schedule=1f1b microbatches=5 weights-together=2" --pp-insert-transfers --pp-verify-schedule --pp-plan-memory --pp-verify-memory | FileCheck %s
// RUN: pp-opt %s --pp-schedule="schedule=gpipe microbatches=32 weights-together=16" --pp-insert-transfers --pp-verify-schedule --pp-plan-memory --pp-verify-memory | FileCheck %s --check-prefix=MOST
// RUN: pp-opt %s --pp-schedule="schedule=1f1b microbatches=5" --pp-insert-transfers --pp-plan-memory | FileCheck %s --check-prefix=ALONE
// RUN: not pp-opt %s --pp-schedule="microbatches=5 weights-together=17" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not pp-opt %s --pp-schedule="schedule=pipedream-2bw allow-stale microbatches=2 weights-together=2" 2>&1 | FileCheck %s --check-prefix=FLUSH

// W wait for each other, and what they read waits in one more slot.
// CHECK: pp.memory 0 {{.*}} slots(2, {{[0-9]+}}) {{.*}} weights_together(2)
// CHECK: pp.schedule "1f1b" microbatches(5)
// CHECK-NEXT: [0F0[0], 0I0[0], 0F1[1], 0I1[1], 0W0[0], 0W1[1], 0F2[0], 0I2[0], 0F3[1], 0I3[1], 0W2[0], 0W3[1], 0F4[0], 0I4[0], 0W4[0], 0U]

// MOST: weights_together(16)

// ALONE-NOT: weights_together

// MANY: error: weights-together is 17, must be from 1 to 16
// FLUSH: error: weights-together is 2, but schedule 'pipedream-2bw' has no flush, after which its W could all have run
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = nn.exp %a : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    %2 = pp.stage 0 backward_input (%a = %0) : (tensor<4xf32>) -> (tensor<4xf32>) {
      %1 = nn.exp %a : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    pp.stage 0 backward_weight (%a = %2) : (tensor<4xf32>) -> () {
      nn.accumulate gradient @w, %a : tensor<4xf32>
      pp.return
    }
    return
  }
}
