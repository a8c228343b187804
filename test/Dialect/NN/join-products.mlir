// RUN: pp-opt %s -split-input-file --nn-join-products | FileCheck %s
// RUN: pp-opt %s -split-input-file --nn-join-products=products=2 | FileCheck %s --check-prefix=TWO
// RUN: pp-opt %s -split-input-file --nn-join-products=terms=24 | FileCheck %s --check-prefix=TERMS

// The gradient of a recurrent weight. Products of neighbours in the sum become
// one, of the earliest step; so do the sums that are left.

// CHECK-LABEL: func.func @main
// CHECK: %[[D:.*]] = nn.concat %arg0, %arg1, %arg2 axis 0 {step.origin = 3 : i64, step.phase = #step.phase<backward_weight>} : (tensor<8x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<24x32xf32>
// CHECK: %[[H:.*]] = nn.concat %arg3, %arg4, %arg5 axis 0 {step.origin = 3 : i64
// CHECK: %[[W:.*]] = nn.dot_general %[[D]], %[[H]] batch [] x [] contract [0] x [0] {step.origin = 3 : i64, step.phase = #step.phase<backward_weight>}
// CHECK-NOT: nn.add
// CHECK: return %[[W]]
// TWO-LABEL: func.func @main
// TWO: nn.concat %arg0, %arg1 axis 0 {step.origin = 5 : i64
// TWO: nn.concat %arg3, %arg4 axis 0
// TWO: %[[W:.*]] = nn.dot_general
// TWO: nn.add %[[W]], %{{.*}} {step.origin = 3 : i64
// TERMS-LABEL: func.func @main
// TERMS: nn.concat %arg0, %arg1, %arg2 axis 0
func.func @main(%d1: tensor<8x32xf32>, %d2: tensor<8x32xf32>, %d3: tensor<8x32xf32>, %h1: tensor<8x16xf32>, %h2: tensor<8x16xf32>, %h3: tensor<8x16xf32>) -> tensor<32x16xf32> {
  %0 = nn.dot_general %d1, %h1 batch [] x [] contract [0] x [0] {step.origin = 7 : i64, step.phase = #step.phase<backward_weight>} : (tensor<8x32xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %1 = nn.dot_general %d2, %h2 batch [] x [] contract [0] x [0] {step.origin = 5 : i64, step.phase = #step.phase<backward_weight>} : (tensor<8x32xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %2 = nn.add %0, %1 {step.origin = 5 : i64, step.phase = #step.phase<backward_weight>} : tensor<32x16xf32>
  %3 = nn.dot_general %d3, %h3 batch [] x [] contract [0] x [0] {step.origin = 3 : i64, step.phase = #step.phase<backward_weight>} : (tensor<8x32xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %4 = nn.add %2, %3 {step.origin = 3 : i64, step.phase = #step.phase<backward_weight>} : tensor<32x16xf32>
  return %4 : tensor<32x16xf32>
}

// -----

// Not a product that something else reads, one of many terms, of other axes, of
// another phase; nor one alone.

// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.concat
// CHECK-COUNT-5: nn.dot_general
// CHECK-NOT: nn.concat
// CHECK: return
func.func @main(%d: tensor<8x32xf32>, %h: tensor<8x16xf32>, %e: tensor<300x32xf32>, %f: tensor<300x16xf32>, %t: tensor<32x8xf32>) -> (tensor<32x16xf32>, tensor<32x16xf32>) {
  %0 = nn.dot_general %d, %h batch [] x [] contract [0] x [0] {step.phase = #step.phase<backward_weight>} : (tensor<8x32xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %1 = nn.dot_general %e, %f batch [] x [] contract [0] x [0] {step.phase = #step.phase<backward_weight>} : (tensor<300x32xf32>, tensor<300x16xf32>) -> tensor<32x16xf32>
  %2 = nn.add %0, %1 {step.phase = #step.phase<backward_weight>} : tensor<32x16xf32>
  %3 = nn.dot_general %t, %h batch [] x [] contract [1] x [0] {step.phase = #step.phase<backward_weight>} : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %4 = nn.add %2, %3 {step.phase = #step.phase<backward_weight>} : tensor<32x16xf32>
  %5 = nn.dot_general %t, %h batch [] x [] contract [1] x [0] {step.phase = #step.phase<backward_input>} : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %6 = nn.add %4, %5 {step.phase = #step.phase<backward_weight>} : tensor<32x16xf32>
  %7 = nn.dot_general %d, %h batch [] x [] contract [0] x [0] {step.phase = #step.phase<backward_weight>} : (tensor<8x32xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  %8 = nn.add %6, %7 {step.phase = #step.phase<backward_weight>} : tensor<32x16xf32>
  return %8, %7 : tensor<32x16xf32>, tensor<32x16xf32>
}

// -----

// The gates of a recurrent network: weights are larger than what is added.

// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.concat
func.func @main(%x: tensor<8x16xf32>, %w: tensor<32x16xf32>, %h: tensor<8x16xf32>, %r: tensor<32x16xf32>) -> tensor<8x32xf32> {
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %1 = nn.dot_general %h, %r batch [] x [] contract [1] x [1] : (tensor<8x16xf32>, tensor<32x16xf32>) -> tensor<8x32xf32>
  %2 = nn.add %0, %1 : tensor<8x32xf32>
  return %2 : tensor<8x32xf32>
}
