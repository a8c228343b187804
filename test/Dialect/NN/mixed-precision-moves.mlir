// Casts and what moves elements: values are moved in sixteen bits.
// RUN: pp-opt %s --split-input-file --nn-mixed-precision | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-mixed-precision=type=f16 | FileCheck %s --check-prefix=F16

// Three slices are rounded, so the value that they make up is, once; what joins
// three short results is short.
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<12x4xf32>) : tensor<12x4xf32>
  func.func @main(%x: tensor<2x4xf32>, %g: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %w = nn.parameter @w : tensor<12x4xf32>
    %y = nn.dot_general %x, %w batch [] x [] contract [1] x [1] {step.phase = #step.phase<forward>, step.origin = 0 : i64} : (tensor<2x4xf32>, tensor<12x4xf32>) -> tensor<2x12xf32>
    %s = nn.exp %y {step.phase = #step.phase<forward>, step.origin = 1 : i64} : tensor<2x12xf32>
    %q = nn.slice %s starts [0, 0] limits [2, 4] strides [1, 1] {step.phase = #step.phase<forward>, step.origin = 2 : i64} : tensor<2x12xf32> -> tensor<2x4xf32>
    %k = nn.slice %s starts [0, 4] limits [2, 8] strides [1, 1] {step.phase = #step.phase<forward>, step.origin = 3 : i64} : tensor<2x12xf32> -> tensor<2x4xf32>
    %v = nn.slice %s starts [0, 8] limits [2, 12] strides [1, 1] {step.phase = #step.phase<forward>, step.origin = 4 : i64} : tensor<2x12xf32> -> tensor<2x4xf32>
    %kt = nn.transpose %k [1, 0] {step.phase = #step.phase<forward>, step.origin = 5 : i64} : tensor<2x4xf32> -> tensor<4x2xf32>
    %p = nn.dot_general %q, %kt batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>, step.origin = 6 : i64} : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
    %o = nn.dot_general %p, %v batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>, step.origin = 7 : i64} : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %a = nn.dot_general %p, %g batch [] x [] contract [1] x [0] {step.phase = #step.phase<backward_input>, step.origin = 7 : i64} : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %b = nn.dot_general %p, %v batch [] x [] contract [1] x [0] {step.phase = #step.phase<backward_input>, step.origin = 6 : i64} : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %c = nn.dot_general %p, %k batch [] x [] contract [0] x [0] {step.phase = #step.phase<backward_input>, step.origin = 6 : i64} : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %d = nn.concat %a, %b, %c axis 1 {step.phase = #step.phase<backward_input>, step.origin = 2 : i64} : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x12xf32>
    %dw = nn.dot_general %d, %x batch [] x [] contract [0] x [0] {step.phase = #step.phase<backward_weight>, step.origin = 0 : i64} : (tensor<2x12xf32>, tensor<2x4xf32>) -> tensor<12x4xf32>
    nn.accumulate gradient @w, %dw {step.phase = #step.phase<backward_weight>, step.origin = 0 : i64} : tensor<12x4xf32>
    return %o : tensor<2x4xf32>
  }
}

// CHECK-LABEL: func.func @main(
// CHECK: %[[S:.+]] = nn.exp
// CHECK-NEXT: %[[S16:.+]] = nn.cast %[[S]] {step.origin = {{[0-9]+}} : i64, step.phase = #step.phase<forward>}
// CHECK-NEXT: %[[Q:.+]] = nn.slice %[[S16]] {{.*}} : tensor<2x12xbf16> -> tensor<2x4xbf16>
// CHECK-NEXT: %[[K:.+]] = nn.slice %[[S16]]
// CHECK-NEXT: %[[V:.+]] = nn.slice %[[S16]]
// CHECK-NEXT: %[[T:.+]] = nn.transpose %[[K]] {{.*}} : tensor<2x4xbf16> -> tensor<4x2xbf16>
// CHECK-NEXT: %[[P:.+]] = nn.dot_general %[[Q]], %[[T]]
// CHECK-NEXT: %[[O:.+]] = nn.dot_general %[[P]], %[[V]]
// CHECK-NEXT: %[[A:.+]] = nn.dot_general
// CHECK-NEXT: %[[B:.+]] = nn.dot_general
// CHECK-NEXT: %[[C:.+]] = nn.dot_general %[[P]], %[[K]]
// CHECK-NEXT: %[[D:.+]] = nn.concat %[[A]], %[[B]], %[[C]] axis 1 {{.*}} -> tensor<2x12xbf16>
// CHECK-NEXT: nn.dot_general %[[D]], {{.*}} -> tensor<12x4xf32>
// CHECK-NEXT: nn.accumulate
// CHECK-NEXT: nn.cast %[[O]]

// -----

// Two thirds of a value do not make up for rounding it all; a phase that reads
// the long value too would keep both. A reader of the long value in the same
// phase costs nothing but a write.
module {
  func.func @main(%x: tensor<2x12xf32>, %f: tensor<4x4xf32>, %h: tensor<4x12xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<6x4xf32>) {
    %s = nn.exp %x {step.phase = #step.phase<forward>} : tensor<2x12xf32>
    %q = nn.slice %s starts [0, 0] limits [2, 4] strides [1, 1] {step.phase = #step.phase<forward>} : tensor<2x12xf32> -> tensor<2x4xf32>
    %k = nn.slice %s starts [0, 4] limits [2, 8] strides [1, 1] {step.phase = #step.phase<forward>} : tensor<2x12xf32> -> tensor<2x4xf32>
    %0 = nn.dot_general %q, %f batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = nn.dot_general %k, %f batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>

    %u = nn.tanh %x {step.phase = #step.phase<forward>} : tensor<2x12xf32>
    %ut = nn.transpose %u [1, 0] {step.phase = #step.phase<backward_input>} : tensor<2x12xf32> -> tensor<12x2xf32>
    %un = nn.neg %u {step.phase = #step.phase<backward_input>} : tensor<2x12xf32>
    %2 = nn.dot_general %h, %ut batch [] x [] contract [1] x [0] {step.phase = #step.phase<backward_input>} : (tensor<4x12xf32>, tensor<12x2xf32>) -> tensor<4x2xf32>

    %z = nn.sin %x {step.phase = #step.phase<forward>} : tensor<2x12xf32>
    %zr = nn.reshape %z {step.phase = #step.phase<forward>} : tensor<2x12xf32> -> tensor<6x4xf32>
    %zn = nn.cos %z {step.phase = #step.phase<forward>} : tensor<2x12xf32>
    %3 = nn.dot_general %zr, %f batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
    return %0, %1, %2, %3 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<6x4xf32>
  }
}

// CHECK-LABEL: func.func @main(
// CHECK: %[[S:.+]] = nn.exp
// CHECK-NEXT: nn.slice %[[S]]
// CHECK-NEXT: nn.cast
// CHECK-NEXT: nn.slice %[[S]]
// CHECK-NEXT: nn.cast
// CHECK: %[[U:.+]] = nn.tanh
// CHECK-NEXT: %[[UT:.+]] = nn.transpose %[[U]] [1, 0] {{.*}} -> tensor<12x2xf32>
// CHECK-NEXT: nn.cast %[[UT]]
// CHECK-NEXT: nn.neg %[[U]]
// CHECK: %[[Z:.+]] = nn.sin
// CHECK-NEXT: %[[Z16:.+]] = nn.cast %[[Z]]
// CHECK-NEXT: nn.reshape %[[Z16]] {{.*}} -> tensor<6x4xbf16>
// CHECK-NEXT: nn.cos %[[Z]]

// -----

// Padding with numbers that both types hold (bf16 has 8 bits of 1.00390625,
// which has 9; f16 has 11). A gather moves rows, not its indices.
module {
  func.func @main(%x: tensor<2x4xf32>, %i: tensor<3xi64>, %f: tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<3x2xf32>) {
    %a = nn.exp %x : tensor<2x4xf32>
    %b = nn.sin %x : tensor<2x4xf32>
    %c = nn.cos %x : tensor<2x4xf32>
    %p = nn.pad %a low [0, 4] high [0, 0] interior [0, 0] {value = -2.5 : f64} : tensor<2x4xf32> -> tensor<2x8xf32>
    %q = nn.pad %b low [0, 4] high [0, 0] interior [0, 0] {value = 1.00390625 : f64} : tensor<2x4xf32> -> tensor<2x8xf32>
    %g = nn.gather %c[%i] axis 0 : (tensor<2x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
    %0 = nn.dot_general %p, %f batch [] x [] contract [1] x [0] : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
    %1 = nn.dot_general %q, %f batch [] x [] contract [1] x [0] : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
    %2 = nn.dot_general %g, %1 batch [] x [] contract [1] x [1] : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<3x2xf32>
    return %0, %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<3x2xf32>
  }
}

// CHECK-LABEL: func.func @main(
// CHECK: nn.pad {{.*}} : tensor<2x4xbf16> -> tensor<2x8xbf16>
// CHECK: nn.pad {{.*}} : tensor<2x4xf32> -> tensor<2x8xf32>
// CHECK: nn.gather {{.*}} : (tensor<2x4xbf16>, tensor<3xi64>) -> tensor<3x4xbf16>
// F16-LABEL: func.func @main(
// F16: nn.pad {{.*}} : tensor<2x4xf16> -> tensor<2x8xf16>
// F16: nn.pad {{.*}} : tensor<2x4xf16> -> tensor<2x8xf16>

// -----

// What is made of parameters alone is made short in each phase, where it is.
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4x4xf32>) : tensor<4x4xf32>
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %w = nn.parameter @w : tensor<4x4xf32>
    %s = nn.slice %w starts [0, 0] limits [2, 4] strides [1, 1] : tensor<4x4xf32> -> tensor<2x4xf32>
    %c = nn.concat %x, %s axis 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %0 = nn.dot_general %s, %c batch [] x [] contract [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}

// CHECK-LABEL: func.func @main(
// CHECK: %[[S:.+]] = nn.slice {{.*}} -> tensor<2x4xf32>
// CHECK-NEXT: %[[S16:.+]] = nn.cast %[[S]]
// CHECK-NEXT: %[[C:.+]] = nn.concat %{{.+}}, %[[S16]] axis 0 {{.*}} -> tensor<4x4xbf16>
// CHECK-NEXT: nn.dot_general %[[S16]], %[[C]]
