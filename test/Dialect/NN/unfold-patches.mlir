// RUN: pp-opt %s --split-input-file --nn-unfold-patches | FileCheck %s

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x32x64xf32>, %[[W:.+]]: tensor<8x3x16x16xf32>
func.func @main(%x: tensor<2x3x32x64xf32>, %w: tensor<8x3x16x16xf32>) -> tensor<2x8x2x4xf32> {
  // CHECK: %[[SPLIT:.+]] = nn.reshape %[[X]] {step.stage_hint = 1 : i64} : tensor<2x3x32x64xf32> -> tensor<2x3x2x16x4x16xf32>
  // CHECK: %[[MOVED:.+]] = nn.transpose %[[SPLIT]] [0, 2, 4, 1, 3, 5] {step.stage_hint = 1 : i64}
  // CHECK: %[[ROWS:.+]] = nn.reshape %[[MOVED]] {{.*}} -> tensor<16x768xf32>
  // CHECK: %[[MATRIX:.+]] = nn.reshape %[[W]] {{.*}} -> tensor<8x768xf32>
  // CHECK: %[[PRODUCT:.+]] = nn.dot_general %[[ROWS]], %[[MATRIX]] batch [] x [] contract [1] x [1] {step.stage_hint = 1 : i64} : (tensor<16x768xf32>, tensor<8x768xf32>) -> tensor<16x8xf32>
  // CHECK: %[[LAST:.+]] = nn.reshape %[[PRODUCT]] {{.*}} -> tensor<2x2x4x8xf32>
  // CHECK: %[[Y:.+]] = nn.transpose %[[LAST]] [0, 3, 1, 2]
  // CHECK: return %[[Y]]
  %0 = nn.conv %x, %w strides [16, 16] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 {step.stage_hint = 1 : i64} : (tensor<2x3x32x64xf32>, tensor<8x3x16x16xf32>) -> tensor<2x8x2x4xf32>
  return %0 : tensor<2x8x2x4xf32>
}

// -----

// Sequences, too.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x3x40xf32>, %w: tensor<8x3x20xf32>) -> tensor<2x8x2xf32> {
  // CHECK: nn.transpose %{{.+}} [0, 2, 1, 3] : tensor<2x3x2x20xf32> -> tensor<2x2x3x20xf32>
  // CHECK: nn.dot_general {{.*}} -> tensor<4x8xf32>
  // CHECK: nn.transpose %{{.+}} [0, 2, 1] : tensor<2x2x8xf32> -> tensor<2x8x2xf32>
  %0 = nn.conv %x, %w strides [20] dilations [1] pad [0] x [0] groups 1 : (tensor<2x3x40xf32>, tensor<8x3x20xf32>) -> tensor<2x8x2xf32>
  return %0 : tensor<2x8x2xf32>
}

// -----

// Windows that overlap, that leave something out, that the library has code
// for, and groups.
// CHECK-LABEL: func.func @main(
// CHECK-COUNT-4: nn.conv
// CHECK-NOT: nn.dot_general
// CHECK: return
func.func @main(%x: tensor<1x4x32x32xf32>, %w: tensor<8x4x16x16xf32>, %small: tensor<8x4x8x8xf32>, %parts: tensor<8x2x16x16xf32>, %long: tensor<1x4x40x40xf32>) -> (tensor<1x8x3x3xf32>, tensor<1x8x2x2xf32>, tensor<1x8x4x4xf32>, tensor<1x8x2x2xf32>) {
  %0 = nn.conv %x, %w strides [8, 8] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x4x32x32xf32>, tensor<8x4x16x16xf32>) -> tensor<1x8x3x3xf32>
  %1 = nn.conv %long, %w strides [16, 16] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x4x40x40xf32>, tensor<8x4x16x16xf32>) -> tensor<1x8x2x2xf32>
  %2 = nn.conv %x, %small strides [8, 8] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x4x32x32xf32>, tensor<8x4x8x8xf32>) -> tensor<1x8x4x4xf32>
  %3 = nn.conv %x, %parts strides [16, 16] dilations [1, 1] pad [0, 0] x [0, 0] groups 2 : (tensor<1x4x32x32xf32>, tensor<8x2x16x16xf32>) -> tensor<1x8x2x2xf32>
  return %0, %1, %2, %3 : tensor<1x8x3x3xf32>, tensor<1x8x2x2xf32>, tensor<1x8x4x4xf32>, tensor<1x8x2x2xf32>
}
