// RUN: pp-opt %s --pp-schedule="schedule=auto microbatches=3" | FileCheck %s --check-prefix=FREE
// RUN: pp-opt %s --pp-schedule="schedule=auto microbatches=3 memory=64" | FileCheck %s --check-prefix=LIMIT
// RUN: not pp-opt %s --pp-schedule="schedule=auto microbatches=3 memory=64 weights-together=2" 2>&1 | FileCheck %s --check-prefix=TOGETHER
// TOGETHER: error: weights-together is 2, but 'memory' is what the searched order keeps, and W that wait for each other would keep more
// RUN: pp-opt %s --pp-schedule="schedule=auto ranks=1 microbatches=2" | FileCheck %s --check-prefix=ONE
// RUN: pp-opt %s --pp-place-checkpoints=mode=always --pp-schedule="schedule=auto microbatches=3 memory=64" --pp-insert-transfers --pp-verify-schedule --pp-plan-memory | FileCheck %s --check-prefix=AGAIN

// Two micro-batches are on the way while stage 0 waits for the first gradient.
// FREE: pp.schedule "auto ({{.*}})" microbatches(3) checkpoint(never)
// FREE-NEXT: [0F0, 0F1, 0I0,

// A residual has 64 bytes in its slot: one micro-batch at a time.
// LIMIT: pp.schedule "auto ({{.*}})" microbatches(3)
// LIMIT-NEXT: [0F0, 0I0, 0W0, 0F1, 0I1, 0W1, 0F2, 0I2, 0W2, 0U]

// With half as many ranks as stages, both are on one.
// ONE: pp.schedule "auto ({{.*}})" microbatches(2)
// ONE-NEXT: 0U, 1U]])

// What is computed again is not kept, so the order need not wait.
// AGAIN: pp.memory 0 {{.*}}slots(1, 64)
// AGAIN: pp.schedule "auto ({{.*}})" microbatches(3) checkpoint(always)
// AGAIN-NEXT: [0F0[0], 0SEND_F0 @c0, 0F1[0],
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      %r = nn.relu %a {pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 1.0e-3 : f64>} : tensor<4xf32>
      pp.return %r : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
      %r = nn.relu %a {pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 1.0e-3 : f64>} : tensor<4xf32>
      pp.return %r : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) : (tensor<4xf32>) -> tensor<4xf32> {
      %r = nn.relu %a {pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 1.0e-3 : f64>} : tensor<4xf32>
      pp.return %r : tensor<4xf32>
    }
    pp.stage 1 backward_weight (%a = %1) : (tensor<4xf32>) -> () {
      %r = nn.relu %a {pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 1.0e-3 : f64>} : tensor<4xf32>
      pp.return
    }
    pp.stage 0 backward_input (%a = %2, %b = %0) : (tensor<4xf32>, tensor<4xf32>) -> () {
      %r = nn.relu %a {pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 1.0e-3 : f64>} : tensor<4xf32>
      pp.return
    }
    return %1 : tensor<4xf32>
  }
}
