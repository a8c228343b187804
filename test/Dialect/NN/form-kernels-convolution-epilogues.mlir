// RUN: pp-opt %s --split-input-file --nn-form-kernels=convolution-epilogues | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-form-kernels | FileCheck %s --check-prefix=PLAIN

// Without the option, convolutions are alone.
// PLAIN: nn.conv
// PLAIN-NEXT: nn.yield

// A bias for each channel, and a ReLU.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<1x16x8x8xf32>, %[[W:[^:]+]]: tensor<32x16x3x3xf32>, %[[B:[^:]+]]: tensor<32xf32>)
func.func @main(%x: tensor<1x16x8x8xf32>, %w: tensor<32x16x3x3xf32>, %b: tensor<32xf32>) -> tensor<1x32x8x8xf32> {
  // CHECK-NEXT: %[[K:.+]] = nn.kernel(%[[A0:.+]] = %[[X]], %[[A1:.+]] = %[[W]], %[[A2:.+]] = %[[B]])
  // CHECK-NEXT:   %[[C:.+]] = nn.conv %[[A0]], %[[A1]]
  // CHECK-NEXT:   %[[BB:.+]] = nn.broadcast %[[A2]] [1]
  // CHECK-NEXT:   %[[S:.+]] = nn.add %[[C]], %[[BB]]
  // CHECK-NEXT:   %[[R:.+]] = nn.relu %[[S]]
  // CHECK-NEXT:   nn.yield %[[R]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return %[[K]]
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x8x8xf32>
  %1 = nn.broadcast %b [1] : tensor<32xf32> -> tensor<1x32x8x8xf32>
  %2 = nn.add %0, %1 : tensor<1x32x8x8xf32>
  %3 = nn.relu %2 : tensor<1x32x8x8xf32>
  return %3 : tensor<1x32x8x8xf32>
}

// -----

// Channels last, and two bounds in any order.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x8x8x16xf32>, %w: tensor<16x1x3x3xf32>, %b: tensor<16xf32>) -> tensor<1x8x8x16xf32> {
  // CHECK-NEXT: nn.kernel(
  // CHECK-NEXT:   nn.conv
  // CHECK:        nn.add
  // CHECK:        nn.minimum
  // CHECK:        %[[R:.+]] = nn.maximum
  // CHECK-NEXT:   nn.yield %[[R]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return
  %low = nn.constant dense<0.0> : tensor<1x8x8x16xf32>
  %high = nn.constant dense<6.0> : tensor<1x8x8x16xf32>
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 16 layout channels_last : (tensor<1x8x8x16xf32>, tensor<16x1x3x3xf32>) -> tensor<1x8x8x16xf32>
  %1 = nn.broadcast %b [3] : tensor<16xf32> -> tensor<1x8x8x16xf32>
  %2 = nn.add %1, %0 : tensor<1x8x8x16xf32>
  %3 = nn.minimum %2, %high : tensor<1x8x8x16xf32>
  %4 = nn.maximum %low, %3 : tensor<1x8x8x16xf32>
  return %4 : tensor<1x8x8x16xf32>
}

// -----

// In blocks the bias has two axes. It is taken in without an activation where
// no generated kernel reads the sum.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x1x8x8x16xf32>, %w: tensor<32x16x1x1xf32>, %b: tensor<2x16xf32>) -> tensor<1x2x8x8x16xf32> {
  // CHECK-NEXT: nn.kernel(
  // CHECK-NEXT:   nn.conv
  // CHECK-NEXT:   nn.broadcast
  // CHECK-NEXT:   %[[S:.+]] = nn.add
  // CHECK-NEXT:   nn.yield %[[S]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 layout blocked16 : (tensor<1x1x8x8x16xf32>, tensor<32x16x1x1xf32>) -> tensor<1x2x8x8x16xf32>
  %1 = nn.broadcast %b [1, 4] : tensor<2x16xf32> -> tensor<1x2x8x8x16xf32>
  %2 = nn.add %0, %1 : tensor<1x2x8x8x16xf32>
  return %2 : tensor<1x2x8x8x16xf32>
}

// -----

// A ReLU without a bias.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x16x8x8xf32>, %w: tensor<32x16x3x3xf32>) -> tensor<1x32x8x8xf32> {
  // CHECK-NEXT: nn.kernel(
  // CHECK-NEXT:   %[[C:.+]] = nn.conv
  // CHECK-NEXT:   %[[R:.+]] = nn.relu %[[C]]
  // CHECK-NEXT:   nn.yield %[[R]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x8x8xf32>
  %1 = nn.relu %0 : tensor<1x32x8x8xf32>
  return %1 : tensor<1x32x8x8xf32>
}

// -----

