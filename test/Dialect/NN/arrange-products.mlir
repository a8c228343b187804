// RUN: pp-opt %s -split-input-file --nn-arrange-products | FileCheck %s

// The smaller factor moves.

// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = nn.transpose %arg1 [1, 0, 2] {step.origin = 3 : i64, step.phase = #step.phase<backward_weight>} : tensor<4x128x32xf32> -> tensor<128x4x32xf32>
// CHECK: nn.dot_general %arg0, %[[T]] batch [] x [] contract [0, 1] x [0, 1] {step.origin = 3 : i64, step.phase = #step.phase<backward_weight>}
func.func @main(%a: tensor<128x4x96xf32>, %b: tensor<4x128x32xf32>) -> tensor<96x32xf32> {
  %0 = nn.dot_general %a, %b batch [] x [] contract [0, 1] x [1, 0] {step.origin = 3 : i64, step.phase = #step.phase<backward_weight>} : (tensor<128x4x96xf32>, tensor<4x128x32xf32>) -> tensor<96x32xf32>
  return %0 : tensor<96x32xf32>
}

// -----

// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = nn.transpose %arg0 [2, 1, 0] : tensor<128x4x32xf32> -> tensor<32x4x128xf32>
// CHECK: nn.dot_general %[[T]], %arg1 batch [] x [] contract [1, 2] x [0, 1]
func.func @main(%a: tensor<128x4x32xf32>, %b: tensor<4x128x96xf32>) -> tensor<32x96xf32> {
  %0 = nn.dot_general %a, %b batch [] x [] contract [0, 1] x [1, 0] : (tensor<128x4x32xf32>, tensor<4x128x96xf32>) -> tensor<32x96xf32>
  return %0 : tensor<32x96xf32>
}

// -----

// Neither the free axes of one factor nor those of the other lie side by side.

// CHECK-LABEL: func.func @main
// CHECK: nn.transpose
// CHECK: nn.transpose
// CHECK: nn.dot_general {{.*}} contract [2, 3] x [0, 1]
func.func @main(%a: tensor<5x7x6x8xf32>, %b: tensor<8x3x7x2xf32>) -> tensor<5x6x3x2xf32> {
  %0 = nn.dot_general %a, %b batch [] x [] contract [1, 3] x [2, 0] : (tensor<5x7x6x8xf32>, tensor<8x3x7x2xf32>) -> tensor<5x6x3x2xf32>
  return %0 : tensor<5x6x3x2xf32>
}

// -----

// What the library reads, and what it has no kernel for, stays.

// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.transpose
// CHECK: return
func.func @main(%a: tensor<128x4x96xf32>, %b: tensor<128x4x32xf32>, %c: tensor<128x4x96xf64>, %d: tensor<4x128x32xf64>) -> (tensor<96x32xf32>, tensor<96x32xf64>) {
  %0 = nn.dot_general %a, %b batch [] x [] contract [0, 1] x [0, 1] : (tensor<128x4x96xf32>, tensor<128x4x32xf32>) -> tensor<96x32xf32>
  %1 = nn.dot_general %c, %d batch [] x [] contract [0, 1] x [1, 0] : (tensor<128x4x96xf64>, tensor<4x128x32xf64>) -> tensor<96x32xf64>
  return %0, %1 : tensor<96x32xf32>, tensor<96x32xf64>
}
