// RUN: pp-opt %s --split-input-file --nn-differentiate | FileCheck %s

// Two layers. The cotangent of the activation between them is B, the gradients
// of the weights are W; every operation says whose derivative it is part of.
ml_program.global private mutable @w0(dense<0.0> : tensor<8x8xf32>) : tensor<8x8xf32> {nn.trained}
ml_program.global private mutable @w1(dense<0.0> : tensor<8x8xf32>) : tensor<8x8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.+]]: tensor<4x8xf32>)
func.func @main(%x: tensor<4x8xf32>) -> tensor<f32> {
  // CHECK: %[[W0:.+]] = nn.parameter @w0 {step.origin = 0 : i64, step.phase = #step.phase<forward>}
  %w0 = nn.parameter @w0 : tensor<8x8xf32>
  // CHECK: %[[W1:.+]] = nn.parameter @w1 {step.origin = 1
  %w1 = nn.parameter @w1 : tensor<8x8xf32>
  // CHECK: nn.dot_general {{.*}} {step.origin = 2 : i64, step.phase = #step.phase<forward>}
  %0 = nn.dot_general %x, %w0 batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[Y:.+]] = nn.tanh {{.*}} {step.origin = 3
  %1 = nn.tanh %0 : tensor<4x8xf32>
  %2 = nn.dot_general %1, %w1 batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = nn.reduce sum %2 [0, 1] : tensor<4x8xf32> -> tensor<f32>
  // CHECK: %[[ONE:.+]] = nn.constant {step.origin = 5 : i64, step.phase = #step.phase<backward_input>} dense<1.000000e+00> : tensor<f32>
  // CHECK: %[[G:.+]] = nn.broadcast %[[ONE]] [] {step.origin = 5 : i64, step.phase = #step.phase<backward_input>}
  // CHECK: %[[DY:.+]] = nn.dot_general %[[G]], %[[W1]] batch [] x [] contract [1] x [0] {step.origin = 4 : i64, step.phase = #step.phase<backward_input>}
  // CHECK: %[[DW1:.+]] = nn.dot_general %[[G]], %[[Y]] batch [] x [] contract [0] x [0] {step.origin = 4 : i64, step.phase = #step.phase<backward_weight>}
  // CHECK: nn.accumulate gradient @w1, %[[DW1]] {step.origin = 4 : i64, step.phase = #step.phase<backward_weight>}
  // tanh is derived from its result.
  // CHECK: %[[YY:.+]] = nn.mul %[[Y]], %[[Y]] {step.origin = 3
  // CHECK: %[[SLOPE:.+]] = nn.sub %{{.+}}, %[[YY]]
  // CHECK: %[[D0:.+]] = nn.mul %[[DY]], %[[SLOPE]]
  // Nobody asks for the cotangent of the input.
  // CHECK: %[[DW0:.+]] = nn.dot_general %[[D0]], %[[X]] {{.*}} {step.origin = 2 : i64, step.phase = #step.phase<backward_weight>}
  // CHECK-NEXT: nn.accumulate gradient @w0, %[[DW0]]
  // CHECK-NEXT: return
  return %3 : tensor<f32>
}

// -----

// Cotangents of a value with several uses are added, the last use first.
ml_program.global private mutable @w(dense<0.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
  // CHECK: %[[W:.+]] = nn.parameter @w
  %w = nn.parameter @w : tensor<8xf32>
  // CHECK: %[[E:.+]] = nn.exp %[[W]]
  %0 = nn.exp %w : tensor<8xf32>
  %1 = nn.sin %w : tensor<8xf32>
  %2 = nn.add %0, %1 : tensor<8xf32>
  %3 = nn.mul %2, %x : tensor<8xf32>
  %4 = nn.reduce sum %3 [0] : tensor<8xf32> -> tensor<f32>
  // CHECK: %[[COS:.+]] = nn.cos %[[W]] {step.origin = 2
  // CHECK: %[[SIN:.+]] = nn.mul %{{.+}}, %[[COS]] {step.origin = 2
  // CHECK: %[[EXP:.+]] = nn.mul %{{.+}}, %[[E]] {step.origin = 1
  // CHECK: %[[SUM:.+]] = nn.add %[[SIN]], %[[EXP]] {step.origin = 1
  // CHECK: nn.accumulate gradient @w, %[[SUM]]
  return %4 : tensor<f32>
}

