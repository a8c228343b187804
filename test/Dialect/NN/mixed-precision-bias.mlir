// A bias is added to a product before the sum is rounded.
// RUN: pp-opt %s --nn-mixed-precision | FileCheck %s

module {
  ml_program.global private mutable @w(dense<0.5> : tensor<8x4xf32>) : tensor<8x4xf32>
  ml_program.global private mutable @b(dense<0.5> : tensor<8xf32>) : tensor<8xf32>
  ml_program.global private mutable @c(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  // CHECK-LABEL: func @main
  // CHECK: %[[Y:.+]] = nn.dot_general {{.*}} : (tensor<2x4xbf16>, tensor<8x4xbf16>) -> tensor<2x8xf32>
  // CHECK-NEXT: %[[B:.+]] = nn.broadcast {{.*}} : tensor<8xf32> -> tensor<2x8xf32>
  // CHECK-NEXT: %[[S:.+]] = nn.add %[[Y]], %[[B]]
  // CHECK-NEXT: nn.cast %[[S]] {{.*}} : tensor<2x8xf32> -> tensor<2x8xbf16>

  func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
    %w = nn.parameter @w : tensor<8x4xf32>
    %b = nn.parameter @b : tensor<8xf32>
    %y = nn.dot_general %x, %w batch [] x [] contract [1] x [1] {step.phase = #step.phase<forward>, step.origin = 0 : i64} : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
    %bs = nn.broadcast %b [1] {step.phase = #step.phase<forward>, step.origin = 1 : i64} : tensor<8xf32> -> tensor<2x8xf32>
    %s = nn.add %y, %bs {step.phase = #step.phase<forward>, step.origin = 2 : i64} : tensor<2x8xf32>
    // What other arithmetic reads gets the product in its short form, and the bias as it is.
    // CHECK: %[[Z:.+]] = nn.dot_general {{.*}} -> tensor<2x4xbf16>
    // CHECK: nn.cast %[[Z]] {{.*}} -> tensor<2x4xf32>
    %z = nn.dot_general %s, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>, step.origin = 3 : i64} : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
    %c = nn.parameter @c : tensor<4xf32>
    %cs = nn.broadcast %c [1] {step.phase = #step.phase<forward>, step.origin = 4 : i64} : tensor<4xf32> -> tensor<2x4xf32>
    %u = nn.add %z, %cs {step.phase = #step.phase<forward>, step.origin = 5 : i64} : tensor<2x4xf32>
    %r = nn.relu %u {step.phase = #step.phase<forward>, step.origin = 6 : i64} : tensor<2x4xf32>
    return %r, %u : tensor<2x4xf32>, tensor<2x4xf32>
  }
}
