// RUN: pp-opt %s --split-input-file --nn-form-kernels=epilogues | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-form-kernels | FileCheck %s --check-prefix=PLAIN

// Without the option, products are alone.
// PLAIN: nn.dot_general
// PLAIN-NEXT: nn.yield

// A product with its bias and ReLU is one kernel; the gradient of the ReLU
// needs its result alone.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[^:]+]]: tensor<4x8xf32>, %[[W:[^:]+]]: tensor<10x8xf32>, %[[B:[^:]+]]: tensor<10xf32>)
func.func @main(%x: tensor<4x8xf32>, %w: tensor<10x8xf32>, %b: tensor<10xf32>) -> tensor<4x10xf32> {
  // CHECK-NEXT: %[[K:.+]] = nn.kernel(%[[A0:.+]] = %[[X]], %[[A1:.+]] = %[[W]], %[[A2:.+]] = %[[B]])
  // CHECK-NEXT:   %[[P:.+]] = nn.dot_general %[[A0]], %[[A1]]
  // CHECK-NEXT:   %[[BB:.+]] = nn.broadcast %[[A2]] [1]
  // CHECK-NEXT:   %[[S:.+]] = nn.add %[[BB]], %[[P]]
  // CHECK-NEXT:   %[[R:.+]] = nn.relu %[[S]]
  // CHECK-NEXT:   nn.yield %[[R]]
  // CHECK-NEXT: }
  // CHECK-NEXT: return %[[K]]
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<10x8xf32>) -> tensor<4x10xf32>
  %1 = nn.broadcast %b [1] : tensor<10xf32> -> tensor<4x10xf32>
  %2 = nn.add %1, %0 : tensor<4x10xf32>
  %3 = nn.relu %2 : tensor<4x10xf32>
  return %3 : tensor<4x10xf32>
}

// -----