// -----

// Parameters that are not trained get no gradient, and neither does what only
// they need.
ml_program.global private mutable @w(dense<0.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
ml_program.global private @frozen(dense<0.0> : tensor<8xf32>) : tensor<8xf32>
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8xf32>
  %f = nn.parameter @frozen : tensor<8xf32>
  %0 = nn.exp %f : tensor<8xf32>
  %1 = nn.mul %w, %0 : tensor<8xf32>
  %2 = nn.reduce sum %1 [0] : tensor<8xf32> -> tensor<f32>
  // CHECK: nn.accumulate gradient @w
  // CHECK-NOT: nn.accumulate
  // CHECK: return
  return %2 : tensor<f32>
}

// -----

// Running statistics are added up in the backward phase, so that a forward that
// is recomputed does not add them twice; they are committed in the update.
ml_program.global private mutable @scale(dense<1.0> : tensor<3xf32>) : tensor<3xf32> {nn.trained}
ml_program.global private mutable @mean(dense<0.0> : tensor<3xf32>) : tensor<3xf32>
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x3x4x4xf32>) -> tensor<f32> {
  %s = nn.parameter @scale : tensor<3xf32>
  // CHECK: nn.batch_norm {{.*}} step.phase = #step.phase<forward>
  %y, %mean, %variance = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: nn.mul {{.*}} step.phase = #step.phase<backward_weight>
  %0 = nn.mul %mean, %mean : tensor<3xf32>
  // CHECK: nn.accumulate statistics @mean, {{.*}} step.phase = #step.phase<backward_weight>
  nn.accumulate statistics @mean, %0 : tensor<3xf32>
  // CHECK: nn.commit_statistics {{.*}} step.phase = #step.phase<update>
  nn.commit_statistics @mean, @mean momentum 0.1 microbatches 1 elements 32
  %1 = nn.reduce sum %y [0, 1, 2, 3] : tensor<2x3x4x4xf32> -> tensor<f32>
  // CHECK: %{{.+}}, %[[DS:.+]], %[[DB:.+]] = nn.batch_norm_backward
  // CHECK: %[[D:.+]] = nn.add %[[DS]], %[[DB]]
  // CHECK: nn.accumulate gradient @scale, %[[D]]
  return %1 : tensor<f32>
}

// -----

// A gradient stops, and nothing of that is left.
ml_program.global private mutable @w(dense<0.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<8xf32>)
func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
  // CHECK: %[[H:.+]] = nn.mul %{{.+}}, %[[X]]
  // CHECK-NEXT: %[[Y:.+]] = nn.mul %[[H]], %[[H]]
  // CHECK: %[[G:.+]] = nn.mul %{{.+}}, %[[H]]
  // CHECK-NOT: nn.add
  // CHECK: %[[P:.+]] = nn.mul %[[G]], %[[X]]
  // CHECK-NEXT: nn.accumulate gradient @w, %[[P]]
  %w = nn.parameter @w : tensor<8xf32>
  %0 = nn.mul %w, %x : tensor<8xf32>
  %1 = nn.stop_gradient %0 : tensor<8xf32>
  %2 = nn.mul %0, %1 : tensor<8xf32>
  %3 = nn.reduce sum %2 [0] : tensor<8xf32> -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// A row for padding gets no gradient.
