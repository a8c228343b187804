// RUN: pp-opt %s --nn-pack-weights=uses=1 | FileCheck %s

// The steps of a recurrence share a packed copy of their weight, also where a
// step has a single micro-batch: four pay for packing it. Two do not, and
// another stage could borrow the weight of either.

// CHECK-LABEL: func.func @main
// CHECK: %[[W:.+]] = nn.parameter @w
// CHECK: %[[P:.+]] = nn.pack %[[W]] {step.phase = #step.phase<prepare>}
// CHECK-COUNT-4: nn.dot_general %{{.+}}, %[[P]]
// CHECK: %[[V:.+]] = nn.parameter @v
// CHECK-NOT: nn.pack
// CHECK-COUNT-2: nn.dot_general %{{.+}}, %[[V]]
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<128x128xf32>) : tensor<128x128xf32>
  ml_program.global private mutable @v(dense<0.5> : tensor<128x128xf32>) : tensor<128x128xf32>
  func.func @main(%x: tensor<64x128xf32> {step.feed = "x"}) -> tensor<64x128xf32> {
    %w = nn.parameter @w : tensor<128x128xf32>
    %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %1 = nn.dot_general %0, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %2 = nn.dot_general %1, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %3 = nn.dot_general %2, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %v = nn.parameter @v : tensor<128x128xf32>
    %4 = nn.dot_general %3, %v batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    %5 = nn.dot_general %4, %v batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>
    return %5 : tensor<64x128xf32>
  }
}
