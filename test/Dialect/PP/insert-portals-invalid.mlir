// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-insert-portals

// expected-error@+1 {{has no function with fed arguments (step.feed)}}
module {
}

// -----

// The passes before this one place no forward value on an earlier stage.
func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  // expected-error@+1 {{'pp.portal' op 'portal_nn.kernel_2_0' leads backward, from stage 2 to stage 0, in the forward phase}}
  %0 = nn.kernel(%a = %x) attributes {pp.stage = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
    %b = nn.exp %a : tensor<4xf32>
    nn.yield %b : tensor<4xf32>
  }
  %1 = nn.kernel(%a = %0) attributes {pp.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
    %b = nn.exp %a : tensor<4xf32>
    nn.yield %b : tensor<4xf32>
  }
  return %1 : tensor<4xf32>
}
