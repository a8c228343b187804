// RUN: split-file %s %t
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="microbatches=4" | FileCheck %t/logits.mlir
// RUN: pp-opt %t/image.mlir --nn-attach-loss="ignore-index=-1" | FileCheck %t/image.mlir
// RUN: pp-opt %t/image.mlir --nn-attach-loss="class-axis=3" | FileCheck %t/image.mlir --check-prefix=LAST
// RUN: pp-opt %t/mse.mlir --nn-attach-loss="loss=mse output=b microbatches=2" | FileCheck %t/mse.mlir
// RUN: pp-opt %t/masked.mlir --nn-attach-loss="loss=mse microbatches=2" | FileCheck %t/masked.mlir

// The sum is divided by the number of labels of all micro-batches that count,
// which only the data tell.
//--- logits.mlir
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.+]]: tensor<2x10xf32> {step.feed = "x"}, %[[T:.+]]: tensor<2xi64> {step.batched, step.feed = "target", step.ignore_index = -100 : i64, step.range = array<i64: 0, 9>, step.role = #step.role<target>}, %[[W:.+]]: tensor<f32> {step.feed = "loss_weight", step.role = #step.role<loss_weight>})
// CHECK-SAME: -> (tensor<f32> {step.fetch = "loss"})
func.func @main(%x: tensor<2x10xf32> {step.feed = "x"}) -> (tensor<2x10xf32> {step.fetch = "y"}) {
  // CHECK-NEXT: %[[L:.+]], %{{.+}} = nn.softmax_cross_entropy %[[X]], %[[T]] {ignoreIndex = -100 : i64}
  // CHECK-NEXT: %[[R:.+]] = nn.mul %[[L]], %[[W]]
  // CHECK-NEXT: return %[[R]]
  return %x : tensor<2x10xf32>
}

// The classes of an image are on axis 1; rows want them last.
//--- image.mlir
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[T:.+]]: tensor<2x4x5xi64> {step.batched, step.feed = "target", step.ignore_index = -1 : i64, step.range = array<i64: 0, 2>
// CHECK-NEXT: nn.transpose %{{.+}} [0, 2, 3, 1] : tensor<2x3x4x5xf32> -> tensor<2x4x5x3xf32>
// CHECK-NEXT: nn.softmax_cross_entropy {{.*}} -> (tensor<f32>, tensor<2x4x5xf32>)
// LAST: tensor<2x3x4xi64> {step.batched, step.feed = "target"
// LAST-NEXT: nn.softmax_cross_entropy
func.func @main(%x: tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32> {
  return %x : tensor<2x3x4x5xf32>
}

// One of two outputs, the mean over all its elements: 1 / (2 x 5 x 2).
//--- mse.mlir
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[B:[^:]+]]: tensor<2x5xf32>, %[[T:[^:]+]]: tensor<2x5xf32> {step.batched, step.compared = "b", step.feed = "target", step.role = #step.role<target>}) -> (tensor<f32> {step.fetch = "loss"})
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x5xf32>) -> (tensor<2x3xf32> {step.fetch = "a"}, tensor<2x5xf32> {step.fetch = "b"}) {
  // CHECK-NEXT: %[[D:.+]] = nn.sub %[[B]], %[[T]]
  // CHECK-NEXT: %[[S:.+]] = nn.mul %[[D]], %[[D]]
  // CHECK-NEXT: %[[M:.+]] = nn.reduce sum %[[S]] [0, 1] : tensor<2x5xf32> -> tensor<f32>
  // CHECK-NEXT: %[[C:.+]] = nn.constant dense<5.000000e-02>
  // CHECK-NEXT: nn.mul %[[M]], %[[C]]
  return %a, %b : tensor<2x3xf32>, tensor<2x5xf32>
}

// Where the rows are samples, those behind the last one of a smaller batch count
// nothing, and the data tell by what the sum is divided.
//--- masked.mlir
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<2x5xf32>, %[[T:[^:]+]]: tensor<2x5xf32> {{{[^}]*}}}, %[[M:[^:]+]]: tensor<2xf32> {step.batched, step.feed = "sample_mask", step.role = #step.role<sample_mask>}, %[[W:[^:]+]]: tensor<f32> {step.feed = "loss_weight", step.role = #step.role<loss_weight>})
// CHECK-NOT: step.whole_batches
func.func @main(%x: tensor<2x5xf32>) -> (tensor<2x5xf32> {step.batched}) {
  // CHECK:      %[[D:.+]] = nn.sub %[[X]], %[[T]]
  // CHECK-NEXT: %[[R:.+]] = nn.broadcast %[[M]] [0]
  // CHECK-NEXT: %[[C:.+]] = nn.mul %[[D]], %[[R]]
  // CHECK-NEXT: %[[Q:.+]] = nn.mul %[[C]], %[[D]]
  // CHECK-NEXT: %[[S:.+]] = nn.reduce sum %[[Q]] [0, 1]
  // CHECK-NEXT: nn.mul %[[S]], %[[W]]
  return %x : tensor<2x5xf32>
}
