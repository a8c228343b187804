// RUN: pp-opt %s --split-input-file --pp-outline-stages --pp-verify-stages --pp-schedule="schedule=gpipe microbatches=2" --pp-insert-transfers --pp-plan-memory --pp-verify-memory | FileCheck %s

// Each stage with a reader has the parameter, and adds up its part of the
// gradient: only the activation crosses. Stage 0 has a place for the part of
// stage 1.
// CHECK-COUNT-1: pp.channel @
// CHECK-NOT: pp.channel @
// CHECK: pp.memory 0
// CHECK-SAME: <parameters, 0, 64>
// CHECK-SAME: <gradients, 64, 64>
// CHECK-SAME: <exchange, {{[0-9]+}}, 64>
// CHECK: pp.memory 1
// CHECK-SAME: <parameters, 0, 64>
// CHECK-SAME: <gradients, 64, 64>
// CHECK-NOT: <exchange
module attributes {pp.stages = 2 : i64} {
  ml_program.global private mutable @w(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %w = nn.parameter @w : tensor<4xf32>
    %0 = nn.kernel(%a = %x, %b = %w) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>, pp.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %1 = nn.kernel(%a = %0, %b = %w) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>, pp.stage = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    nn.accumulate gradient @w part 1, %1 {step.origin = 2 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 1 : i64} : tensor<4xf32>
    nn.accumulate gradient @w, %0 {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

// In one stage there is one parameter, with a second place for its gradient.
// CHECK: pp.stage 0 backward_weight
// CHECK: nn.accumulate gradient @w part 1, {{.*}}pp.state_buffers = [#pp.buffer<gradients, 64>]
// CHECK: nn.accumulate gradient @w, {{.*}}pp.state_buffers = [#pp.buffer<gradients, 0>]
// CHECK: pp.memory 0
// CHECK-SAME: <parameters, 0, 64>
// CHECK-SAME: <gradients, 64, 128>
// CHECK-NOT: <exchange
module attributes {pp.stages = 1 : i64} {
  ml_program.global private mutable @w(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %w = nn.parameter @w : tensor<4xf32>
    %0 = nn.kernel(%a = %x, %b = %w) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>, pp.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    nn.accumulate gradient @w part 1, %0 {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    nn.accumulate gradient @w, %0 {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