ml_program.global private mutable @w(dense<0.0> : tensor<5x4x8xf32>) : tensor<5x4x8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[I:[^:]+]]: tensor<2x3xi64>)
func.func @main(%i: tensor<2x3xi64>) -> tensor<f32> {
  // CHECK: nn.gather {{.*}} axis 1 untrained 2
  // CHECK: %[[U:.+]] = nn.constant {{.*}}dense<2> : tensor<2x3xi64>
  // CHECK: %[[IS:.+]] = nn.compare eq %[[I]], %[[U]]
  // CHECK: %[[ALL:.+]] = nn.broadcast %[[IS]] [1, 2] {{.*}}: tensor<2x3xi1> -> tensor<5x2x3x8xi1>
  // CHECK: %[[G:.+]] = nn.select %[[ALL]], %{{.+}}, %{{.+}} {{.*}}: tensor<5x2x3x8xi1>, tensor<5x2x3x8xf32>
  // CHECK: nn.scatter_add %[[G]] at[%[[I]]] axis 1
  %w = nn.parameter @w : tensor<5x4x8xf32>
  %0 = nn.gather %w[%i] axis 1 untrained 2 : (tensor<5x4x8xf32>, tensor<2x3xi64>) -> tensor<5x2x3x8xf32>
  %1 = nn.reduce sum %0 [0, 1, 2, 3] : tensor<5x2x3x8xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Vector-Jacobian products, each once.
ml_program.global private mutable @w(dense<0.0> : tensor<4x8xf32>) : tensor<4x8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
func.func @main(%i: tensor<3xi64>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<4x8xf32>
  %0 = nn.gather %w[%i] axis 0 : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  %1 = nn.slice %0 starts [0, 1] limits [3, 8] strides [1, 2] : tensor<3x8xf32> -> tensor<3x4xf32>
  %2 = nn.pad %1 low [1, 0] high [0, 2] interior [0, 0] : tensor<3x4xf32> -> tensor<4x6xf32>
  %3 = nn.transpose %2 [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %4 = nn.reshape %3 : tensor<6x4xf32> -> tensor<24xf32>
  %5 = nn.concat %4, %4 axis 0 : (tensor<24xf32>, tensor<24xf32>) -> tensor<48xf32>
  %6 = nn.relu %5 : tensor<48xf32>
  %7 = nn.softmax %6 : tensor<48xf32>
  %8 = nn.reduce max %7 [0] : tensor<48xf32> -> tensor<f32>
  // A maximum shares its cotangent among the elements that attain it.
  // CHECK: nn.compare eq {{.*}} : tensor<48xf32> -> tensor<48xi1>
  // CHECK: nn.cast {{.*}} : tensor<48xi1> -> tensor<48xf32>
  // CHECK: nn.reduce sum {{.*}} [0] {{.*}} : tensor<48xf32> -> tensor<f32>
  // CHECK: nn.div
  // CHECK: nn.select
  // softmax: y * (g - sum(g * y))
  // CHECK: nn.mul
  // CHECK: nn.reduce sum
  // CHECK: nn.broadcast
  // CHECK: nn.sub
  // CHECK: nn.mul
  // relu: from the result
  // CHECK: nn.compare gt
  // CHECK: nn.select
  // CHECK: nn.slice {{.*}} starts [0] limits [24] strides [1]
  // CHECK: nn.slice {{.*}} starts [24] limits [48] strides [1]
  // CHECK: nn.add
  // CHECK: nn.reshape {{.*}} : tensor<24xf32> -> tensor<6x4xf32>
  // CHECK: nn.transpose {{.*}} [1, 0] {{.*}} : tensor<6x4xf32> -> tensor<4x6xf32>
  // CHECK: nn.slice {{.*}} starts [1, 0] limits [4, 4] strides [1, 1]
  // CHECK: nn.pad {{.*}} low [0, 1] high [0, 0] interior [0, 1] {{.*}} : tensor<3x4xf32> -> tensor<3x8xf32>
  // CHECK: nn.scatter_add {{.*}} at[%{{.+}}] axis 0 {{.*}} -> tensor<4x8xf32>
  // CHECK: nn.accumulate gradient @w
  return %8 : tensor<f32>
}

// -----

// Convolution and pooling.
ml_program.global private mutable @w(dense<0.0> : tensor<6x3x3x3xf32>) : tensor<6x3x3x3xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x8x8xf32>)
func.func @main(%x: tensor<2x3x8x8xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<6x3x3x3xf32>
  %0 = nn.conv %x, %w strides [2, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x4x8xf32>
  %1 = nn.max_pool %0 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x6x4x8xf32>) -> tensor<2x6x2x4xf32>
  %2 = nn.avg_pool %1 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] include_pad : (tensor<2x6x2x4xf32>) -> tensor<2x6x1x2xf32>
  %3 = nn.reduce sum %2 [0, 1, 2, 3] : tensor<2x6x1x2xf32> -> tensor<f32>
  // CHECK: nn.avg_pool_backward {{.*}} include_pad {{.*}} -> tensor<2x6x2x4xf32>
  // CHECK: %[[G:.+]] = nn.max_pool_backward {{.*}} -> tensor<2x6x4x8xf32>
  // CHECK-NOT: nn.conv_backward_input
  // CHECK: nn.conv_backward_weight %[[X]], %[[G]] strides [2, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1
  return %3 : tensor<f32>
}