// A GELU in its tanh form; what it reads is a result where another phase reads
// it.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> (tensor<2x4x16xf32>, tensor<2x4x16xf32>) {
  // CHECK: %[[K:.+]]:2 = nn.kernel(
  // CHECK-NEXT:   nn.dot_general
  // CHECK-NEXT:   nn.broadcast
  // CHECK-NEXT:   %[[S:.+]] = nn.add
  // CHECK-NEXT:   %[[R:.+]] = nn.gelu %[[S]] approximate
  // CHECK-NEXT:   nn.yield %[[S]], %[[R]]
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.kernel(%{{.+}} = %[[K]]#0)
  // CHECK: return %[[K]]#1
  %0 = nn.dot_general %x, %w batch [] x [] contract [2] x [0] {step.phase = #step.phase<forward>} : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %1 = nn.broadcast %b [2] {step.phase = #step.phase<forward>} : tensor<16xf32> -> tensor<2x4x16xf32>
  %2 = nn.add %0, %1 {step.phase = #step.phase<forward>} : tensor<2x4x16xf32>
  %3 = nn.gelu %2 approximate {step.phase = #step.phase<forward>} : tensor<2x4x16xf32>
  %4 = nn.neg %2 {step.phase = #step.phase<backward_input>} : tensor<2x4x16xf32>
  return %3, %4 : tensor<2x4x16xf32>, tensor<2x4x16xf32>
}

// -----

// Nothing else reads the operand: no second result, and any number of columns.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x7xf32>, %b: tensor<7xf32>) -> tensor<4x7xf32> {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: %[[S:.+]] = nn.add
  // CHECK-NEXT: %[[R:.+]] = nn.gelu %[[S]] approximate
  // CHECK-NEXT: nn.yield %[[R]] :
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x7xf32>) -> tensor<4x7xf32>
  %1 = nn.broadcast %b [1] : tensor<7xf32> -> tensor<4x7xf32>
  %2 = nn.add %0, %1 : tensor<4x7xf32>
  %3 = nn.gelu %2 approximate : tensor<4x7xf32>
  return %3 : tensor<4x7xf32>
}

// -----

// Of a GELU with the error function, only the bias: cuBLASLt has the tanh form.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>) {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.kernel
  // CHECK-NEXT: nn.gelu
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.broadcast %b [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = nn.add %0, %1 : tensor<4x8xf32>
  %3 = nn.gelu %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// -----

// Operands of GELUs are kept in rows of a multiple of 8.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x7xf32>, %b: tensor<7xf32>) -> (tensor<4x7xf32>, tensor<4x7xf32>) {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.kernel
  // CHECK-NEXT: nn.gelu
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x7xf32>) -> tensor<4x7xf32>
  %1 = nn.broadcast %b [1] : tensor<7xf32> -> tensor<4x7xf32>
  %2 = nn.add %0, %1 : tensor<4x7xf32>
  %3 = nn.gelu %2 approximate : tensor<4x7xf32>
  return %3, %2 : tensor<4x7xf32>, tensor<4x7xf32>
}

// -----

// The operand of a ReLU cannot be kept.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.kernel
  // CHECK-NEXT: nn.relu
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.broadcast %b [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = nn.add %0, %1 : tensor<4x8xf32>
  %3 = nn.relu %2 : tensor<4x8xf32>
  return %3, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// What reads the operand before the GELU would have to wait for it.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.yield
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.broadcast %b [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = nn.add %0, %1 : tensor<4x8xf32>
  %3 = nn.neg %2 : tensor<4x8xf32>
  %4 = nn.gelu %2 approximate : tensor<4x8xf32>
  return %3, %4 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Something else reads the product.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.kernel
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.broadcast %b [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = nn.add %0, %1 : tensor<4x8xf32>
  return %0, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A value for each row, not for each column.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<4xf32>) -> (tensor<4x8xf32>) {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.kernel
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.broadcast %b [0] : tensor<4xf32> -> tensor<4x8xf32>
  %2 = nn.add %0, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// A model that asks for the two in different stages gets them there.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>) {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: nn.kernel
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] {step.stage_hint = 0 : i64} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.broadcast %b [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = nn.add %0, %1 {step.stage_hint = 1 : i64} : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// A batch of products.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<2x4x8xf32>, %w: tensor<2x8x8xf32>, %b: tensor<8xf32>) -> tensor<2x4x8xf32> {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.yield
  %0 = nn.dot_general %x, %w batch [0] x [0] contract [2] x [1] : (tensor<2x4x8xf32>, tensor<2x8x8xf32>) -> tensor<2x4x8xf32>
  %1 = nn.broadcast %b [2] : tensor<8xf32> -> tensor<2x4x8xf32>
  %2 = nn.add %0, %1 : tensor<2x4x8xf32>
  return %2 : tensor<2x4x8xf32>
}

// -----

// The bias is one of the factors.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8xf32>, %w: tensor<8x8xf32>) -> tensor<8xf32> {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.yield
  %0 = nn.dot_general %x, %w batch [] x [] contract [0] x [0] : (tensor<8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
  %1 = nn.broadcast %x [0] : tensor<8xf32> -> tensor<8xf32>
  %2 = nn.add %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// A short product gives f32 instead of being widened.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.cast
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.yield
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %1 = nn.cast %0 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %2 = nn.broadcast %b [1] : tensor<8xf32> -> tensor<4x8xf32>
  %3 = nn.add %1, %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// -----

// Where generated code goes on, it reads the short product.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4x8xf16>, %w: tensor<8x8xf16>, %b: tensor<8xf32>) -> tensor<4x8xf16> {
  // CHECK: nn.dot_general
  // CHECK-NEXT: nn.yield
  // CHECK: nn.cast
  // CHECK-NEXT: nn.broadcast
  // CHECK-NEXT: nn.add
  // CHECK-NEXT: nn.relu
  // CHECK-NEXT: nn.cast
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<4x8xf16>, tensor<8x8xf16>) -> tensor<4x8xf16>
  %1 = nn.cast %0 : tensor<4x8xf16> -> tensor<4x8xf32>
  %2 = nn.broadcast %b [1] : tensor<8xf32> -> tensor<4x8xf32>
  %3 = nn.add %1, %2 : tensor<4x8xf32>
  %4 = nn.relu %3 : tensor<4x8xf32>
  %5 = nn.cast %4 : tensor<4x8xf32> -> tensor<4x8xf16>
  return %5 : tensor<4x8xf16>
}
