// RUN: pp-opt %s --split-input-file --nn-rebatch | FileCheck %s

// Where the batch stays, results are still marked: those with the samples on
// axis 0, and nothing else there.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<8x4xf32> {step.batched}, tensor<4x8xf32>, tensor<8xf32>)
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> (tensor<8x4xf32>, tensor<4x8xf32>, tensor<8xf32>) {
  %0 = nn.relu %x : tensor<8x4xf32>
  %1 = nn.transpose %x [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %2 = nn.constant dense<1.0> : tensor<8xf32>
  return %0, %1, %2 : tensor<8x4xf32>, tensor<4x8xf32>, tensor<8xf32>
}

// -----

// Samples that are mixed are not followed; then the rows of a result count.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<8x4xf32> {step.batched}, tensor<2x16xf32>)
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> (tensor<8x4xf32>, tensor<2x16xf32>) {
  %0 = nn.reshape %x : tensor<8x4xf32> -> tensor<2x16xf32>
  %1 = nn.softmax %0 : tensor<2x16xf32>
  %2 = nn.reshape %1 : tensor<2x16xf32> -> tensor<8x4xf32>
  return %2, %1 : tensor<8x4xf32>, tensor<2x16xf32>
}