// A residual, and a ReLU behind it.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<1x16x8x8xf32>, %[[W:[^:]+]]: tensor<32x16x3x3xf32>, %[[B:[^:]+]]: tensor<32xf32>, %[[T:[^:]+]]: tensor<1x32x8x8xf32>)
func.func @main(%x: tensor<1x16x8x8xf32>, %w: tensor<32x16x3x3xf32>, %b: tensor<32xf32>, %t: tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32> {
  // CHECK-NEXT: %[[K:.+]] = nn.kernel(%[[A0:.+]] = %[[X]], %[[A1:.+]] = %[[W]], %[[A2:.+]] = %[[B]], %[[A3:.+]] = %[[T]])
  // CHECK-NEXT:   %[[C:.+]] = nn.conv %[[A0]], %[[A1]]
  // CHECK-NEXT:   %[[BB:.+]] = nn.broadcast %[[A2]] [1]
  // CHECK-NEXT:   %[[S:.+]] = nn.add %[[C]], %[[BB]]
  // CHECK-NEXT:   %[[R:.+]] = nn.add %[[A3]], %[[S]]
  // CHECK-NEXT:   %[[Y:.+]] = nn.relu %[[R]]
  // CHECK-NEXT:   nn.yield %[[Y]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return %[[K]]
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x8x8xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x8x8xf32>
  %1 = nn.broadcast %b [1] : tensor<32xf32> -> tensor<1x32x8x8xf32>
  %2 = nn.add %0, %1 : tensor<1x32x8x8xf32>
  %3 = nn.add %t, %2 : tensor<1x32x8x8xf32>
  %4 = nn.relu %3 : tensor<1x32x8x8xf32>
  return %4 : tensor<1x32x8x8xf32>
}

// -----

// The sum of two convolutions: the first takes in the result of the other, and
// runs after it. A sum that an elementwise operation reads is taken in, too.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<1x16x8x8xf32>, %[[V:[^:]+]]: tensor<16x16x1x1xf32>, %[[W:[^:]+]]: tensor<16x16x1x1xf32>, %[[B:[^:]+]]: tensor<16xf32>)
func.func @main(%x: tensor<1x16x8x8xf32>, %v: tensor<16x16x1x1xf32>, %w: tensor<16x16x1x1xf32>, %b: tensor<16xf32>) -> tensor<1x16x8x8xf32> {
  // CHECK-NEXT: %[[K:.+]] = nn.kernel(%{{.+}} = %[[X]], %{{.+}} = %[[W]], %{{.+}} = %[[B]])
  // CHECK-NEXT:   nn.conv
  // CHECK-NEXT:   nn.broadcast
  // CHECK-NEXT:   nn.add
  // CHECK-NEXT:   nn.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: %[[L:.+]] = nn.kernel(%{{.+}} = %[[X]], %{{.+}} = %[[V]], %{{.+}} = %[[K]])
  // CHECK-NEXT:   nn.conv
  // CHECK-NEXT:   nn.add
  // CHECK-NEXT:   nn.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.kernel(%{{.+}} = %[[L]])
  // CHECK-NEXT:   nn.tanh
  %0 = nn.conv %x, %v strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %1 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<1x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x8x8xf32>
  %2 = nn.broadcast %b [1] : tensor<16xf32> -> tensor<1x16x8x8xf32>
  %3 = nn.add %1, %2 : tensor<1x16x8x8xf32>
  %4 = nn.add %0, %3 : tensor<1x16x8x8xf32>
  %5 = nn.tanh %4 : tensor<1x16x8x8xf32>
  return %5 : tensor<1x16x8x8xf32>
}

// -----

// Generated code goes on from the bias where the residual is an input of the
// convolution already, or is no tensor.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x3x3xf32>, %b: tensor<16xf32>, %s: tensor<8xf32>) -> tensor<1x16x8x8xf32> {
  // CHECK: nn.conv
  // CHECK-NEXT: nn.yield
  // CHECK: nn.kernel(
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.relu
  // CHECK: nn.conv
  // CHECK-NEXT: nn.yield
  // CHECK: nn.kernel(
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.relu
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = nn.broadcast %b [1] : tensor<16xf32> -> tensor<1x16x8x8xf32>
  %2 = nn.add %0, %1 : tensor<1x16x8x8xf32>
  %3 = nn.add %2, %x : tensor<1x16x8x8xf32>
  %4 = nn.relu %3 : tensor<1x16x8x8xf32>
  %5 = nn.conv %4, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %6 = nn.broadcast %s [3] : tensor<8xf32> -> tensor<1x16x8x8xf32>
  %7 = nn.add %5, %6 : tensor<1x16x8x8xf32>
  %8 = nn.relu %7 : tensor<1x16x8x8xf32>
  return %8 : tensor<1x16x8x8xf32>
}

// -----

// What something else reads stays a result of the convolution: no bias along
// another axis, no bound that is no constant, no single bound, no bound that
// crosses the other one.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x16x8x8xf32>, %w: tensor<16x16x3x3xf32>, %b: tensor<8xf32>, %t: tensor<1x16x8x8xf32>)
    -> (tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>) {
  // CHECK: nn.conv
  // CHECK-NEXT: nn.yield
  // CHECK: nn.conv
  // CHECK-NEXT: nn.yield
  // CHECK: nn.conv
  // CHECK-NEXT: nn.yield
  %six = nn.constant dense<6.0> : tensor<1x16x8x8xf32>
  %seven = nn.constant dense<7.0> : tensor<1x16x8x8xf32>
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %1 = nn.broadcast %b [3] : tensor<8xf32> -> tensor<1x16x8x8xf32>
  %2 = nn.add %0, %1 : tensor<1x16x8x8xf32>
  %3 = nn.relu %2 : tensor<1x16x8x8xf32>
  %4 = nn.conv %3, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %5 = nn.maximum %4, %t : tensor<1x16x8x8xf32>
  %6 = nn.minimum %5, %six : tensor<1x16x8x8xf32>
  %7 = nn.conv %6, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x8x8xf32>, tensor<16x16x3x3xf32>) -> tensor<1x16x8x8xf32>
  %8 = nn.maximum %7, %seven : tensor<1x16x8x8xf32>
  %9 = nn.minimum %8, %six : tensor<1x16x8x8xf32>
  return %3, %6, %9 : tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>, tensor<1x16x8x8xf32>
}
