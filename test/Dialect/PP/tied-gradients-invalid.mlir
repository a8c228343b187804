// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-outline-stages --pp-schedule="schedule=gpipe microbatches=2" --pp-insert-transfers --pp-plan-memory

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
    // expected-error @+1 {{adds to part 0 of the gradient of @w, as stage 1 does}}
    nn.accumulate gradient @w, %0 {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    nn.accumulate gradient @w, %1 {step.origin = 2 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 1 : i64} : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

module attributes {pp.stages = 1 : i64} {
  ml_program.global private mutable @w(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  // expected-error @+1 {{has no gradient of 'w' for some of its parts 0 to 2}}
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %w = nn.parameter @w : tensor<4xf32>
    %0 = nn.kernel(%a = %x, %b = %w) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>, pp.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    nn.accumulate gradient @w part 2, %0 {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    nn.accumulate gradient @w, %0 {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
