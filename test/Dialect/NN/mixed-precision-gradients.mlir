// RUN: pp-opt %s --nn-mixed-precision=norms | FileCheck %s

// Parts of a parameter's gradient are added up in f32, and the gradient of a
// convolution's weights is f32 whatever it is for: here they were made of
// parameters.

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.+]] = nn.dot_general {{.*}} : (tensor<2x8xbf16>, tensor<2x4xbf16>) -> tensor<8x4xf32>
// CHECK: %[[B:.+]] = nn.dot_general {{.*}} : (tensor<2x8xbf16>, tensor<2x4xbf16>) -> tensor<8x4xf32>
// CHECK: %[[SUM:.+]] = nn.add %[[A]], %[[B]] {{.*}} : tensor<8x4xf32>
// CHECK-NEXT: nn.accumulate gradient @w, %[[SUM]]
// CHECK: %[[D:.+]] = nn.conv_backward_weight {{.*}} -> tensor<16x16x3x3xf32>
// CHECK-NEXT: nn.mul %[[D]], %{{.*}} : tensor<16x16x3x3xf32>
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<8x4xf32>) : tensor<8x4xf32>
  func.func @main(%g: tensor<2x8xf32>, %h: tensor<2x4xf32>, %x: tensor<1x16x8x8xf32>, %s: tensor<16x16x3x3xf32>) -> tensor<16x16x3x3xf32> {
    %a = nn.dot_general %g, %h batch [] x [] contract [0] x [0] {step.phase = #step.phase<backward_weight>, step.origin = 1 : i64} : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
    %b = nn.dot_general %g, %h batch [] x [] contract [0] x [0] {step.phase = #step.phase<backward_weight>, step.origin = 0 : i64} : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
    %sum = nn.add %a, %b {step.phase = #step.phase<backward_weight>, step.origin = 0 : i64} : tensor<8x4xf32>
    nn.accumulate gradient @w, %sum {step.phase = #step.phase<backward_weight>, step.origin = 0 : i64} : tensor<8x4xf32>
    %d = nn.conv_backward_weight %x, %x strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 {step.phase = #step.phase<backward_weight>, step.origin = 2 : i64} : (tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>) -> tensor<16x16x3x3xf32>
    %m = nn.mul %d, %s {step.phase = #step.phase<backward_weight>, step.origin = 2 : i64} : tensor<16x16x3x3xf32>
    return %m : tensor<16x16x3x3xf32>
  }
}
