// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-lower-stages

// expected-error@+1 {{has no module @code; run nn-lower-kernels}}
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.kernel(%b = %a) attributes {pp.buffers = [#pp.buffer<output, 0>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(128) areas([<residuals, 0, 128>]) slots(1, 128) parameters([]) buffers([]) statistics([]) kernels([]) discards([0], 64)
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    // expected-error@+1 {{has no memory plan; run pp-plan-memory first}}
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.kernel(%b = %a) attributes {pp.buffers = [#pp.buffer<output, 0>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(128) areas([<residuals, 0, 128>]) slots(1, 128) parameters([]) buffers([]) statistics([]) kernels([]) discards([0], 64)
  module @code {
  }
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    // expected-error@+1 {{has no memory plan; run pp-plan-memory first}}
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.kernel(%b = %a) attributes {pp.buffers = [#pp.buffer<output, 0>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  module @code {
  }
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{has no buffers; run pp-plan-memory first}}
      %1 = nn.kernel(%b = %a) : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(128) areas([<residuals, 0, 128>]) slots(1, 128) parameters([]) buffers([]) statistics([]) kernels([]) discards([0], 64)
  module @code {
  }
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{has no function; run nn-lower-kernels first}}
      %1 = nn.kernel(%b = %a) attributes {pp.buffers = [#pp.buffer<output, 0>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(128) areas([<residuals, 0, 128>]) slots(1, 128) parameters([]) buffers([]) statistics([]) kernels([]) discards([0], 64)
  module @code {
  }
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{has no library kernel; run pp-plan-memory first}}
      %1 = nn.kernel(%b = %a) attributes {pp.buffers = [#pp.buffer<output, 0>], pp.launch = "launch name=kernel_0"} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(128) areas([<residuals, 0, 128>]) slots(1, 128) parameters([]) buffers([]) statistics([]) kernels([]) discards([0], 64)
  module @code {
  }
}

// -----

module {
  ml_program.global private mutable @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{has no place for the states that it changes; run pp-plan-memory first}}
      nn.accumulate gradient @w, %a {pp.buffers = []} : tensor<4xf32>
      pp.return %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(128) areas([<residuals, 0, 128>]) slots(1, 128) parameters([]) buffers([]) statistics([]) kernels([]) discards([0], 64)
  module @code {
  }
}
