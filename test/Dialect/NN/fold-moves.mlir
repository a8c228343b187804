// RUN: pp-opt %s --canonicalize | FileCheck %s

// What takes all, adds nothing or joins one is no operation.
// CHECK-LABEL: func.func @whole(
// CHECK-NEXT: %[[Y:.+]] = nn.exp %{{.+}} : tensor<2x3xf32>
// CHECK-NEXT: return %[[Y]]
func.func @whole(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.slice %x starts [0, 0] limits [2, 3] strides [1, 2] : tensor<2x3xf32> -> tensor<2x2xf32>
  %1 = nn.slice %x starts [0, 0] limits [2, 3] strides [1, 1] : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = nn.pad %1 low [0, 0] high [0, 0] interior [0, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = nn.concat %2 axis 1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = nn.exp %3 : tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @parts(
// CHECK: nn.slice
// CHECK: nn.pad
// CHECK: nn.concat
func.func @parts(%x: tensor<2x3xf32>) -> tensor<2x8xf32> {
  %0 = nn.slice %x starts [0, 1] limits [2, 3] strides [1, 1] : tensor<2x3xf32> -> tensor<2x2xf32>
  %1 = nn.pad %0 low [0, 1] high [0, 1] interior [0, 0] : tensor<2x2xf32> -> tensor<2x4xf32>
  %2 = nn.concat %1, %1 axis 1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}
