// RUN: pp-opt %s --split-input-file --verify-diagnostics --nn-differentiate

// expected-error@+1 {{has no function @main}}
module {
}

// -----

// expected-error@+1 {{cannot be differentiated: its result must be one scalar, the loss (attach one with nn-attach-loss)}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{cannot be differentiated: its result must be one scalar}}
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  return %x, %x : tensor<f32>, tensor<f32>
}

// -----

// expected-error@+1 {{cannot be differentiated: no trained parameter reaches the loss}}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

// Steps stop the way of a cotangent: their derivative is 0.
ml_program.global private mutable @w(dense<0.0> : tensor<f32>) : tensor<f32> {nn.trained}
// expected-error@+1 {{cannot be differentiated: no gradient reaches a trained parameter}}
func.func @main() -> tensor<f32> {
  %w = nn.parameter @w : tensor<f32>
  %0 = nn.floor %w : tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Integers and comparisons stop the way of a cotangent.
ml_program.global private mutable @w(dense<0.0> : tensor<f32>) : tensor<f32> {nn.trained}
// expected-error@+1 {{cannot be differentiated: no trained parameter reaches the loss}}
func.func @main() -> tensor<f32> {
  %w = nn.parameter @w : tensor<f32>
  %0 = nn.cast %w : tensor<f32> -> tensor<i64>
  %1 = nn.cast %0 : tensor<i64> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// All operations without a derivative are reported at once.
ml_program.global private mutable @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32> {nn.trained}
func.func @main() -> tensor<f32> {
  %w = nn.parameter @w : tensor<4xf32>
  // expected-error@+1 {{'math.exp' op has no derivative}}
  %0 = math.exp %w : tensor<4xf32>
  // expected-error@+1 {{'math.log' op has no derivative}}
  %1 = math.log %w : tensor<4xf32>
  %2 = nn.reduce sum %w [0] : tensor<4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
func.func @main(%x: tensor<4x8xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8xf32>
  // expected-error@+1 {{'nn.layer_norm' op has no derivative of its mean and rstd results}}
  %y, %mean, %rstd = nn.layer_norm %x, %w, %w epsilon 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %0 = nn.reduce sum %mean [0] : tensor<4xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
func.func @main(%x: tensor<4x8xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8xf32>
  // expected-error@+1 {{'nn.batch_norm' op has no derivative of its mean and variance results}}
  %y, %mean, %variance = nn.batch_norm %x, %w, %w epsilon 1.0e-5 : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %0 = nn.reduce sum %variance [0] : tensor<8xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<4x8xf32>) : tensor<4x8xf32> {nn.trained}
func.func @main(%t: tensor<4xi64>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<4x8xf32>
  // expected-error@+1 {{'nn.softmax_cross_entropy' op has no derivative of its normalizer result}}
  %loss, %normalizer = nn.softmax_cross_entropy %w, %t : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  %0 = nn.reduce sum %normalizer [0] : tensor<4xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<2x3x8x8xf32>) : tensor<2x3x8x8xf32> {nn.trained}
func.func @main(%g: tensor<2x3x4x4xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<2x3x8x8xf32>
  // expected-error@+1 {{'nn.max_pool_backward' op has no derivative}}
  %0 = nn.max_pool_backward %w, %g kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  %1 = nn.reduce sum %0 [0, 1, 2, 3] : tensor<2x3x8x8xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<2x3x5x8xf32>) : tensor<2x3x5x8xf32> {nn.trained}
func.func @main() -> tensor<f32> {
  %w = nn.parameter @w : tensor<2x3x5x8xf32>
  // expected-error@+1 {{'nn.attention' op has no derivative of its logsumexp result}}
  %o, %l = nn.attention %w [0, 1, 2, 3], %w [0, 1, 2, 3], %w [0, 1, 2, 3] scale 1.0 output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5xf32>)
  %0 = nn.reduce sum %l [0, 1, 2] : tensor<2x3x5xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

ml_program.global private mutable @m(dense<0.0> : tensor<1x3x5x5xf32>) : tensor<1x3x5x5xf32> {nn.trained}
func.func @main(%x: tensor<2x3x5x8xf32>) -> tensor<f32> {
  %m = nn.parameter @m : tensor<1x3x5x5xf32>
  // expected-error@+1 {{'nn.attention' op has no derivative with respect to its mask}}
  %o, %l = nn.attention %x [0, 1, 2, 3], %x [0, 1, 2, 3], %x [0, 1, 2, 3] mask %m scale 1.0 output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<1x3x5x5xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5xf32>)
  %0 = nn.reduce sum %o [0, 1, 2, 3] : tensor<2x3x5x8xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<2x3x5x8xf32>) : tensor<2x3x5x8xf32> {nn.trained}
func.func @main(%l: tensor<2x3x5xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<2x3x5x8xf32>
  // expected-error@+1 {{'nn.attention_backward' op has no derivative}}
  %0:3 = nn.attention_backward %w [0, 1, 2, 3], %w [0, 1, 2, 3], %w [0, 1, 2, 3], %w [0, 1, 2, 3], %l, %w scale 1.0 : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5xf32>, tensor<2x3x5x8xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>)
  %1 = nn.reduce sum %0#0 [0, 1, 2, 3] : tensor<2x3x5x8xf32> -> tensor<f32>
  return %1 : tensor<f32>
}
