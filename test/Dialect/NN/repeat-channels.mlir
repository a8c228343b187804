// RUN: pp-opt %s --split-input-file --nn-repeat-channels | FileCheck %s

// Each channel has two outputs.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.+]]: tensor<2x4x9x8xf32>, %[[W:.+]]: tensor<8x1x3x3xf32>
func.func @main(%x: tensor<2x4x9x8xf32>, %w: tensor<8x1x3x3xf32>) -> tensor<2x8x5x4xf32> {
  // CHECK: %[[APART:.+]] = nn.broadcast %[[X]] [0, 1, 3, 4] {step.stage_hint = 1 : i64} : tensor<2x4x9x8xf32> -> tensor<2x4x2x9x8xf32>
  // CHECK: %[[ALL:.+]] = nn.reshape %[[APART]] {step.stage_hint = 1 : i64} : tensor<2x4x2x9x8xf32> -> tensor<2x8x9x8xf32>
  // CHECK: nn.conv %[[ALL]], %[[W]] strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 8 {step.stage_hint = 1 : i64} : (tensor<2x8x9x8xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x5x4xf32>
  %0 = nn.conv %x, %w strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 4 {step.stage_hint = 1 : i64} : (tensor<2x4x9x8xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x5x4xf32>
  return %0 : tensor<2x8x5x4xf32>
}

// -----

// Sequences, too.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x4x40xf32>, %w: tensor<16x1x5xf32>) -> tensor<2x16x36xf32> {
  // CHECK: nn.broadcast %{{.+}} [0, 1, 3] : tensor<2x4x40xf32> -> tensor<2x4x4x40xf32>
  // CHECK: nn.conv {{.*}} groups 16 : (tensor<2x16x40xf32>, tensor<16x1x5xf32>)
  %0 = nn.conv %x, %w strides [1] dilations [1] pad [0] x [0] groups 4 : (tensor<2x4x40xf32>, tensor<16x1x5xf32>) -> tensor<2x16x36xf32>
  return %0 : tensor<2x16x36xf32>
}

// -----

// One output for each channel, five, groups of two, and all channels.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: nn.broadcast
func.func @main(%x: tensor<2x4x9xf32>, %a: tensor<4x1x3xf32>, %b: tensor<20x1x3xf32>, %c: tensor<4x2x3xf32>, %y: tensor<2x1x9xf32>, %d: tensor<2x1x3xf32>) -> (tensor<2x4x7xf32>, tensor<2x20x7xf32>, tensor<2x4x7xf32>, tensor<2x2x7xf32>) {
  %0 = nn.conv %x, %a strides [1] dilations [1] pad [0] x [0] groups 4 : (tensor<2x4x9xf32>, tensor<4x1x3xf32>) -> tensor<2x4x7xf32>
  %1 = nn.conv %x, %b strides [1] dilations [1] pad [0] x [0] groups 4 : (tensor<2x4x9xf32>, tensor<20x1x3xf32>) -> tensor<2x20x7xf32>
  %2 = nn.conv %x, %c strides [1] dilations [1] pad [0] x [0] groups 2 : (tensor<2x4x9xf32>, tensor<4x2x3xf32>) -> tensor<2x4x7xf32>
  %3 = nn.conv %y, %d strides [1] dilations [1] pad [0] x [0] groups 1 : (tensor<2x1x9xf32>, tensor<2x1x3xf32>) -> tensor<2x2x7xf32>
  return %0, %1, %2, %3 : tensor<2x4x7xf32>, tensor<2x20x7xf32>, tensor<2x4x7xf32>, tensor<2x2x7xf32>
}
