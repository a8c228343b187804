// RUN: pp-opt %s --split-input-file --nn-rebatch="batch=2 separate-results=3" | FileCheck %s

// Rows of a sample lie beside each other.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<2x5x7xf32> {step.batched, step.fetch = "y", step.samples = array<i64: 0, 1, 5>})
func.func @main(%x: tensor<8x5x7xf32> {step.batched}) -> (tensor<40x7xf32> {step.fetch = "y"}) {
  // CHECK: %[[ROWS:.+]] = nn.reshape {{.*}} -> tensor<10x7xf32>
  %0 = nn.reshape %x : tensor<8x5x7xf32> -> tensor<40x7xf32>
  // CHECK: %[[Y:.+]] = nn.reshape %[[ROWS]] : tensor<10x7xf32> -> tensor<2x5x7xf32>
  // CHECK: return %[[Y]]
  return %0 : tensor<40x7xf32>
}

// -----

// Or the samples of a row do.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<2x5x7xf32> {step.batched, step.samples = array<i64: 0, 5, 1>})
func.func @main(%x: tensor<8x5x7xf32> {step.batched}) -> tensor<40x7xf32> {
  %0 = nn.transpose %x [1, 0, 2] : tensor<8x5x7xf32> -> tensor<5x8x7xf32>
  // CHECK: %[[ROWS:.+]] = nn.reshape {{.*}} -> tensor<10x7xf32>
  %1 = nn.reshape %0 : tensor<5x8x7xf32> -> tensor<40x7xf32>
  // CHECK: %[[SPLIT:.+]] = nn.reshape %[[ROWS]] : tensor<10x7xf32> -> tensor<5x2x1x7xf32>
  // CHECK: %[[FIRST:.+]] = nn.transpose %[[SPLIT]] [1, 0, 2, 3]
  // CHECK: nn.reshape %[[FIRST]] : tensor<2x5x1x7xf32> -> tensor<2x5x7xf32>
  return %1 : tensor<40x7xf32>
}

// -----

// An axis of samples that is not the first one.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<2x5x7xf32> {step.batched, step.samples = array<i64: 1, 1, 1>})
func.func @main(%x: tensor<8x5x7xf32> {step.batched}) -> tensor<5x8x7xf32> {
  %0 = nn.transpose %x [1, 0, 2] : tensor<8x5x7xf32> -> tensor<5x8x7xf32>
  return %0 : tensor<5x8x7xf32>
}

// -----

// One more axis would be more than three.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> tensor<10x7x3xf32>
func.func @main(%x: tensor<8x5x7x3xf32> {step.batched}) -> tensor<40x7x3xf32> {
  %0 = nn.reshape %x : tensor<8x5x7x3xf32> -> tensor<40x7x3xf32>
  return %0 : tensor<40x7x3xf32>
}
