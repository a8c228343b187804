// RUN: pp-opt %s --split-input-file --nn-form-kernels=accumulate | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-form-kernels | FileCheck %s --check-prefix=APART
// RUN: pp-opt %s --split-input-file --nn-form-kernels=accumulate-fast | FileCheck %s --check-prefix=FAST

// The product, and the sum behind an elementwise operation, are added to the
// gradients where they are made; a scatter-add by itself.
// CHECK: nn.kernel(%[[G:.+]] = %{{.+}}, %[[X:.+]] = %{{.+}}) attributes {{.*}}backward_weight{{.*}} -> () {
// CHECK-NEXT: %[[DW:.+]] = nn.dot_general %[[G]], %[[X]]
// CHECK-NEXT: nn.accumulate {{ *}}gradient @w, %[[DW]]
// CHECK-NEXT: nn.yield
// CHECK: nn.kernel({{.*}}) attributes {{.*}} -> () {
// CHECK-NEXT: %[[E:.+]] = nn.exp
// CHECK-NEXT: %[[DB:.+]] = nn.reduce sum %[[E]]
// CHECK-NEXT: nn.accumulate {{ *}}gradient @b, %[[DB]]
// CHECK: nn.scatter_add
// CHECK-NEXT: nn.yield
// CHECK: nn.accumulate {{ *}}gradient @table, %{{[0-9]+}} {step

// APART: nn.dot_general
// APART-NEXT: nn.yield
// APART: nn.accumulate {{ *}}gradient @w, %{{[0-9]+}} {step

// A scatter-add of f32 leaves most rows alone, on any processor; small products
// are better apart.
// FAST: nn.dot_general
// FAST-NEXT: nn.yield
// FAST: nn.accumulate {{ *}}gradient @w, %{{[0-9]+}} {step
// FAST: nn.kernel(%{{.+}} = %{{.+}}, %{{.+}} = %{{.+}}) attributes {{.*}} -> () {
// FAST-NEXT: %[[DT:.+]] = nn.scatter_add
// FAST-NEXT: nn.accumulate {{ *}}gradient @table, %[[DT]]
// FAST-NEXT: nn.yield
ml_program.global private mutable @w(dense<0.0> : tensor<10x8xf32>) : tensor<10x8xf32>
ml_program.global private mutable @b(dense<0.0> : tensor<10xf32>) : tensor<10xf32>
ml_program.global private mutable @table(dense<0.0> : tensor<6x10xf32>) : tensor<6x10xf32>
func.func @main(%x: tensor<4x8xf32>, %g: tensor<4x10xf32>, %i: tensor<4xi64>) {
  %dw = nn.dot_general %g, %x batch [] x [] contract [0] x [0] {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : (tensor<4x10xf32>, tensor<4x8xf32>) -> tensor<10x8xf32>
  nn.accumulate gradient @w, %dw {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<10x8xf32>
  %e = nn.exp %g {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4x10xf32>
  %db = nn.reduce sum %e [0] {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4x10xf32> -> tensor<10xf32>
  nn.accumulate gradient @b, %db {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<10xf32>
  %dt = nn.scatter_add %g at [%i] axis 0 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : (tensor<4xi64>, tensor<4x10xf32>) -> tensor<6x10xf32>
  nn.accumulate gradient @table, %dt {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<6x10xf32>
  return
}

// -----

// Not what something else reads, the maximum, a product of a value with itself,
// what another phase adds, and statistics.
// CHECK-COUNT-5: nn.accumulate {{.*}} {step
// CHECK-NOT: nn.accumulate
ml_program.global private mutable @a(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
ml_program.global private mutable @b(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
ml_program.global private mutable @c(dense<0.0> : tensor<4x4xf32>) : tensor<4x4xf32>
ml_program.global private mutable @d(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.reduce sum %x [1] {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4x8xf32> -> tensor<4xf32>
  nn.accumulate gradient @a, %0 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4xf32>
  %1 = nn.reduce max %x [1] {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4x8xf32> -> tensor<4xf32>
  nn.accumulate gradient @b, %1 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4xf32>
  %2 = nn.dot_general %x, %x batch [] x [] contract [1] x [1] {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  nn.accumulate gradient @c, %2 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4x4xf32>
  %3 = nn.exp %y {step.origin = 0 : i64, step.phase = #step.phase<backward_input>} : tensor<4xf32>
  nn.accumulate gradient @d, %3 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4xf32>
  %4 = nn.neg %y {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4xf32>
  nn.accumulate statistics @d, %4 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The gradient of a convolution's weights.
// CHECK: nn.kernel({{.*}}) attributes {{.*}} -> () {
// CHECK-NEXT: %[[DW:.+]] = nn.conv_backward_weight
// CHECK-NEXT: nn.accumulate {{ *}}gradient @w, %[[DW]]
// CHECK-NEXT: nn.yield

// APART: nn.conv_backward_weight
// APART-NEXT: nn.yield
ml_program.global private mutable @w(dense<0.0> : tensor<8x4x3x3xf32>) : tensor<8x4x3x3xf32>
func.func @main(%x: tensor<2x4x6x6xf32>, %g: tensor<2x8x6x6xf32>) {
  %dw = nn.conv_backward_weight %x, %g strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : (tensor<2x4x6x6xf32>, tensor<2x8x6x6xf32>) -> tensor<8x4x3x3xf32>
  nn.accumulate gradient @w, %dw {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<8x4x3x3xf32>
  return
}

// -----

// Not along another axis, nor with indices of 32 bits, nor what is copied into
// generated code.
// FAST-LABEL: global private mutable @second_axis
// FAST-NOT: -> () {
ml_program.global private mutable @second_axis(dense<0.0> : tensor<2x6xf32>) : tensor<2x6xf32>
ml_program.global private mutable @b(dense<0.0> : tensor<6x3xf32>) : tensor<6x3xf32>
ml_program.global private mutable @c(dense<0.0> : tensor<6x3xf32>) : tensor<6x3xf32>
func.func @main(%g: tensor<2x4xf32>, %i: tensor<4xi64>, %h: tensor<4x3xf32>, %j: tensor<4xi32>, %k: tensor<3xf32>) {
  %0 = nn.scatter_add %g at [%i] axis 1 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : (tensor<4xi64>, tensor<2x4xf32>) -> tensor<2x6xf32>
  nn.accumulate gradient @second_axis, %0 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<2x6xf32>
  %1 = nn.scatter_add %h at [%j] axis 0 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : (tensor<4xi32>, tensor<4x3xf32>) -> tensor<6x3xf32>
  nn.accumulate gradient @b, %1 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<6x3xf32>
  %2 = nn.broadcast %k [1] {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<3xf32> -> tensor<4x3xf32>
  %3 = nn.scatter_add %2 at [%i] axis 0 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : (tensor<4xi64>, tensor<4x3xf32>) -> tensor<6x3xf32>
  nn.accumulate gradient @c, %3 {step.origin = 0 : i64, step.phase = #step.phase<backward_weight>} : tensor<6x3xf32>
  return
}
