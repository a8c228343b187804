// What keeps a training from smaller batches.
// RUN: pp-opt %s --split-input-file --nn-rebatch | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-rebatch="microbatches=4 count-samples" | FileCheck %s --check-prefix=COUNT

// CHECK-LABEL: func.func @main
// CHECK-NOT: step.whole_batches
// CHECK: nn.exp
// COUNT-LABEL: func.func @main
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> tensor<8x4xf32> {
  %0 = nn.exp %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// No rows can be left out of it.
// CHECK-LABEL: func.func @main
// COUNT-LABEL: func.func @main
// CHECK-SAME: attributes {step.mixes_samples = "'most' mixes samples", step.whole_batches = "'most' mixes samples"}
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> tensor<4xf32> {
  %0 = nn.reduce max %x [0] : tensor<8x4xf32> -> tensor<4xf32> loc("most")
  return %0 : tensor<4xf32>
}

// -----

// A batch norm over 2 rows of each sample, and one over samples that are not in front.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: step.whole_batches = "'norm' normalises over the samples of a micro-batch"
// CHECK-NOT: rows
// COUNT-LABEL: func.func @main(
// COUNT-SAME: %[[C:[^:]+]]: tensor<5xi32> {step.feed = "random_counter", step.role = #step.role<random_counter>})
// COUNT-SAME: attributes {step.mixes_samples = "'norm' normalises over the samples of a micro-batch"} {
// COUNT: %[[ROWS:.+]] = nn.present_rows %[[C]] samples 8 rows 2
// COUNT: %{{.+}}, %[[MEAN:.+]], %[[VARIANCE:.+]] = nn.batch_norm {{.*}} rows %[[ROWS]] epsilon
// COUNT: %[[COUNT:.+]] = nn.present_rows %[[C]] samples 8 rows 1
// COUNT: %[[NUMBER:.+]] = nn.cast %[[COUNT]] {{.*}} -> tensor<f32>
// COUNT: %[[WEIGHT:.+]] = nn.broadcast %[[NUMBER]] [] {{.*}} -> tensor<3xf32>
// COUNT: %[[SUMMAND:.+]] = nn.mul %[[MEAN]], %[[WEIGHT]]
// COUNT: nn.accumulate statistics @m, %[[SUMMAND]]
// COUNT: nn.commit_statistics @m, @v momentum {{.*}} microbatches 4 elements 16 samples 8
ml_program.global private mutable @m(dense<0.0> : tensor<3xf32>) : tensor<3xf32>
ml_program.global private mutable @v(dense<1.0> : tensor<3xf32>) : tensor<3xf32>
func.func @main(%x: tensor<8x2x3xf32> {step.batched}) -> tensor<16x3xf32> {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  %r = nn.reshape %x : tensor<8x2x3xf32> -> tensor<16x3xf32>
  %y, %mean, %variance = nn.batch_norm %r, %s, %s epsilon 1.0e-5 : (tensor<16x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<16x3xf32>, tensor<3xf32>, tensor<3xf32>) loc("norm")
  nn.accumulate statistics @m, %mean : tensor<3xf32>
  nn.accumulate statistics @v, %variance : tensor<3xf32>
  nn.commit_statistics @m, @v momentum 0.1 microbatches 1 elements 16
  return %y : tensor<16x3xf32>
}

// -----

// CHECK-LABEL: func.func @main
// COUNT-LABEL: func.func @main
// COUNT-SAME: step.whole_batches = "'norm' mixes samples"
// COUNT-NOT: nn.present_rows
func.func @main(%x: tensor<8x4x3xf32> {step.batched}) -> tensor<4x3x8xf32> {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  %t = nn.transpose %x [1, 2, 0] : tensor<8x4x3xf32> -> tensor<4x3x8xf32>
  %y, %mean, %variance = nn.batch_norm %t, %s, %s epsilon 1.0e-5 : (tensor<4x3x8xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x8xf32>, tensor<3xf32>, tensor<3xf32>) loc("norm")
  return %y : tensor<4x3x8xf32>
}