// -----

// Attention keeps its result and logsumexp; what needs no gradient is left.
ml_program.global private mutable @w(dense<0.0> : tensor<8x8xf32>) : tensor<8x8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.+]]: tensor<2x5x3x8xf32>)
func.func @main(%x: tensor<2x5x3x8xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8x8xf32>
  %q = nn.dot_general %x, %w batch [] x [] contract [3] x [1] : (tensor<2x5x3x8xf32>, tensor<8x8xf32>) -> tensor<2x5x3x8xf32>
  // CHECK: %[[Q:.+]] = nn.dot_general
  // CHECK: %[[O:.+]], %[[L:.+]] = nn.attention %[[Q]]
  %o, %l = nn.attention %q [0, 2, 1, 3], %x [0, 2, 1, 3], %x [0, 2, 1, 3] scale 0.5 causal output [0, 1, 2, 3] : (tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5xf32>)
  %0 = nn.reduce sum %o [0, 1, 2, 3] : tensor<2x3x5x8xf32> -> tensor<f32>
  // CHECK: %[[G:.+]] = nn.broadcast
  // CHECK: %[[DQ:[^ ,]+]], %{{[^ ,]+}}, %{{[^ ,]+}} = nn.attention_backward %[[Q]] [0, 2, 1, 3], %[[X]] [0, 2, 1, 3], %[[X]] [0, 2, 1, 3], %[[O]] [0, 1, 2, 3], %[[L]], %[[G]] scale 5.000000e-01 causal
  // CHECK: nn.dot_general %[[DQ]], %[[X]] batch [] x [] contract [0, 1, 2] x [0, 1, 2]
  return %0 : tensor<f32>
}

// -----

// A mask has no cotangent.
ml_program.global private mutable @w(dense<0.0> : tensor<8x8xf32>) : tensor<8x8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}}, %[[M:[^:]+]]:
func.func @main(%x: tensor<2x3x5x8xf32>, %m: tensor<2x1x1x5xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8x8xf32>
  %q = nn.dot_general %x, %w batch [] x [] contract [3] x [1] : (tensor<2x3x5x8xf32>, tensor<8x8xf32>) -> tensor<2x3x5x8xf32>
  %o, %l = nn.attention %q [0, 1, 2, 3], %x [0, 1, 2, 3], %x [0, 1, 2, 3] mask %m zeroed scale 0.5 output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x1x1x5xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5xf32>)
  %0 = nn.reduce sum %o [0, 1, 2, 3] : tensor<2x3x5x8xf32> -> tensor<f32>
  // CHECK: nn.attention_backward {{.*}} mask %[[M]] zeroed scale 5.000000e-01
  return %0 : tensor<f32>
}

// -----

// Slices that make up a value: their cotangents are joined, in the order of the
// slices, by the first of them, which is differentiated last.
ml_program.global private mutable @w(dense<0.0> : tensor<4x12xf32>) : tensor<4x12xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK-NOT: nn.pad
// CHECK: %[[T:.+]] = nn.mul {{.*}} {step.origin = 4 : i64, step.phase = #step.phase<backward_weight>} : tensor<4x4xf32>
// CHECK-NOT: nn.pad
// CHECK: %[[R:.+]] = nn.concat %{{.+}}, %{{.+}}, %{{.+}} axis 1 {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>} : (tensor<4x2xf32>, tensor<4x4xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
// CHECK-NEXT: nn.accumulate gradient @w, %[[R]]
func.func @main(%x: tensor<4x4xf32>) -> tensor<f32> {
  %w = nn.parameter @w : tensor<4x12xf32>
  %0 = nn.slice %w starts [0, 0] limits [4, 2] strides [1, 1] : tensor<4x12xf32> -> tensor<4x2xf32>
  %1 = nn.slice %w starts [0, 6] limits [4, 12] strides [1, 1] : tensor<4x12xf32> -> tensor<4x6xf32>
  %2 = nn.slice %w starts [0, 2] limits [4, 6] strides [1, 1] : tensor<4x12xf32> -> tensor<4x4xf32>
  %3 = nn.mul %2, %x : tensor<4x4xf32>
  %4 = nn.tanh %3 : tensor<4x4xf32>
  %5 = nn.tanh %0 : tensor<4x2xf32>
  %6 = nn.tanh %1 : tensor<4x6xf32>
  %7 = nn.reduce sum %4 [0, 1] : tensor<4x4xf32> -> tensor<f32>
  %8 = nn.reduce sum %5 [0, 1] : tensor<4x2xf32> -> tensor<f32>
  %9 = nn.reduce sum %6 [0, 1] : tensor<4x6xf32> -> tensor<f32>
  %10 = nn.add %7, %8 : tensor<f32>
  %11 = nn.add %9, %10 : tensor<f32>
  return %11 : tensor<f32>
}

