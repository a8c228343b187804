// RUN: pp-opt %s --split-input-file --nn-expand-norms | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-expand-norms --nn-form-kernels | FileCheck %s --check-prefix=KERNELS

// In blocks; a hint stays, and short numbers are computed with as f32.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<2x2x4x4x16xbf16>, %[[S:.*]]: tensor<32xf32>)
// CHECK: %[[MEAN:.*]], %[[VARIANCE:.*]] = nn.channel_moments %[[X]] layout blocked16 {stage = 1 : i64, step.origin = 7 : i64}
// What is differentiated belongs to the first kernel.
// CHECK-NOT: step.origin
// CHECK: %[[SUM:.*]] = nn.add %[[VARIANCE]],
// CHECK: %[[DEVIATION:.*]] = nn.sqrt %[[SUM]]
// CHECK: %[[FACTOR:.*]] = nn.div %[[S]], %[[DEVIATION]]
// CHECK: %[[WIDE:.*]] = nn.cast %[[X]] {{.*}} -> tensor<2x2x4x4x16xf32>
// CHECK: %[[BLOCKS:.*]] = nn.reshape %[[MEAN]] {{.*}} -> tensor<2x16xf32>
// CHECK: %[[ALL:.*]] = nn.broadcast %[[BLOCKS]] [1, 4] {stage = 1 : i64}
// CHECK: nn.sub %[[WIDE]], %[[ALL]]
// CHECK: nn.reshape %[[FACTOR]]
// CHECK: %[[Y:.*]] = nn.cast {{.*}} -> tensor<2x2x4x4x16xbf16>
// CHECK: return %[[Y]], %[[MEAN]], %[[VARIANCE]]
//
// What follows the norm is in its kernel.
// KERNELS-LABEL: func.func @main(
// KERNELS: nn.kernel
// KERNELS-NEXT: nn.channel_moments
// KERNELS-NEXT: nn.yield
// KERNELS: nn.kernel
// KERNELS: nn.sqrt
// KERNELS: nn.kernel
// KERNELS: nn.sub
// KERNELS-NOT: nn.kernel
// KERNELS: nn.relu
// KERNELS: return
func.func @main(%x: tensor<2x2x4x4x16xbf16>, %s: tensor<32xf32>) -> (tensor<2x2x4x4x16xbf16>, tensor<32xf32>, tensor<32xf32>, tensor<2x2x4x4x16xf32>) {
  %y, %m, %v = nn.batch_norm %x, %s, %s epsilon 1.0e-5 layout blocked16 {stage = 1 : i64, step.origin = 7 : i64} : (tensor<2x2x4x4x16xbf16>, tensor<32xf32>, tensor<32xf32>) -> (tensor<2x2x4x4x16xbf16>, tensor<32xf32>, tensor<32xf32>)
  %w = nn.cast %y {stage = 1 : i64} : tensor<2x2x4x4x16xbf16> -> tensor<2x2x4x4x16xf32>
  %z = nn.relu %w {stage = 1 : i64} : tensor<2x2x4x4x16xf32>
  return %y, %m, %v, %z : tensor<2x2x4x4x16xbf16>, tensor<32xf32>, tensor<32xf32>, tensor<2x2x4x4x16xf32>
}

// -----

// The derivative; all that runs over the image is one kernel.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x4x24xf32>, %[[G:.*]]: tensor<2x4x4x24xf32>, %[[S:.*]]: tensor<24xf32>)
// CHECK: %[[SUM:.*]], %[[WEIGHTED:.*]] = nn.channel_sums %[[G]], %[[X]], %[[S]] layout channels_last
// CHECK: %[[SCALE:.*]] = nn.mul %[[WEIGHTED]],
// CHECK: nn.broadcast %[[S]] [3]
// CHECK: return %{{.*}}, %[[SCALE]], %[[SUM]]
// KERNELS-LABEL: func.func @main(
// KERNELS: nn.channel_sums
// KERNELS: nn.kernel{{.*}} -> tensor<2x4x4x24xf32> {
// KERNELS-NOT: nn.kernel
// KERNELS: return
func.func @main(%x: tensor<2x4x4x24xf32>, %g: tensor<2x4x4x24xf32>, %s: tensor<24xf32>) -> (tensor<2x4x4x24xf32>, tensor<24xf32>, tensor<24xf32>) {
  %y, %a, %b = nn.batch_norm_backward %x, %g, %s, %s, %s epsilon 1.0e-5 layout channels_last : (tensor<2x4x4x24xf32>, tensor<2x4x4x24xf32>, tensor<24xf32>, tensor<24xf32>, tensor<24xf32>) -> (tensor<2x4x4x24xf32>, tensor<24xf32>, tensor<24xf32>)
  return %y, %a, %b : tensor<2x4x4x24xf32>, tensor<24xf32>, tensor<24xf32>
}

// -----

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x5xf32>
// CHECK: %[[MEAN:.*]], %{{.*}} = nn.channel_moments %[[X]] :
// CHECK: nn.broadcast %[[MEAN]] [1]
func.func @main(%x: tensor<2x3x5xf32>, %s: tensor<3xf32>) -> tensor<2x3x5xf32> {
  %y, %m, %v = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : (tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x5xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y : tensor<2x3x5xf32>
}
