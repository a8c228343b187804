// RUN: pp-opt %s -split-input-file --nn-assign-layouts="block-size=16" | FileCheck %s
// RUN: pp-opt %s -split-input-file --nn-assign-layouts="block-size=16 uses=0" | FileCheck %s --check-prefix=RESULTS

// Without times, the bytes that layouts move decide where they are many: 24
// channels fill no block.
// CHECK-LABEL: func.func @main
// CHECK: nn.conv
// CHECK-SAME: layout channels_last
// CHECK: nn.conv
// CHECK-SAME: layout channels_last
func.func @main(%x: tensor<2x32x64x64xf32>, %w: tensor<24x32x3x3xf32>, %v: tensor<32x24x3x3xf32>) -> tensor<2x32xf32> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x32x64x64xf32>, tensor<24x32x3x3xf32>) -> tensor<2x24x64x64xf32>
  %1 = nn.conv %0, %v strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x24x64x64xf32>, tensor<32x24x3x3xf32>) -> tensor<2x32x64x64xf32>
  %2 = nn.reduce sum %1 [2, 3] : tensor<2x32x64x64xf32> -> tensor<2x32xf32>
  return %2 : tensor<2x32xf32>
}

// -----

// Else blocks, in which the library is faster.
// CHECK-LABEL: func.func @main
// CHECK: nn.conv
// CHECK-SAME: layout blocked16
// CHECK: nn.conv
// CHECK-SAME: layout blocked16
func.func @main(%x: tensor<2x3x64x64xf32>, %w: tensor<128x3x3x3xf32>, %v: tensor<128x128x3x3xf32>) -> tensor<2x128xf32> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x3x64x64xf32>, tensor<128x3x3x3xf32>) -> tensor<2x128x64x64xf32>
  %1 = nn.conv %0, %v strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x128x64x64xf32>, tensor<128x128x3x3xf32>) -> tensor<2x128x64x64xf32>
  %2 = nn.conv %1, %v strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x128x64x64xf32>, tensor<128x128x3x3xf32>) -> tensor<2x128x64x64xf32>
  %3 = nn.reduce sum %2 [2, 3] : tensor<2x128x64x64xf32> -> tensor<2x128xf32>
  return %3 : tensor<2x128xf32>
}

// -----

// And channels last for results of a single image, where weights are packed for
// good.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: layout blocked16 : (
// RESULTS-COUNT-2: layout channels_last : (
// RESULTS-COUNT-3: layout blocked16 : (
// RESULTS-LABEL: func.func @main(%{{.*}}: tensor<1x32x64x64xf32>
// RESULTS-COUNT-2: layout channels_last : (
func.func @main(%x: tensor<1x32x64x64xf32>, %v: tensor<32x32x3x3xf32>) -> tensor<1x32xf32> {
  %0 = nn.conv %x, %v strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x32x64x64xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x64x64xf32>
  %1 = nn.conv %0, %v strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x32x64x64xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x64x64xf32>
  %2 = nn.reduce sum %1 [2, 3] : tensor<1x32x64x64xf32> -> tensor<1x32xf32>
  return %2 : tensor<1x32xf32>
}