// -----

// Slices that overlap, and slices of two axes, are added up.
ml_program.global private mutable @overlap(dense<0.0> : tensor<4x8xf32>) : tensor<4x8xf32> {nn.trained}
ml_program.global private mutable @axes(dense<0.0> : tensor<4x8xf32>) : tensor<4x8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK-NOT: nn.concat
// CHECK-COUNT-4: nn.pad
// CHECK-NOT: nn.concat
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %o = nn.parameter @overlap : tensor<4x8xf32>
  %a = nn.parameter @axes : tensor<4x8xf32>
  %0 = nn.slice %o starts [0, 0] limits [4, 5] strides [1, 1] : tensor<4x8xf32> -> tensor<4x5xf32>
  %1 = nn.slice %o starts [0, 4] limits [4, 8] strides [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %2 = nn.slice %a starts [0, 0] limits [2, 8] strides [1, 1] : tensor<4x8xf32> -> tensor<2x8xf32>
  %3 = nn.slice %a starts [0, 4] limits [4, 8] strides [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %4 = nn.reduce sum %0 [0, 1] : tensor<4x5xf32> -> tensor<f32>
  %5 = nn.reduce sum %1 [0, 1] : tensor<4x4xf32> -> tensor<f32>
  %6 = nn.reduce sum %2 [0, 1] : tensor<2x8xf32> -> tensor<f32>
  %7 = nn.reduce sum %3 [0, 1] : tensor<4x4xf32> -> tensor<f32>
  %8 = nn.add %4, %5 : tensor<f32>
  %9 = nn.add %6, %7 : tensor<f32>
  %10 = nn.mul %8, %9 : tensor<f32>
  %11 = nn.mul %10, %x : tensor<f32>
  return %11 : tensor<f32>
}

// -----

// At a tie a maximum shares the cotangent; one that keeps a value inside of a
// bound stops it.
ml_program.global private mutable @w(dense<0.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8xf32>) -> tensor<f32> {
  // CHECK: %[[W:.+]] = nn.parameter @w
  %w = nn.parameter @w : tensor<8xf32>
  // CHECK: %[[Z:.+]] = nn.maximum
  %0 = nn.maximum %w, %x : tensor<8xf32>
  %1 = nn.minimum %0, %x {nn.stops_at_bound} : tensor<8xf32>
  %2 = nn.reduce sum %1 [0] : tensor<8xf32> -> tensor<f32>
  // CHECK: %[[G:.+]] = nn.broadcast
  // CHECK: %[[LESS:.+]] = nn.compare lt %[[Z]], %{{.+}} {step.origin = 2
  // CHECK: %[[DZ:.+]] = nn.select %[[LESS]], %[[G]], %{{.+}} {step.origin = 2
  // CHECK: %[[TIE:.+]] = nn.compare eq %[[W]], %{{.+}} {step.origin = 1
  // CHECK: %[[HALF:.+]] = nn.mul %[[DZ]]
  // CHECK: %[[MORE:.+]] = nn.compare gt %[[W]], %{{.+}} {step.origin = 1
  // CHECK: %[[WON:.+]] = nn.select %[[MORE]], %[[DZ]]
  // CHECK: %[[DW:.+]] = nn.select %[[TIE]], %[[HALF]], %[[WON]]
  // CHECK: nn.accumulate gradient @w, %[[DW]]
  return %2 : tensor<f32>
}
