// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-verify-stages

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  // expected-error@+1 {{is outside of all stages; run pp-outline-stages first}}
  %0 = nn.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{has no stages; run pp-outline-stages first}}
func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{has 2 stages, but stage 0 has no phase forward}}
func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = pp.stage 1 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{has 1 stages, but stage 0 has no phase backward_weight}}
func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  pp.stage 0 backward_input () : () -> () {
    pp.return
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  // expected-error@+1 {{is the second of stage 0 in forward}}
  %1 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = pp.stage 1 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  // expected-error@+1 {{reads operand 0 from stage 1 in forward, where no value comes from}}
  %1 = pp.stage 0 forward (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  pp.stage 1 forward () : () -> () {
    pp.return
  }
  // expected-error@+1 {{reads operand 0 from stage 0, which is no neighbour; run pp-insert-portals}}
  %1 = pp.stage 2 forward (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{is not known as part of a stage}}
    %1 = math.exp %a : tensor<4xf32>
    pp.return %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// All faults at once.
// expected-error@+5 {{has 2 stages, but stage 0 has no phase forward}}
// expected-error@+4 {{has 2 stages, but stage 0 has no phase backward_input}}
// expected-error@+3 {{has 2 stages, but stage 0 has no phase backward_weight}}
// expected-error@+2 {{has 2 stages, but stage 1 has no phase forward}}
// expected-error@+1 {{has 2 stages, but stage 1 has no phase backward_weight}}
func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  // expected-error@+1 {{is outside of all stages; run pp-outline-stages first}}
  %0 = nn.exp %x : tensor<4xf32>
  %1 = pp.stage 1 backward_input (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}
