// RUN: pp-opt %s --nn-mixed-precision=norms | FileCheck %s
// RUN: pp-opt %s --nn-mixed-precision | FileCheck %s --check-prefix=LONG
// RUN: pp-opt %s --nn-mixed-precision="type=f16 norms" | FileCheck %s --check-prefix=LONG

// The norm of a product's result reads and writes bf16, and so does its
// derivative; that of an input, which nobody has rounded, stays f32.
// CHECK: %[[Y:.+]] = nn.conv {{.*}} -> tensor<2x4x6x6xbf16>
// CHECK: %[[N:[a-z_0-9]+]], %[[M:[a-z_0-9]+]], %[[V:[a-z_0-9]+]] = nn.batch_norm %[[Y]], %{{.+}}, %{{.+}} epsilon {{.*}} : (tensor<2x4x6x6xbf16>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x6x6xbf16>, tensor<4xf32>, tensor<4xf32>)
// CHECK: %[[WIDE:.+]] = nn.cast %[[N]] : tensor<2x4x6x6xbf16> -> tensor<2x4x6x6xf32>
// CHECK: nn.relu %[[WIDE]]
// CHECK: %[[G:.+]] = nn.cast %{{.+}} : tensor<2x4x6x6xf32> -> tensor<2x4x6x6xbf16>
// CHECK: nn.batch_norm_backward %[[Y]], %[[G]], %[[M]], %[[V]], {{.*}} -> (tensor<2x4x6x6xbf16>, tensor<4xf32>, tensor<4xf32>)
// CHECK: nn.batch_norm %arg0, {{.*}} -> (tensor<2x3x6x6xf32>
// LONG-COUNT-2: nn.batch_norm{{.*}}xf32>, tensor<4xf32>{{.*}} -> (tensor<2x4x6x6xf32>
func.func @main(%x: tensor<2x3x6x6xf32>, %w: tensor<4x3x1x1xf32>, %s: tensor<4xf32>, %t: tensor<3xf32>) -> (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<2x3x6x6xf32>) {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32>
  %1:3 = nn.batch_norm %0, %s, %s epsilon 1.0e-5 : (tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>)
  %2 = nn.relu %1#0 : tensor<2x4x6x6xf32>
  %3 = nn.exp %2 : tensor<2x4x6x6xf32>
  %4:3 = nn.batch_norm_backward %0, %3, %1#1, %1#2, %s epsilon 1.0e-5 : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>)
  %5:3 = nn.batch_norm %x, %t, %t epsilon 1.0e-5 : (tensor<2x3x6x6xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x6x6xf32>, tensor<3xf32>, tensor<3xf32>)
  return %2, %4#0, %5#0 : tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<2x3x6x6xf32>
}
