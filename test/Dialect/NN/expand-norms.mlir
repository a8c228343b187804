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

// -----

// Rows that do not count are in no sum, and have no gradient.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32>, %[[G:.*]]: tensor<4x3xf32>, %[[S:.*]]: tensor<3xf32>, %[[C:.*]]: tensor<5xi32>)
// CHECK: %[[ROWS:.+]] = nn.present_rows %[[C]]
// CHECK: nn.channel_moments %[[X]] rows %[[ROWS]]
// CHECK: nn.channel_sums %[[G]], %[[X]], %{{.+}} rows %[[ROWS]]
// CHECK: %[[COUNT:.+]] = nn.cast %[[ROWS]] : tensor<i32> -> tensor<f32>
// CHECK: %[[SHARE:.+]] = nn.div %{{.+}}, %[[COUNT]] : tensor<f32>
// CHECK: nn.broadcast %[[SHARE]] [] : tensor<f32> -> tensor<3xf32>
// CHECK: %[[NUMBER:.+]] = nn.iota 0 : tensor<4x3xi32>
// CHECK: %[[ALL:.+]] = nn.broadcast %[[ROWS]] [] {{.*}} -> tensor<4x3xi32>
// CHECK: %[[IS:.+]] = nn.compare lt %[[NUMBER]], %[[ALL]]
// CHECK: nn.select %[[IS]],
//
// All of it is code of the kernels that read it.
// KERNELS-LABEL: func.func @main(
// KERNELS-NOT: -> tensor<i32>
// KERNELS: nn.channel_moments
// KERNELS: nn.kernel{{.*}} -> tensor<4x3xf32> {
// KERNELS: nn.present_rows
// KERNELS: nn.compare
// KERNELS: nn.select
// KERNELS-NEXT: nn.yield
func.func @main(%x: tensor<4x3xf32>, %g: tensor<4x3xf32>, %s: tensor<3xf32>, %c: tensor<5xi32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %r = nn.present_rows %c samples 4 rows 1 : tensor<5xi32> -> tensor<i32>
  %y, %m, %v = nn.batch_norm %x, %s, %s rows %r epsilon 1.0e-5 : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %d, %a, %b = nn.batch_norm_backward %x, %g, %m, %v, %s rows %r epsilon 1.0e-5 : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %d : tensor<4x3xf32>, tensor<4x3xf32>
}
