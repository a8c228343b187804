// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-verify-memory

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    // expected-error@+1 {{has no memory plan; run pp-plan-memory first}}
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{has a value at #pp.buffer<output, 1>, which ends outside of an area of 1}}
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<output, 1>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{has a value at #pp.buffer<scratch, 56>, which ends outside of an area of 64}}
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<scratch, 56>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{has no buffers; run pp-plan-memory first}}
      %1 = nn.exp %a : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{names kernel 0 of its stage, which has 0}}
      %1 = nn.exp %a {pp.library = 0 : i64, pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      // expected-error@+1 {{names kernel 1 of its stage, which has 0}}
      %1 = nn.exp %a {pp.first_library = 1 : i64, pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  // expected-error@+1 {{is for stage 0 a second time}}
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  // expected-error@+1 {{is for stage 1, which the step does not have}}
  pp.memory 1 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  // expected-error@+1 {{has the action '0F0' without one of the 1 slots of its stage}}
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  // expected-error@+1 {{has the action '1F0', but only 1 stages}}
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]], [1F0[0]]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(64) areas([<scratch, 0, 64>]) slots(1, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)
  // expected-error@+1 {{'c0' has no slots; run pp-plan-memory first}}
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  // expected-error@+1 {{has no pp.memory for stage 0; run pp-plan-memory}}
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.exp %a {pp.buffers = [#pp.buffer<output, 0>]} : tensor<4xf32>
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}

// -----

module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) {
    pp.stage 0 update (%a = %x) sources([feed 0]) targets([]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> () {
      // expected-error@+1 {{adds to the gradient of @w outside of B and W, in a stage whose memory says that these write gradients}}
      nn.accumulate gradient @w, %a {pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : tensor<4xf32>
      pp.return
    }
    return
  }
  pp.memory 0 total(128) areas([<parameters, 0, 64>, <gradients, 64, 64>]) slots(1, 0) parameters([<@w, 0>]) buffers([]) statistics([]) kernels([]) discards([], 0) writes_gradients
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0[0]]])
}
