// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-outline-stages

module attributes {pp.stages = 1 : i64} {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    // expected-error@+1 {{is on no stage; run pp-partition first}}
    %0 = nn.kernel(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      %b = nn.exp %a : tensor<4xf32>
      nn.yield %b : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
}

// -----

module attributes {pp.stages = 2 : i64} {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    // expected-error@+1 {{stage 0 reads this before it is computed}}
    %0 = nn.kernel(%a = %x) attributes {pp.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
      %b = nn.exp %a : tensor<4xf32>
      nn.yield %b : tensor<4xf32>
    }
    %1 = nn.kernel(%a = %0) attributes {pp.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
      %b = nn.exp %a : tensor<4xf32>
      nn.yield %b : tensor<4xf32>
    }
    return %1 : tensor<4xf32>
  }
}
