// RUN: pp-opt %s --nn-pack-weights=mode=always | FileCheck %s

// A convolution and its derivative have copies of their own; the cotangent of
// the weight reads none.
// CHECK: %[[W:.+]] = nn.parameter @w
// CHECK: %[[P:.+]] = nn.pack %[[W]] {step.phase = #step.phase<prepare>} : tensor<32x16x3x3xf32> -> tensor<32x16x3x3xf32, #nn.packed<"conv_forward src=2x16x8x8 weights=32x16x3x3 {{[^"]*}}", [[BYTES:[0-9]+]]>>
// CHECK: nn.conv %arg0, %[[P]]
// CHECK: %[[Q:.+]] = nn.pack %[[W]] {{.*}}"conv_backward_data src=2x16x8x8
// CHECK: nn.conv_backward_input %{{.+}}, %[[Q]]
// CHECK-NOT: = nn.pack
// CHECK: nn.conv_backward_weight %arg0
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<32x16x3x3xf32>) : tensor<32x16x3x3xf32>
  func.func @main(%x: tensor<2x16x8x8xf32> {step.feed = "x"}) -> (tensor<2x16x8x8xf32>, tensor<32x16x3x3xf32>) {
    %w = nn.parameter @w : tensor<32x16x3x3xf32>
    %y = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 {step.phase = #step.phase<forward>} : (tensor<2x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<2x32x8x8xf32>
    %d = nn.conv_backward_input %y, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 {step.phase = #step.phase<backward_input>} : (tensor<2x32x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<2x16x8x8xf32>
    %g = nn.conv_backward_weight %x, %y strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 {step.phase = #step.phase<backward_weight>} : (tensor<2x16x8x8xf32>, tensor<2x32x8x8xf32>) -> tensor<32x16x3x3xf32>
    return %d, %g : tensor<2x16x8x8xf32>, tensor<32x16x3x3xf32>
  }
}
