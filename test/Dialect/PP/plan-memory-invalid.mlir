// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-plan-memory

// Slots are counted of a right schedule only.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  // expected-error@+1 {{is wrong: 0F1 is missing}}
  pp.schedule "inference" microbatches(2) checkpoint(never) ranks([[0F0]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    // expected-error@+1 {{names no channels; run pp-insert-transfers first}}
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{is not known as part of a stage}}
      %1 = math.exp %a : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0]])
}

// -----

module {
  // expected-error@+1 {{is fed a loss scale, but has no optimizer; run nn-attach-optimizer first}}
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<loss_scale>}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([loss_scale]) targets([[fetch 0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0]])
}

// -----

module attributes {pp.target = "mock"} {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{has 'pp.launch', but no 'pp.launch_scratchpad'}}
      %1 = nn.kernel(%b = %a) attributes {pp.launch = "launch name=kernel_0"} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0]])
}

// -----

// Replicas add up statistics as they do gradients.
module {
  ml_program.global private mutable @m(dense<0.0> : tensor<4xf64>) : tensor<4xf64>
  func.func @main(%x: tensor<4xf64> {step.feed = "x"}) -> (tensor<4xf64> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[loss]]) : (tensor<4xf64>) -> tensor<4xf64> {
      // expected-error@+1 {{updates 'm' of 'tensor<4xf64>', but replicas and lanes add up statistics of the type of the parameters only}}
      nn.accumulate statistics @m, %a : tensor<4xf64>
      pp.return %a : tensor<4xf64>
    }
    pp.stage 0 backward_input () sources([]) targets([]) : () -> () {
      pp.return
    }
    return %0 : tensor<4xf64>
  }
  pp.schedule "1f1b" microbatches(1) replicas(2) checkpoint(never) ranks([[0F0, 0B0, 0REDUCE_GRAD, 0U]])
}
