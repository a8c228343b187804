// RUN: pp-opt %s --split-input-file --nn-form-kernels | FileCheck %s

// A library operation is alone; the chain behind it is one kernel with the
// broadcast of the bias copied in, and ends with its reduction.
ml_program.global private @b(dense<0.0> : tensor<10xf32>) : tensor<10xf32>
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x8xf32>, %[[W:[^:]+]]: tensor<10x8xf32>)
func.func @main(%x: tensor<4x8xf32>, %w: tensor<10x8xf32>) -> (tensor<4x10xf32>, tensor<f32>) {
  // CHECK-NEXT: %[[B:.+]] = nn.parameter @b
  %b = nn.parameter @b : tensor<10xf32>
  // CHECK-NEXT: %[[D:.+]] = nn.kernel(%[[K0:.+]] = %[[X]], %[[K1:.+]] = %[[W]])
  // CHECK-NEXT:   %[[P:.+]] = nn.dot_general %[[K0]], %[[K1]]
  // CHECK-NEXT:   nn.yield %[[P]]
  // CHECK-NEXT: }
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<10x8xf32>) -> tensor<4x10xf32>
  // CHECK-NEXT: %[[E:.+]]:2 = nn.kernel(%[[A0:.+]] = %[[D]], %[[A1:.+]] = %[[B]])
  // CHECK-NEXT:   %[[BB:.+]] = nn.broadcast %[[A1]] [1]
  // CHECK-NEXT:   %[[S:.+]] = nn.add %[[A0]], %[[BB]]
  // CHECK-NEXT:   %[[R:.+]] = nn.relu %[[S]]
  // CHECK-NEXT:   %[[Q:.+]] = nn.reduce sum %[[R]] [0, 1]
  // CHECK-NEXT:   nn.yield %[[R]], %[[Q]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return %[[E]]#0, %[[E]]#1
  %1 = nn.broadcast %b [1] : tensor<10xf32> -> tensor<4x10xf32>
  %2 = nn.add %0, %1 : tensor<4x10xf32>
  %3 = nn.relu %2 : tensor<4x10xf32>
  %4 = nn.reduce sum %3 [0, 1] : tensor<4x10xf32> -> tensor<f32>
  return %3, %4 : tensor<4x10xf32>, tensor<f32>
}

// -----

// Views are no kernels; a splat that a library operation reads needs memory, so
// it is a kernel of its own; other constants lie in buffers.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x16xf32>) -> (tensor<4x2xf32>, tensor<4xi64>) {
  // CHECK-NEXT: nn.kernel() {{.*}}: () -> tensor<2x8xf32> {
  // CHECK-NEXT:   nn.constant dense<1.000000e+00>
  // CHECK-NEXT:   nn.yield
  // CHECK-NEXT: }
  %c = nn.constant dense<1.0> : tensor<2x8xf32>
  // CHECK-NEXT: nn.reshape
  %0 = nn.reshape %x : tensor<2x16xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: nn.kernel
  // CHECK-NEXT:   nn.dot_general
  %1 = nn.dot_general %0, %c batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
  // CHECK: }
  // CHECK-NEXT: nn.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  // CHECK-NEXT: return
  %2 = nn.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  return %1, %2 : tensor<4x2xf32>, tensor<4xi64>
}

// -----

