// RUN: pp-opt %s --split-input-file --nn-hoist-preparation | FileCheck %s

// The casts of one weight become one, also those of equal views, which are no
// kernels. They have no origin: their stages are those of their readers.
// CHECK: %[[W:.+]] = nn.parameter @w
// CHECK-NEXT: %[[W16:.+]] = nn.cast %[[W]] {step.phase = #step.phase<prepare>}
// CHECK-NEXT: %[[Y:.+]] = nn.dot_general %arg0, %[[W16]]
// CHECK-NEXT: nn.dot_general %[[Y]], %[[W16]] {{.*}}#step.phase<backward_input>
// CHECK-NEXT: %[[V:.+]] = nn.reshape %[[W]]
// CHECK-NEXT: %[[V16:.+]] = nn.cast %[[V]] {step.phase = #step.phase<prepare>}
// CHECK-NEXT: nn.reshape %[[W]]
// CHECK-NEXT: nn.dot_general %arg0, %[[V16]]
// CHECK-NEXT: nn.dot_general %arg0, %[[V16]] {{.*}}#step.phase<backward_input>
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<8x8xf32>) : tensor<8x8xf32>
  func.func @main(%x: tensor<2x8xbf16> {step.feed = "x"}) -> (tensor<2x8xbf16>, tensor<2x8xbf16>, tensor<2x4x2xbf16>, tensor<2x4x2xbf16>) {
    %w = nn.parameter @w : tensor<8x8xf32>
    %w16 = nn.cast %w {step.phase = #step.phase<forward>, step.origin = 1 : i64, step.stage_hint = 1 : i64} : tensor<8x8xf32> -> tensor<8x8xbf16>
    %y = nn.dot_general %x, %w16 batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>, step.origin = 2 : i64} : (tensor<2x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8xbf16>
    %again = nn.cast %w {step.phase = #step.phase<backward_input>, step.origin = 2 : i64} : tensor<8x8xf32> -> tensor<8x8xbf16>
    %z = nn.dot_general %y, %again batch [] x [] contract [1] x [1] {step.phase = #step.phase<backward_input>, step.origin = 2 : i64} : (tensor<2x8xbf16>, tensor<8x8xbf16>) -> tensor<2x8xbf16>
    %v = nn.reshape %w : tensor<8x8xf32> -> tensor<8x4x2xf32>
    %v16 = nn.cast %v {step.phase = #step.phase<forward>} : tensor<8x4x2xf32> -> tensor<8x4x2xbf16>
    %u = nn.reshape %w : tensor<8x8xf32> -> tensor<8x4x2xf32>
    %u16 = nn.cast %u {step.phase = #step.phase<backward_input>} : tensor<8x4x2xf32> -> tensor<8x4x2xbf16>
    %a = nn.dot_general %x, %v16 batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<2x8xbf16>, tensor<8x4x2xbf16>) -> tensor<2x4x2xbf16>
    %b = nn.dot_general %x, %u16 batch [] x [] contract [1] x [0] {step.phase = #step.phase<backward_input>} : (tensor<2x8xbf16>, tensor<8x4x2xbf16>) -> tensor<2x4x2xbf16>
    return %y, %z, %a, %b : tensor<2x8xbf16>, tensor<2x8xbf16>, tensor<2x4x2xbf16>, tensor<2x4x2xbf16>
  }
}

// -----

// What is made of prepared values is prepared too. Not what readers have copies
// of, what is much larger than what it is made of, what reads that, and what
// the step returns.
// CHECK: nn.transpose {{.*}}#step.phase<prepare>
// CHECK-NEXT: nn.exp {{.*}}#step.phase<prepare>
// CHECK-NOT: prepare
// CHECK: nn.broadcast
// CHECK-NOT: prepare
// CHECK: nn.concat
// CHECK-NOT: prepare
// CHECK: nn.relu
// CHECK-NOT: prepare
// CHECK: nn.neg
// CHECK-NOT: prepare
// CHECK: return
module {
  ml_program.global private @v(dense<0.5> : tensor<2x3xf32>) : tensor<2x3xf32>
  func.func @main(%x: tensor<3x2xf32> {step.feed = "x"}) -> (tensor<3x2xf32>, tensor<2x9xf32>, tensor<2x3xf32>) {
    %v = nn.parameter @v : tensor<2x3xf32>
    %t = nn.transpose %v [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
    %e = nn.exp %t : tensor<3x2xf32>
    %c = nn.constant dense<2.0> : tensor<f32>
    %s = nn.broadcast %c [] : tensor<f32> -> tensor<3x2xf32>
    %m = nn.mul %x, %e : tensor<3x2xf32>
    %y = nn.mul %m, %s : tensor<3x2xf32>
    %l = nn.concat %v, %v, %v axis 1 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x9xf32>
    %k = nn.relu %l : tensor<2x9xf32>
    %n = nn.neg %v : tensor<2x3xf32>
    return %y, %k, %n : tensor<3x2xf32>, tensor<2x9xf32>, tensor<2x3xf32>
  }
}

// -----

// A library and a view read what is cheap from memory, which must be filled as
// early: they get copies of their own.
// CHECK: %[[ZERO:.+]] = nn.constant {{.*}}#step.phase<prepare>
// CHECK: %[[ALL:.+]] = nn.broadcast %[[ZERO]] [] {{.*}}#step.phase<prepare>
// CHECK: %[[VIEW:.+]] = nn.reshape %[[ALL]] {{.*}}#step.phase<prepare>
// CHECK: nn.dot_general %[[VIEW]], {{.*}}#step.phase<prepare>
// CHECK: nn.mul %arg0, %{{.+}} {step.phase = #step.phase<forward>}
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<8x8xf32>) : tensor<8x8xf32>
  func.func @main(%x: tensor<16xf32> {step.feed = "x"}) -> (tensor<16xf32>, tensor<2x8xf32>) {
    %w = nn.parameter @w : tensor<8x8xf32>
    %zero = nn.constant dense<0.0> : tensor<f32>
    %all = nn.broadcast %zero [] {step.phase = #step.phase<forward>, step.origin = 1 : i64} : tensor<f32> -> tensor<16xf32>
    %view = nn.reshape %all : tensor<16xf32> -> tensor<2x8xf32>
    %state = nn.dot_general %view, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>, step.origin = 2 : i64} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %y = nn.mul %x, %all {step.phase = #step.phase<forward>} : tensor<16xf32>
    %z = nn.exp %state {step.phase = #step.phase<forward>} : tensor<2x8xf32>
    return %y, %z : tensor<16xf32>, tensor<2x8xf32>
  }
}
