// RUN: pp-opt %s --nn-mixed-precision | FileCheck %s
// RUN: pp-opt %s --nn-mixed-precision=type=f16 | FileCheck %s
// RUN: pp-opt %s --nn-mixed-precision=type=tf32 | FileCheck %s

// Sums of whole numbers are larger than short types hold.
// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.cast
// CHECK: nn.dot_general %arg0, %arg1 batch [] x [] contract [1] x [0] {nn.exact} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
// CHECK-NOT: nn.cast
// CHECK: nn.conv {{.*}} {nn.exact} : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x6x6xf32>
// CHECK-NOT: nn.cast
func.func @main(%a: tensor<8x64xf32>, %b: tensor<64x32xf32>, %x: tensor<2x16x8x8xf32>, %w: tensor<16x16x3x3xf32>) -> (tensor<8x32xf32>, tensor<2x16x6x6xf32>) {
  %0 = nn.dot_general %a, %b batch [] x [] contract [1] x [0] {nn.exact} : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %1 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 {nn.exact} : (tensor<2x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<2x16x6x6xf32>
  return %0, %1 : tensor<8x32xf32>, tensor<2x16x6x6xf32>
}
