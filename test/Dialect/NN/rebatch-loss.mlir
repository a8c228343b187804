// RUN: pp-opt %s --split-input-file --nn-rebatch="batch=2 microbatches=4 loss=loss" | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-rebatch="batch=8 microbatches=1 loss=loss" | FileCheck %s --check-prefix=WHOLE

// A mean over all samples: a micro-batch has its part, since the divisor is
// that of a mini-batch.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<f32> {step.added, step.fetch = "loss"})
// CHECK: %[[SUM:.*]] = nn.reduce sum %{{.*}} [0, 1] : tensor<2x4xf32> -> tensor<f32>
// CHECK: %[[MEAN:.*]] = nn.mul %[[SUM]], %{{.*}}
// CHECK: return %[[MEAN]]
// WHOLE-LABEL: func.func @main(
// WHOLE-SAME: -> (tensor<f32> {step.fetch = "loss"})
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> (tensor<f32> {step.fetch = "loss"}) {
  %0 = nn.mul %x, %x : tensor<8x4xf32>
  %1 = nn.reduce sum %0 [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %2 = nn.constant dense<3.125e-02> : tensor<f32>
  %3 = nn.mul %1, %2 : tensor<f32>
  return %3 : tensor<f32>
}

// -----

// Of what is not of samples each micro-batch has its share; what is linear is
// followed.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<1xf32> {step.added, step.fetch = "loss"})
// CHECK: %[[SUM:.*]] = nn.reduce sum %{{.*}} [0] : tensor<2x4xf32> -> tensor<4xf32>
// CHECK: %[[NEG:.*]] = nn.neg %[[SUM]]
// CHECK: %[[SCALED:.*]] = nn.div %[[NEG]], %{{.*}}
// CHECK: %[[TOTAL:.*]] = nn.reduce sum %[[SCALED]] [0] : tensor<4xf32> -> tensor<f32>
// CHECK: %[[SHARE:.*]] = nn.constant dense<2.500000e-01>
// CHECK: %[[PENALTY:.*]] = nn.mul %{{.*}}, %[[SHARE]]
// CHECK: %[[LOSS:.*]] = nn.add %[[TOTAL]], %[[PENALTY]]
// CHECK: nn.reshape %[[LOSS]]
func.func @main(%x: tensor<8x4xf32> {step.batched}, %w: tensor<4xf32>) -> (tensor<1xf32> {step.fetch = "loss"}) {
  %0 = nn.reduce sum %x [0] : tensor<8x4xf32> -> tensor<4xf32>
  %1 = nn.neg %0 : tensor<4xf32>
  %2 = nn.div %1, %w : tensor<4xf32>
  %3 = nn.reduce sum %2 [0] : tensor<4xf32> -> tensor<f32>
  %4 = nn.reduce sum %w [0] : tensor<4xf32> -> tensor<f32>
  %5 = nn.add %3, %4 : tensor<f32>
  %6 = nn.reshape %5 : tensor<f32> -> tensor<1xf32>
  return %6 : tensor<1xf32>
}
