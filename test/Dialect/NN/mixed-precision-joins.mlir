// RUN: pp-opt %s --split-input-file --nn-mixed-precision=norms | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-mixed-precision | FileCheck %s --check-prefix=LONG

// A residual is bf16 where both of its summands are: rounded once, behind the ReLU, for all that reads it.
// CHECK-LABEL: func.func @main(
// LONG-LABEL: func.func @main(
// CHECK: %[[A:.+]] = nn.conv {{.*}} -> tensor<2x4x6x6xbf16>
// CHECK: %[[B:.+]] = nn.conv {{.*}} -> tensor<2x4x6x6xbf16>
// CHECK: %[[SUM:.+]] = nn.add %{{.+}}, %{{.+}} : tensor<2x4x6x6xf32>
// CHECK-NEXT: %[[RELU:.+]] = nn.relu %[[SUM]] : tensor<2x4x6x6xf32>
// CHECK-NEXT: %[[SHORT:.+]] = nn.cast %[[RELU]] : tensor<2x4x6x6xf32> -> tensor<2x4x6x6xbf16>
// CHECK-NEXT: %[[WIDE:.+]] = nn.cast %[[SHORT]] : tensor<2x4x6x6xbf16> -> tensor<2x4x6x6xf32>
// CHECK-NEXT: nn.exp %[[WIDE]]
// CHECK-NEXT: nn.mul %{{.+}}, %[[WIDE]]

// The graph's inputs are f32, and so is their sum with a product.
// CHECK: %[[MIXED:.+]] = nn.add %{{.+}}, %arg1
// CHECK-NEXT: nn.exp %[[MIXED]]

// What leaves the function is not rounded.
// CHECK: %[[OUT:.+]] = nn.relu
// CHECK-NEXT: return %{{.+}}, %{{.+}}, %[[OUT]]

// LONG: nn.relu
// LONG-NEXT: nn.exp
func.func @main(%x: tensor<2x3x6x6xf32>, %y: tensor<2x4x6x6xf32>, %w: tensor<4x3x1x1xf32>) -> (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) {
  %a = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32>
  %b = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32>
  %0 = nn.add %a, %b : tensor<2x4x6x6xf32>
  %1 = nn.relu %0 : tensor<2x4x6x6xf32>
  %2 = nn.exp %1 : tensor<2x4x6x6xf32>
  %3 = nn.mul %2, %1 : tensor<2x4x6x6xf32>
  %4 = nn.add %b, %y : tensor<2x4x6x6xf32>
  %5 = nn.exp %4 : tensor<2x4x6x6xf32>
  %6 = nn.relu %a : tensor<2x4x6x6xf32>
  return %3, %5, %6 : tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>
}

// -----

