// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-verify-step

// expected-error@+1 {{has no function with fed arguments (step.feed)}}
module {
}

// -----

// expected-error@+1 {{input #0 has type 'tensor<?xf32>', expected a statically shaped tensor}}
func.func @main(%x: tensor<?xf32> {step.feed = "x"}) {
  return
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  // expected-error@+1 {{is not known as part of a step}}
  %0 = math.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = nn.exp %x {step.origin = 0 : i64} : tensor<4xf32>
  %1 = nn.exp %0 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4xf32>
  // expected-error@+1 {{runs in backward_input, but reads what backward_weight computes}}
  %2 = nn.exp %1 {step.origin = 0 : i64, step.phase = #step.phase<backward_input>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = nn.exp %x {step.origin = 0 : i64} : tensor<4xf32>
  // expected-error@+1 {{runs in backward_input, but has no 'step.origin': it belongs to no forward operation}}
  %1 = nn.exp %0 {step.phase = #step.phase<backward_input>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) {
    return
  }
  // expected-error@+1 {{takes 1 values and returns 0, but an optimizer with 1 states and 0 scalars takes 3 and returns 2}}
  func.func private @optimizer(%p: tensor<16xf32>) attributes {step.optimizer = #step.optimizer<"sgd", states = ["momentum"], scalars = []>} {
    return
  }
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  // expected-error@+1 {{runs in prepare, but reads what is neither a parameter nor made of parameters alone}}
  %0 = nn.exp %x {step.phase = #step.phase<prepare>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = nn.exp %x : tensor<4xf32>
  %1 = nn.reshape %0 : tensor<4xf32> -> tensor<2x2xf32>
  // expected-error@+1 {{runs in prepare, but reads what forward computes}}
  %2 = nn.exp %0 {step.phase = #step.phase<prepare>} : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

ml_program.global private mutable @w(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = nn.parameter @w : tensor<4xf32>
  // expected-error@+1 {{runs in prepare, but changes state}}
  nn.accumulate gradient @w, %0 {step.phase = #step.phase<prepare>} : tensor<4xf32>
  return %x : tensor<4xf32>
}