// Phases are never fused, and neither are backward operations of different
// forward kernels. The number of the kernel becomes the origin.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: nn.kernel({{.*}}step.origin = 0 : i64, step.phase = #step.phase<forward>
  // CHECK-NEXT: nn.exp
  // CHECK-NEXT: nn.tanh
  // CHECK-NEXT: nn.yield
  %0 = nn.exp %x {step.origin = 0, step.phase = #step.phase<forward>} : tensor<8xf32>
  %1 = nn.tanh %0 {step.origin = 1, step.phase = #step.phase<forward>} : tensor<8xf32>
  // CHECK: nn.kernel({{.*}}step.origin = 1 : i64, step.phase = #step.phase<forward>
  // CHECK-NEXT: nn.softmax
  %2 = nn.softmax %1 {step.origin = 2, step.phase = #step.phase<forward>} : tensor<8xf32>
  // CHECK: nn.kernel({{.*}}step.origin = 1 : i64, step.phase = #step.phase<backward_input>
  // CHECK-NEXT: nn.neg
  // CHECK-NEXT: nn.yield
  %3 = nn.neg %2 {step.origin = 2, step.phase = #step.phase<backward_input>} : tensor<8xf32>
  // CHECK: nn.kernel({{.*}}step.origin = 0 : i64, step.phase = #step.phase<backward_input>
  // CHECK-NEXT: nn.mul
  // CHECK-NEXT: nn.sin
  // CHECK-NEXT: nn.yield
  %4 = nn.mul %3, %1 {step.origin = 1, step.phase = #step.phase<backward_input>} : tensor<8xf32>
  %5 = nn.sin %4 {step.origin = 0, step.phase = #step.phase<backward_input>} : tensor<8xf32>
  // CHECK: nn.kernel({{.*}}step.origin = 0 : i64, step.phase = #step.phase<backward_weight>
  // CHECK-NEXT: nn.cos
  %6 = nn.cos %5 {step.origin = 0, step.phase = #step.phase<backward_weight>} : tensor<8xf32>
  return %6 : tensor<8xf32>
}

// -----

// A value that is read before the chain goes on ends the kernel: it could not
// move behind its reader.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: nn.exp
  // CHECK-NEXT: nn.yield
  %0 = nn.exp %x : tensor<4x4xf32>
  // CHECK: nn.dot_general
  %1 = nn.dot_general %0, %x batch [] x [] contract [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: nn.kernel
  // CHECK-NEXT: nn.tanh
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.yield
  %2 = nn.tanh %0 : tensor<4x4xf32>
  %3 = nn.add %1, %2 : tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// A library takes a tensor for each operand, also where two are the same.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x4xf32>)
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NEXT: nn.kernel(%{{.+}} = %[[X]], %{{.+}} = %[[X]])
  // CHECK-NEXT: nn.dot_general
  %0 = nn.dot_general %x, %x batch [] x [] contract [1] x [1] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// An operation on rows takes in the casts of its rows, on both sides.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xf32>) {
  // CHECK: nn.kernel(%{{.*}} = %{{.*}}) {{.*}} : (tensor<4x8xbf16>) -> (tensor<4x8xf32>, tensor<4x8xbf16>) {
  // CHECK-NEXT: nn.cast
  // CHECK-NEXT: nn.softmax
  // CHECK-NEXT: nn.cast
  // CHECK-NEXT: nn.yield
  %0 = nn.cast %x : tensor<4x8xbf16> -> tensor<4x8xf32>
  %1 = nn.softmax %0 : tensor<4x8xf32>
  %2 = nn.cast %1 : tensor<4x8xf32> -> tensor<4x8xbf16>
  // CHECK: nn.kernel
  // CHECK-NEXT: nn.neg
  %3 = nn.neg %1 : tensor<4x8xf32>
  return %2, %3 : tensor<4x8xbf16>, tensor<4x8xf32>
}

// -----

// But no cast that another operation reads, or of another phase.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xbf16>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xbf16>) {
  // CHECK: nn.kernel
  // CHECK-NEXT: nn.cast
  // CHECK-NEXT: nn.yield
  %0 = nn.cast %x {step.origin = 0, step.phase = #step.phase<forward>} : tensor<4x8xbf16> -> tensor<4x8xf32>
  // CHECK: nn.kernel
  // CHECK-NEXT: nn.softmax
  // CHECK-NEXT: nn.yield
  %1 = nn.softmax %0 {step.origin = 1, step.phase = #step.phase<forward>} : tensor<4x8xf32>
  // CHECK: nn.kernel
  // CHECK-NEXT: nn.cast
  // CHECK-NEXT: nn.yield
  %2 = nn.cast %1 {step.origin = 1, step.phase = #step.phase<backward_weight>} : tensor<4x8xf32> -> tensor<4x8xbf16>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xbf16>
}

// -----

// What is drawn at random, and its mask, are drawn again in each phase that reads them.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x8xf32>, %[[C:[^:]+]]: tensor<5xi32>)
func.func @main(%x: tensor<4x8xf32>, %c: tensor<5xi32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %half = nn.constant dense<0.5> : tensor<4x8xf32>
  %zero = nn.constant dense<0.0> : tensor<4x8xf32>
  // CHECK-NEXT: %[[Y:.+]] = nn.kernel(%[[A0:.+]] = %[[C]], %{{.+}} = %[[X]]) {{.*}}forward{{.*}} : (tensor<5xi32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: nn.uniform %[[A0]] stream 0
  // CHECK: nn.compare
  // CHECK: nn.yield
  %u = nn.uniform %c stream 0 samples [0, 1, 1] {step.phase = #step.phase<forward>, step.origin = 0 : i64} : tensor<5xi32> -> tensor<4x8xf32>
  %mask = nn.compare ge %u, %half {step.phase = #step.phase<forward>, step.origin = 1 : i64} : tensor<4x8xf32> -> tensor<4x8xi1>
  %0 = nn.select %mask, %x, %zero {step.phase = #step.phase<forward>, step.origin = 2 : i64} : tensor<4x8xi1>, tensor<4x8xf32>
  // CHECK: nn.kernel({{.*}} = %[[C]], {{.*}} = %[[Y]]) {{.*}}backward_input{{.*}} : (tensor<5xi32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: nn.uniform
  // CHECK: nn.compare
  %1 = nn.select %mask, %0, %zero {step.phase = #step.phase<backward_input>, step.origin = 2 : i64} : tensor<4x8xi1>, tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A number that is made of the counter alone belongs to each reader: nothing ties these together.
// CHECK-LABEL: func.func @main(
// CHECK-NOT: -> tensor<f32>
// CHECK: nn.kernel({{.*}}) {{.*}} -> tensor<3xf32> {
// CHECK: nn.present_rows
// CHECK: nn.exp %{{.+}} : tensor<f32>
// CHECK: nn.kernel({{.*}}) {{.*}} -> tensor<5xf32> {
// CHECK: nn.present_rows
// CHECK: nn.exp %{{.+}} : tensor<f32>
// CHECK-NOT: nn.kernel
func.func @main(%x: tensor<3xf32>, %y: tensor<5xf32>, %c: tensor<5xi32>) -> (tensor<3xf32>, tensor<5xf32>) {
  %r = nn.present_rows %c samples 4 rows 1 : tensor<5xi32> -> tensor<i32>
  %f = nn.cast %r : tensor<i32> -> tensor<f32>
  %e = nn.exp %f : tensor<f32>
  %b = nn.broadcast %e [] : tensor<f32> -> tensor<3xf32>
  %0 = nn.mul %x, %b : tensor<3xf32>
  %d = nn.broadcast %e [] : tensor<f32> -> tensor<5xf32>
  %1 = nn.mul %y, %d : tensor<5xf32>
  return %0, %1 : tensor<3xf32>, tensor<5xf32>
}

// -----

// A widening cast is copied into all kernels that read it, and ties the last of them to what was rounded.
// CHECK-LABEL: func.func @main(
// CHECK: %[[Y:.+]]:2 = nn.kernel(%{{.+}} = %arg0, %{{.+}} = %arg1) {{.*}} -> (tensor<4x8xbf16>, tensor<4x8xf32>) {
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.cast
// CHECK-NEXT: nn.cast
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.yield
// CHECK: nn.kernel(%{{.+}} = %[[Y]]#0) {{.*}} (tensor<4x8xbf16>) -> tensor<4x8xf32>
// CHECK-NEXT: nn.cast
// CHECK-NEXT: nn.exp
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.add %x, %y {step.phase = #step.phase<forward>, step.origin = 0 : i64} : tensor<4x8xf32>
  %1 = nn.cast %0 {step.phase = #step.phase<forward>, step.origin = 1 : i64} : tensor<4x8xf32> -> tensor<4x8xbf16>
  %2 = nn.cast %1 {step.phase = #step.phase<forward>, step.origin = 2 : i64} : tensor<4x8xbf16> -> tensor<4x8xf32>
  %3 = nn.mul %2, %2 {step.phase = #step.phase<forward>, step.origin = 3 : i64} : tensor<4x8xf32>
  %4 = nn.exp %2 {step.phase = #step.phase<backward_input>, step.origin = 3 : i64} : tensor<4x8xf32>
  return %3, %4 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// What is no loop reads memory: a copy of something cheap is on the stack, or in memory of its own where it is too large
// for that. An operation on rows widens by itself.
// CHECK-LABEL: func.func @main(
// CHECK: nn.kernel(%{{.+}} = %arg0) {{.*}} -> tensor<64x256xf32>
// CHECK-NEXT: nn.broadcast
// CHECK-NEXT: nn.yield
// CHECK: nn.kernel(%{{.+}} = %arg1) {{.*}} -> tensor<64x256xf32>
// CHECK-NEXT: nn.cast
// CHECK-NEXT: nn.yield
// CHECK: nn.kernel(
// CHECK-NEXT: nn.concat
// CHECK: nn.kernel(
// CHECK-NEXT: nn.broadcast {{.*}} tensor<8x256xf32>
// CHECK-NEXT: nn.concat
// CHECK: nn.kernel(
// CHECK-NEXT: nn.cast
// CHECK-NEXT: nn.softmax
func.func @main(%a: tensor<256xf32>, %b: tensor<64x256xbf16>, %c: tensor<8x256xf32>, %d: tensor<64x256xbf16>) -> (tensor<128x256xf32>, tensor<16x256xf32>, tensor<64x256xf32>, tensor<64x256xf32>) {
  %0 = nn.broadcast %a [1] : tensor<256xf32> -> tensor<64x256xf32>
  %1 = nn.cast %b : tensor<64x256xbf16> -> tensor<64x256xf32>
  %2 = nn.concat %0, %1 axis 0 : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<128x256xf32>
  %3 = nn.broadcast %a [1] : tensor<256xf32> -> tensor<8x256xf32>
  %4 = nn.concat %3, %c axis 0 : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<16x256xf32>
  %5 = nn.cast %d : tensor<64x256xbf16> -> tensor<64x256xf32>
  %6 = nn.softmax %5 : tensor<64x256xf32>
  %7 = nn.exp %5 : tensor<64x256xf32>
  return %2, %4, %6, %7 : tensor<128x256xf32>, tensor<16x256xf32>, tensor<64x256xf32>, tensor<64x256xf32>
}