// Backward, the sum of two gradients belongs to another kernel than what selects from it, so both are rounded; what is
// selected has the bits of the rounded sum. With a bias, which is f32, a convolution's result would be rounded twice:
// that is left to what reads it as a factor.
module {
  ml_program.global private mutable @bias(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
// CHECK-LABEL: func.func @main(
// LONG-LABEL: func.func @main(
// CHECK: nn.add %{{.+}}, %{{.+}} {step.origin = 2 : i64, step.phase = #step.phase<forward>}
// CHECK-NEXT: %[[H:.+]] = nn.relu
// CHECK-NEXT: %[[H16:.+]] = nn.cast %[[H]] {{.*}} -> tensor<2x4x6x6xbf16>
// CHECK-NEXT: nn.exp %[[H]]
// CHECK: nn.compare gt %[[WIDE:[a-z0-9]+]],
// CHECK: %[[SUM:.+]] = nn.add %{{.+}}, %{{.+}} {step.origin = 0
// CHECK-NEXT: %[[SUM16:.+]] = nn.cast %[[SUM]] {{.*}} -> tensor<2x4x6x6xbf16>
// CHECK: %[[SUM32:.+]] = nn.cast %[[SUM16]] {{.*}} -> tensor<2x4x6x6xf32>
// CHECK-NEXT: %[[G:.+]] = nn.select %{{.+}}, %[[SUM32]],
// CHECK-NEXT: nn.cast %[[G]] {{.*}} -> tensor<2x4x6x6xbf16>
// CHECK: nn.conv_backward_input
  func.func @main(%x: tensor<2x3x6x6xf32>, %w: tensor<4x3x1x1xf32>, %v: tensor<4x4x1x1xf32>) -> (tensor<2x3x6x6xf32>, tensor<2x4x6x6xf32>) {
    %zero = nn.constant dense<0.0> : tensor<2x4x6x6xf32>
    %b = nn.parameter @bias : tensor<4xf32>
    %a = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 {step.phase = #step.phase<forward>, step.origin = 0 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32>
    %bb = nn.broadcast %b [1] {step.phase = #step.phase<forward>, step.origin = 1 : i64} : tensor<4xf32> -> tensor<2x4x6x6xf32>
    %0 = nn.add %a, %bb {step.phase = #step.phase<forward>, step.origin = 2 : i64} : tensor<2x4x6x6xf32>
    %1 = nn.relu %0 {step.phase = #step.phase<forward>, step.origin = 3 : i64} : tensor<2x4x6x6xf32>
    %e = nn.exp %1 {step.phase = #step.phase<forward>, step.origin = 6 : i64} : tensor<2x4x6x6xf32>
    %g = nn.conv_backward_input %1, %v strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 {step.phase = #step.phase<backward_input>, step.origin = 5 : i64} : (tensor<2x4x6x6xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x6x6xf32>
    %h = nn.conv_backward_input %1, %v strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 {step.phase = #step.phase<backward_input>, step.origin = 4 : i64} : (tensor<2x4x6x6xf32>, tensor<4x4x1x1xf32>) -> tensor<2x4x6x6xf32>
    %m = nn.compare gt %1, %zero {step.phase = #step.phase<backward_input>, step.origin = 3 : i64} : tensor<2x4x6x6xf32> -> tensor<2x4x6x6xi1>
    %s = nn.add %g, %h {step.phase = #step.phase<backward_input>, step.origin = 0 : i64} : tensor<2x4x6x6xf32>
    %d = nn.select %m, %s, %zero {step.phase = #step.phase<backward_input>, step.origin = 3 : i64} : tensor<2x4x6x6xi1>, tensor<2x4x6x6xf32>
    %dx = nn.conv_backward_input %d, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 {step.phase = #step.phase<backward_input>, step.origin = 0 : i64} : (tensor<2x4x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<2x3x6x6xf32>
    return %dx, %e : tensor<2x3x6x6xf32>, tensor<2x4x6x6xf32>
  }
}

// -----

// Maxima of bf16 values are bf16, and so are their gradients.
// CHECK-LABEL: func.func @main(
// LONG-LABEL: func.func @main(
// CHECK: %[[Y:.+]] = nn.max_pool %[[X:[a-z0-9]+]] {{.*}} : (tensor<2x4x6x6xbf16>) -> tensor<2x4x3x3xbf16>
// CHECK: nn.max_pool_backward %[[X]], %{{.+}} : (tensor<2x4x6x6xbf16>, tensor<2x4x3x3xbf16>) -> tensor<2x4x6x6xbf16>
// LONG: nn.max_pool {{.*}} -> tensor<2x4x3x3xf32>
func.func @main(%x: tensor<2x3x6x6xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32> {
  %a = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32>
  %0 = nn.relu %a : tensor<2x4x6x6xf32>
  %1 = nn.max_pool %0 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x4x6x6xf32>) -> tensor<2x4x3x3xf32>
  %2 = nn.exp %1 : tensor<2x4x3x3xf32>
  %3 = nn.max_pool_backward %0, %2 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x4x6x6xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x6x6xf32>
  return %3 : tensor<2x4x6x6xf32>
}
