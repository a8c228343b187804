// RUN: pp-opt %s --nn-assign-layouts='layouts=blocked block-size=16' --nn-form-kernels | FileCheck %s --check-prefix=BLOCKED
// RUN: pp-opt %s --nn-assign-layouts=layouts=channels_last --nn-form-kernels | FileCheck %s --check-prefix=LAST

// Numbers between convolutions are drawn in their layout, by each reader for itself.
func.func @main(%x: tensor<2x32x8x8xf32>, %w: tensor<32x32x3x3xf32>, %c: tensor<5xi32>) -> tensor<2x32x8x8xf32> {
  %half = nn.constant dense<0.5> : tensor<2x32x8x8xf32>
  %zero = nn.constant dense<0.0> : tensor<2x32x8x8xf32>
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<2x32x8x8xf32>
  // BLOCKED: nn.uniform {{.*}} stream 0 samples [0, 1, 1] layout {{ ?}}blocked16 : tensor<5xi32> -> tensor<2x2x8x8x16xf32>
  // BLOCKED: nn.compare {{.*}} tensor<2x2x8x8x16xi1>
  // BLOCKED: nn.uniform {{.*}} stream 0 samples [0, 1, 1] layout {{ ?}}blocked16 : tensor<5xi32> -> tensor<2x2x8x8x16xf32>
  // LAST-COUNT-2: nn.uniform {{.*}} stream 0 samples [0, 1, 1] layout {{ ?}}channels_last : tensor<5xi32> -> tensor<2x8x8x32xf32>
  %u = nn.uniform %c stream 0 samples [0, 1, 1] : tensor<5xi32> -> tensor<2x32x8x8xf32>
  %m = nn.compare ge %u, %half : tensor<2x32x8x8xf32> -> tensor<2x32x8x8xi1>
  %1 = nn.select %m, %0, %zero : tensor<2x32x8x8xi1>, tensor<2x32x8x8xf32>
  %2 = nn.conv %1, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<2x32x8x8xf32>
  %3 = nn.select %m, %2, %zero : tensor<2x32x8x8xi1>, tensor<2x32x8x8xf32>
  %4 = nn.conv %3, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<2x32x8x8xf32>
  return %4 : tensor<2x32x8x8xf32>
}
