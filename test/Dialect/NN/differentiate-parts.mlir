// RUN: pp-opt %s --split-input-file --nn-differentiate=parts | FileCheck %s

// Two readers: each has a part of the gradient, of the first reader part 0.
ml_program.global private mutable @w(dense<1.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8xf32>
  // CHECK: nn.mul {{.*}} {step.origin = 1
  %0 = nn.mul %x, %w : tensor<8xf32>
  // CHECK: nn.add {{.*}} {step.origin = 2
  %1 = nn.add %0, %w : tensor<8xf32>
  %2 = nn.reduce sum %1 [0] : tensor<8xf32> -> tensor<f32>
  // CHECK: nn.accumulate gradient @w part 1, %{{.+}} {step.origin =
  // CHECK: %[[FIRST:.+]] = nn.mul {{.*}} {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>}
  // CHECK: nn.accumulate gradient @w, %[[FIRST]]
  return %2 : tensor<f32>
}

// -----

// Readers of slices: what they read is one gradient.
ml_program.global private mutable @w(dense<1.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8xf32>
  %a = nn.slice %w starts [0] limits [4] strides [1] : tensor<8xf32> -> tensor<4xf32>
  %b = nn.slice %w starts [4] limits [8] strides [1] : tensor<8xf32> -> tensor<4xf32>
  %0 = nn.mul %x, %a : tensor<4xf32>
  %1 = nn.mul %0, %b : tensor<4xf32>
  %2 = nn.reduce sum %1 [0] : tensor<4xf32> -> tensor<f32>
  // CHECK-COUNT-1: nn.accumulate gradient @w, %
  // CHECK-NOT: nn.accumulate
  // CHECK: return
  return %2 : tensor<f32>
}

// -----

// Five readers are too many places for gradients.
ml_program.global private mutable @w(dense<1.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8xf32>
  %0 = nn.mul %x, %w : tensor<8xf32>
  %1 = nn.mul %0, %w : tensor<8xf32>
  %2 = nn.mul %1, %w : tensor<8xf32>
  %3 = nn.mul %2, %w : tensor<8xf32>
  %4 = nn.mul %3, %w : tensor<8xf32>
  %5 = nn.reduce sum %4 [0] : tensor<8xf32> -> tensor<f32>
  // CHECK-COUNT-1: nn.accumulate gradient @w, %
  // CHECK-NOT: nn.accumulate
  // CHECK: return
  return %5 : tensor<f32>
}
