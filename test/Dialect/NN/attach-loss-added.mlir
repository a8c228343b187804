// RUN: split-file %s %t
// RUN: pp-opt %t/shared.mlir --nn-attach-loss="output=logits microbatches=2 added-losses=0.25*cross_entropy:auxiliary=target" | FileCheck %t/shared.mlir
// RUN: pp-opt %t/own.mlir --nn-attach-loss="loss=mse output=a added-losses=cross_entropy:b,2*l1:c" | FileCheck %t/own.mlir
// RUN: pp-opt %t/own.mlir --nn-attach-loss="output=b" | FileCheck %t/own.mlir --check-prefix=ONE
// RUN: pp-opt %t/text.mlir --verify-diagnostics --nn-attach-loss="added-losses=output:b"
// RUN: pp-opt %t/type.mlir --verify-diagnostics --nn-attach-loss="output=b added-losses=mse:c=target"

// Both losses have the same targets, and one weight that counts their labels.
//--- shared.mlir
// CHECK: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x3xf32> {step.feed = "x"}
// CHECK-SAME: %[[T:[^:]+]]: tensor<4xi64> {step.batched, step.compared = "logits", step.feed = "target"
// CHECK-SAME: %[[W:[^:]+]]: tensor<f32> {step.counted = "target", step.feed = "loss_weight"
// CHECK-SAME: -> (tensor<f32> {step.fetch = "loss"})
// CHECK: %[[L0:.+]], %{{.+}} = nn.softmax_cross_entropy %[[X]], %[[T]]
// CHECK: %[[M0:.+]] = nn.mul %[[L0]], %[[W]]
// CHECK: %[[L1:.+]], %{{.+}} = nn.softmax_cross_entropy %[[X]], %[[T]]
// CHECK: %[[M1:.+]] = nn.mul %[[L1]], %[[W]]
// CHECK: %[[C:.+]] = nn.constant dense<2.500000e-01>
// CHECK: %[[S:.+]] = nn.mul %[[M1]], %[[C]]
// CHECK: %[[SUM:.+]] = nn.add %[[M0]], %[[S]]
// CHECK: return %[[SUM]]
func.func @main(%x: tensor<4x3xf32> {step.feed = "x"}) -> (tensor<4x3xf32> {step.batched, step.fetch = "logits"}, tensor<4x3xf32> {step.batched, step.fetch = "auxiliary"}) {
  return %x, %x : tensor<4x3xf32>, tensor<4x3xf32>
}

// Targets and weights of their own, and one mask.
//--- own.mlir
// CHECK: func.func @main(
// CHECK-SAME: step.compared = "a", step.feed = "target"
// CHECK-SAME: step.feed = "sample_mask"
// CHECK-SAME: step.counted = "target", step.feed = "loss_weight"
// CHECK-SAME: step.compared = "b", step.feed = "target.b"
// CHECK-SAME: step.counted = "target.b", step.feed = "loss_weight.target.b"
// CHECK-SAME: step.compared = "c", step.feed = "target.c"
// CHECK-NOT: sample_mask
// CHECK-SAME: step.counted = "target.c", step.feed = "loss_weight.target.c"

// ONE: func.func @main(
// ONE-SAME: step.compared = "b", step.feed = "target"
// ONE-NOT: step.counted
// ONE: return
func.func @main(%x: tensor<4x3xf32> {step.feed = "x"}) -> (tensor<4x3xf32> {step.batched, step.fetch = "a"}, tensor<4x3xf32> {step.batched, step.fetch = "b"}, tensor<4x3xf32> {step.batched, step.fetch = "c"}) {
  return %x, %x, %x : tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}

//--- text.mlir
// expected-error@+1 {{cannot read the added loss 'output:b': expected [WEIGHT*]LOSS:OUTPUT[=TARGET]}}
func.func @main(%x: tensor<4x3xf32>) -> (tensor<4x3xf32> {step.fetch = "a"}, tensor<4x3xf32> {step.fetch = "b"}) {
  return %x, %x : tensor<4x3xf32>, tensor<4x3xf32>
}

//--- type.mlir
// expected-error@+1 {{the targets 'target' are 'tensor<4xi64>' to one loss and 'tensor<4x3xf32>' to another}}
func.func @main(%x: tensor<4x3xf32>) -> (tensor<4x3xf32> {step.fetch = "b"}, tensor<4x3xf32> {step.fetch = "c"}) {
  return %x, %x : tensor<4x3xf32>, tensor<4x3xf32>
}
