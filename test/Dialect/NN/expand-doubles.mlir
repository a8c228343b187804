// RUN: pp-opt %s --split-input-file --nn-expand-doubles | FileCheck %s

// A convolution in two groups: columns of each group, times the rows of its weight.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8x8xf64>, %[[W:.*]]: tensor<6x2x3x1xf64>
// CHECK: %[[PADDED:.*]] = nn.pad %[[X]] low [0, 0, 1, 0] high [0, 0, 1, 0] interior [0, 0, 0, 0] {stage = 1 : i64} : {{.*}} -> tensor<2x4x10x8xf64>
// CHECK: nn.slice %[[PADDED]] starts [0, 0, 0, 0] limits [2, 4, 7, 8] strides [1, 1, 2, 1]
// CHECK: nn.slice %[[PADDED]] starts [0, 0, 1, 0] limits [2, 4, 8, 8] strides [1, 1, 2, 1]
// CHECK: nn.slice %[[PADDED]] starts [0, 0, 2, 0] limits [2, 4, 9, 8] strides [1, 1, 2, 1]
// CHECK: nn.concat {{.*}} axis 3 {{.*}} -> tensor<2x2x2x3x32xf64>
// CHECK: %[[COLUMNS:.*]] = nn.reshape {{.*}} -> tensor<2x2x6x32xf64>
// CHECK: %[[ROWS:.*]] = nn.reshape %[[W]] {{.*}} -> tensor<2x3x6xf64>
// CHECK: nn.dot_general %[[ROWS]], %[[COLUMNS]] {{.*}} -> tensor<2x3x2x32xf64>
// CHECK: %[[Y:.*]] = nn.reshape {{.*}} -> tensor<2x6x4x8xf64>
// CHECK: return %[[Y]]
func.func @main(%x: tensor<2x4x8x8xf64>, %w: tensor<6x2x3x1xf64>) -> tensor<2x6x4x8xf64> {
  %0 = nn.conv %x, %w strides [2, 1] dilations [1, 1] pad [1, 0] x [1, 0] groups 2 {stage = 1 : i64} : (tensor<2x4x8x8xf64>, tensor<6x2x3x1xf64>) -> tensor<2x6x4x8xf64>
  return %0 : tensor<2x6x4x8xf64>
}

// -----

// Padding of more than the kernel's reach is cut off, and the kernel mirrored.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<1x1x3xf64>
// CHECK: %[[SPREAD:.*]] = nn.pad %[[X]] low [0, 0, 0] high [0, 0, 0] interior [0, 0, 1] : {{.*}} -> tensor<1x1x5xf64>
// CHECK: %[[CUT:.*]] = nn.slice %[[SPREAD]] starts [0, 0, 1] limits [1, 1, 4] strides [1, 1, 1]
// CHECK: nn.slice %[[CUT]] starts [0, 0, 1] limits [1, 1, 3]
// CHECK: nn.slice %[[CUT]] starts [0, 0, 0] limits [1, 1, 2]
func.func @main(%x: tensor<1x1x3xf64>, %w: tensor<1x1x2xf64>) -> tensor<1x1x2xf64> {
  %0 = nn.conv_backward_input %x, %w strides [2] dilations [1] pad [2] x [2] groups 1 : (tensor<1x1x3xf64>, tensor<1x1x2xf64>) -> tensor<1x1x2xf64>
  return %0 : tensor<1x1x2xf64>
}

// -----

// Of f32, a library has kernels.
// CHECK-LABEL: func.func @main(
// CHECK: nn.max_pool
func.func @main(%x: tensor<1x1x4xf32>) -> tensor<1x1x2xf32> {
  %0 = nn.max_pool %x kernel [2] strides [2] dilations [1] pad [0] x [0] : (tensor<1x1x4xf32>) -> tensor<1x1x2xf32>
  return %0 : tensor<1x1x2xf32>
}

// -----

// CHECK-LABEL: func.func @main(
// CHECK: nn.compare gt
// CHECK: nn.compare ne
// CHECK: nn.select
// CHECK: nn.constant dense<[1.000000e+00, 2.000000e+00]>
func.func @main(%x: tensor<1x1x3xf64>) -> (tensor<1x1x2xf64>, tensor<1x1x2xf64>) {
  %0 = nn.max_pool %x kernel [2] strides [2] dilations [1] pad [1] x [0] : (tensor<1x1x3xf64>) -> tensor<1x1x2xf64>
  %1 = nn.avg_pool %x kernel [2] strides [2] dilations [1] pad [1] x [0] : (tensor<1x1x3xf64>) -> tensor<1x1x2xf64>
  return %0, %1 : tensor<1x1x2xf64>, tensor<1x1x2xf64>
}

// -----

// Rows without a sample are in neither mean.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf64>, %[[S:.*]]: tensor<3xf64>, %[[C:.*]]: tensor<5xi32>)
// CHECK: %[[ROWS:.+]] = nn.present_rows %[[C]]
// CHECK: %[[NUMBERS:.+]] = nn.iota 0 : tensor<4x3xi32>
// CHECK: %[[ALL:.+]] = nn.broadcast %[[ROWS]] []
// CHECK: %[[IS:.+]] = nn.compare lt %[[NUMBERS]], %[[ALL]]
// CHECK: %[[KEPT:.+]] = nn.select %[[IS]], %[[X]],
// CHECK: %[[SUM:.+]] = nn.reduce sum %[[KEPT]] [0]
// CHECK: %[[COUNT:.+]] = nn.cast %[[ROWS]] : tensor<i32> -> tensor<f64>
// CHECK: %[[ELEMENTS:.+]] = nn.mul %[[COUNT]],
// CHECK: %[[DIVISOR:.+]] = nn.broadcast %[[ELEMENTS]] []
// CHECK: %[[MEAN:.+]] = nn.div %[[SUM]], %[[DIVISOR]]
// CHECK: nn.broadcast %[[MEAN]]
// CHECK: nn.select
// CHECK: nn.sqrt
func.func @main(%x: tensor<4x3xf64>, %s: tensor<3xf64>, %c: tensor<5xi32>) -> tensor<4x3xf64> {
  %r = nn.present_rows %c samples 4 rows 1 : tensor<5xi32> -> tensor<i32>
  %y, %m, %v = nn.batch_norm %x, %s, %s rows %r epsilon 1.0e-5 : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<i32>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %y : tensor<4x3xf64>
}
