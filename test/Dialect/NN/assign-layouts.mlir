// RUN: pp-opt %s -split-input-file --nn-assign-layouts="layouts=blocked block-size=16" | FileCheck %s --check-prefixes=CHECK,BLOCK
// RUN: pp-opt %s -split-input-file --nn-assign-layouts="layouts=channels_last" | FileCheck %s --check-prefixes=CHECK,LAST
// RUN: pp-opt %s -split-input-file --nn-assign-layouts="layouts=plain" | FileCheck %s --check-prefix=PLAIN

// The image has three channels, no multiple of a block. What follows works in
// the layout until the sum over the spatial axes; the bias and the statistics
// stay plain.

// PLAIN-LABEL: func.func @main
// PLAIN-NOT: layout
// PLAIN-NOT: nn.reorder
// CHECK-LABEL: func.func @main
// LAST: nn.reorder %{{.*}} plain to channels_last : tensor<2x3x8x8xf32> -> tensor<2x8x8x3xf32>
// CHECK: nn.conv
// BLOCK-SAME: layout blocked16 : (tensor<2x3x8x8xf32>, tensor<32x3x3x3xf32>) -> tensor<2x2x8x8x16xf32>
// LAST-SAME: layout channels_last : (tensor<2x8x8x3xf32>, tensor<32x3x3x3xf32>) -> tensor<2x8x8x32xf32>
// BLOCK: nn.reshape %{{.*}} : tensor<32xf32> -> tensor<2x16xf32>
// BLOCK: nn.broadcast %{{.*}} [1, 4] : tensor<2x16xf32> -> tensor<2x2x8x8x16xf32>
// LAST: nn.broadcast %{{.*}} [3] : tensor<32xf32> -> tensor<2x8x8x32xf32>
// CHECK: nn.add
// CHECK: nn.batch_norm
// BLOCK-SAME: layout blocked16 : (tensor<2x2x8x8x16xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x2x8x8x16xf32>, tensor<32xf32>, tensor<32xf32>)
// CHECK: nn.relu
// CHECK: nn.max_pool
// BLOCK: nn.reduce sum %{{.*}} [2, 3] : tensor<2x2x4x4x16xf32> -> tensor<2x2x16xf32>
// BLOCK: nn.reshape %{{.*}} : tensor<2x2x16xf32> -> tensor<2x32xf32>
// LAST: nn.reduce sum %{{.*}} [1, 2] : tensor<2x4x4x32xf32> -> tensor<2x32xf32>
// CHECK: return %{{.*}} : tensor<2x32xf32>
func.func @main(%x: tensor<2x3x8x8xf32>, %w: tensor<32x3x3x3xf32>, %bias: tensor<32xf32>, %scale: tensor<32xf32>, %shift: tensor<32xf32>) -> tensor<2x32xf32> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x3x8x8xf32>, tensor<32x3x3x3xf32>) -> tensor<2x32x8x8xf32>
  %1 = nn.broadcast %bias [1] : tensor<32xf32> -> tensor<2x32x8x8xf32>
  %2 = nn.add %0, %1 : tensor<2x32x8x8xf32>
  %3, %mean, %variance = nn.batch_norm %2, %scale, %shift epsilon 1.0e-5 : (tensor<2x32x8x8xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x32x8x8xf32>, tensor<32xf32>, tensor<32xf32>)
  %4 = nn.relu %3 : tensor<2x32x8x8xf32>
  %5 = nn.max_pool %4 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x32x8x8xf32>) -> tensor<2x32x4x4xf32>
  %6 = nn.reduce sum %5 [2, 3] : tensor<2x32x4x4xf32> -> tensor<2x32xf32>
  return %6 : tensor<2x32xf32>
}

// -----

// A value that is wanted in both layouts is reordered once; masks, which the
// library cannot move, are transposed.

// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = nn.conv
// CHECK: %[[M:.*]] = nn.compare gt %[[Y]]
// BLOCK: nn.transpose %[[M]] [0, 1, 4, 2, 3] : tensor<1x2x4x4x16xi1> -> tensor<1x2x16x4x4xi1>
// BLOCK: nn.reshape {{.*}} -> tensor<1x32x4x4xi1>
// LAST: nn.transpose %[[M]] [0, 3, 1, 2] : tensor<1x4x4x32xi1> -> tensor<1x32x4x4xi1>
// CHECK: return
func.func @main(%x: tensor<1x32x4x4xf32>, %w: tensor<32x32x3x3xf32>) -> (tensor<1x32x4x4xi1>, tensor<1x32x4x4xf32>) {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x32x4x4xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x4x4xf32>
  %1 = nn.constant dense<0.0> : tensor<1x32x4x4xf32>
  %2 = nn.compare gt %0, %1 : tensor<1x32x4x4xf32> -> tensor<1x32x4x4xi1>
  %3 = nn.conv %0, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x32x4x4xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x4x4xf32>
  return %2, %3 : tensor<1x32x4x4xi1>, tensor<1x32x4x4xf32>
}

// -----

// Along the channels, and beside them.

// CHECK-LABEL: func.func @main
// BLOCK: nn.concat {{.*}} axis 1 : (tensor<1x1x4x4x16xf32>, tensor<1x2x4x4x16xf32>) -> tensor<1x3x4x4x16xf32>
// LAST: nn.concat {{.*}} axis 3 : (tensor<1x4x4x16xf32>, tensor<1x4x4x32xf32>) -> tensor<1x4x4x48xf32>
// BLOCK: nn.slice {{.*}} starts [0, 1, 0, 0, 0] limits [1, 3, 4, 4, 16] strides [1, 1, 1, 1, 1] : tensor<1x3x4x4x16xf32> -> tensor<1x2x4x4x16xf32>
// LAST: nn.slice {{.*}} starts [0, 0, 0, 16] limits [1, 4, 4, 48] strides [1, 1, 1, 1]
// BLOCK: nn.pad {{.*}} low [0, 0, 1, 0, 0] high [0, 0, 0, 1, 0] interior [0, 0, 0, 0, 0]
// LAST: nn.pad {{.*}} low [0, 1, 0, 0] high [0, 0, 1, 0] interior [0, 0, 0, 0]
func.func @main(%x: tensor<1x16x4x4xf32>, %u: tensor<16x16x1x1xf32>, %v: tensor<32x16x1x1xf32>, %w: tensor<32x32x1x1xf32>) -> tensor<1x32x5x5xf32> {
  %0 = nn.conv %x, %u strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x16x4x4xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32>
  %1 = nn.conv %0, %v strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x16x4x4xf32>, tensor<32x16x1x1xf32>) -> tensor<1x32x4x4xf32>
  %2 = nn.concat %0, %1 axis 1 : (tensor<1x16x4x4xf32>, tensor<1x32x4x4xf32>) -> tensor<1x48x4x4xf32>
  %3 = nn.slice %2 starts [0, 16, 0, 0] limits [1, 48, 4, 4] strides [1, 1, 1, 1] : tensor<1x48x4x4xf32> -> tensor<1x32x4x4xf32>
  %4 = nn.pad %3 low [0, 0, 1, 0] high [0, 0, 0, 1] interior [0, 0, 0, 0] : tensor<1x32x4x4xf32> -> tensor<1x32x5x5xf32>
  %5 = nn.conv %4, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x32x5x5xf32>, tensor<32x32x1x1xf32>) -> tensor<1x32x5x5xf32>
  return %5 : tensor<1x32x5x5xf32>
}

// -----

// A product needs the plain layout; without channels' operations nothing
// happens.

// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.reorder
// CHECK: return
func.func @main(%x: tensor<2x16x8xf32>, %w: tensor<2x8x16xf32>) -> tensor<2x16x16xf32> {
  %0 = nn.relu %x : tensor<2x16x8xf32>
  %1 = nn.dot_general %0, %w batch [0] x [0] contract [2] x [1] : (tensor<2x16x8xf32>, tensor<2x8x16xf32>) -> tensor<2x16x16xf32>
  return %1 : tensor<2x16x16xf32>
}

// -----

// Tokens that become an image, and tokens again: where channels are last, they
// lie so already, and nothing moves. The pixels of the image may be one axis.
// Tensors of more axes are no images.

// CHECK-LABEL: func.func @main
// LAST-NOT: nn.transpose
// LAST-NOT: nn.reorder
// LAST: %[[X:.*]] = nn.reshape %arg0 : tensor<2x16x32xf32> -> tensor<2x4x4x32xf32>
// LAST: %[[Y:.*]] = nn.conv %[[X]], %{{.*}} layout channels_last : (tensor<2x4x4x32xf32>, tensor<32x1x3x3xf32>) -> tensor<2x4x4x32xf32>
// LAST: %[[TOKENS:.*]] = nn.reshape %[[Y]] : tensor<2x4x4x32xf32> -> tensor<2x16x32xf32>
// LAST: %[[Z:.*]] = nn.conv %[[Y]]
// LAST-NOT: nn.reorder
// LAST: nn.transpose %arg3 [0, 2, 3, 4, 5, 1]
// LAST: nn.transpose %arg3 [0, 2, 3, 4, 5, 1]
// LAST: return %[[TOKENS]], %[[Z]]
// BLOCK: nn.transpose %{{.*}} [0, 3, 1, 2] : tensor<2x4x4x32xf32> -> tensor<2x32x4x4xf32>
// BLOCK: nn.conv %{{.*}} layout blocked16
// BLOCK: nn.transpose %{{.*}} [0, 2, 3, 1] : tensor<2x32x4x4xf32> -> tensor<2x4x4x32xf32>
func.func @main(%x: tensor<2x16x32xf32>, %w: tensor<32x1x3x3xf32>, %v: tensor<32x32x1x1xf32>, %u: tensor<2x3x2x2x2x2xf32>) -> (tensor<2x16x32xf32>, tensor<2x4x4x32xf32>, tensor<2x2x2x2x2x3xf32>, tensor<2x2x2x2x2x3xf32>) {
  %0 = nn.transpose %x [0, 2, 1] : tensor<2x16x32xf32> -> tensor<2x32x16xf32>
  %1 = nn.reshape %0 : tensor<2x32x16xf32> -> tensor<2x32x4x4xf32>
  %2 = nn.conv %1, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 32 : (tensor<2x32x4x4xf32>, tensor<32x1x3x3xf32>) -> tensor<2x32x4x4xf32>
  %3 = nn.reshape %2 : tensor<2x32x4x4xf32> -> tensor<2x32x16xf32>
  %4 = nn.transpose %3 [0, 2, 1] : tensor<2x32x16xf32> -> tensor<2x16x32xf32>
  %5 = nn.conv %2, %v strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x32x4x4xf32>, tensor<32x32x1x1xf32>) -> tensor<2x32x4x4xf32>
  %6 = nn.transpose %5 [0, 2, 3, 1] : tensor<2x32x4x4xf32> -> tensor<2x4x4x32xf32>
  %7 = nn.transpose %u [0, 2, 3, 4, 5, 1] : tensor<2x3x2x2x2x2xf32> -> tensor<2x2x2x2x2x3xf32>
  %8 = nn.transpose %u [0, 2, 3, 4, 5, 1] : tensor<2x3x2x2x2x2xf32> -> tensor<2x2x2x2x2x3xf32>
  return %4, %6, %7, %8 : tensor<2x16x32xf32>, tensor<2x4x4x32xf32>, tensor<2x2x2x2x2x3xf32>, tensor<2x2x2x2x2x3xf32>
}
