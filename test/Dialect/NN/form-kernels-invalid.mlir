// RUN: pp-opt %s --split-input-file --verify-diagnostics --nn-form-kernels

// expected-error@+1 {{has no function @main}}
module {
}

// -----

// Both are reported.
func.func @main(%x: tensor<2x3x8x8xf64>, %w: tensor<6x3x3x3xf64>) {
  // expected-error@+1 {{'nn.conv' op has no kernel for these element types; only f32 is supported}}
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x8x8xf64>, tensor<6x3x3x3xf64>) -> tensor<2x6x6x6xf64>
  // expected-error@+1 {{'nn.max_pool' op has no kernel for these element types; only f32 is supported}}
  %1 = nn.max_pool %0 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x6x6x6xf64>) -> tensor<2x6x3x3xf64>
  return
}
