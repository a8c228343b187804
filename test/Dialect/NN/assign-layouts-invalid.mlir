// RUN: pp-opt %s -split-input-file -verify-diagnostics --nn-assign-layouts="block-size=4"
// RUN: not pp-opt %s -split-input-file --nn-assign-layouts=tiles=2 2>&1 | FileCheck %s
// CHECK: error: tiles is 0 or 1, or -1 for the processor's

// expected-error @+1 {{block-size is 8 or 16, or 0 for the processor's}}
func.func @main(%x: tensor<1x16x4x4xf32>, %w: tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x16x4x4xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32>
  return %0 : tensor<1x16x4x4xf32>
}

// -----

func.func @main(%x: tensor<1x24x4x4xf32>) -> tensor<1x1x4x4x16xf32> {
  // expected-error @+1 {{has 24 channels, which are no multiple of 16}}
  %0 = nn.reorder %x plain to blocked16 : tensor<1x24x4x4xf32> -> tensor<1x1x4x4x16xf32>
  return %0 : tensor<1x1x4x4x16xf32>
}

// -----

func.func @main(%x: tensor<1x32x4x4xf32>) -> tensor<1x4x4x8xf32> {
  // expected-error @+1 {{makes a tensor of shape [1, 4, 4, 32], but its type says [1, 4, 4, 8]}}
  %0 = nn.reorder %x plain to channels_last : tensor<1x32x4x4xf32> -> tensor<1x4x4x8xf32>
  return %0 : tensor<1x4x4x8xf32>
}

// -----

func.func @main(%x: tensor<1x32x4x4xf32>) -> tensor<1x32x4x4xf32> {
  // expected-error @+1 {{needs a tensor with one to three spatial axes in the layout blocked16}}
  %0 = nn.reorder %x blocked16 to plain : tensor<1x32x4x4xf32> -> tensor<1x32x4x4xf32>
  return %0 : tensor<1x32x4x4xf32>
}
