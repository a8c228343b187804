// Folders and canonicalization patterns.
// RUN: pp-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @cast_same(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
func.func @cast_same(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = nn.cast %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @cast_other(
func.func @cast_other(%x: tensor<4xf32>) -> tensor<4xi64> {
  // CHECK-NEXT: nn.cast
  %0 = nn.cast %x : tensor<4xf32> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// CHECK-LABEL: func.func @reshape_same(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
func.func @reshape_same(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = nn.reshape %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @reshape_chain(
// CHECK-SAME: %[[X:.+]]: tensor<4x6xf32>)
func.func @reshape_chain(%x: tensor<4x6xf32>) -> tensor<3x8xf32> {
  // CHECK-NEXT: %[[Y:.+]] = nn.reshape %[[X]] : tensor<4x6xf32> -> tensor<3x8xf32>
  // CHECK-NEXT: return %[[Y]]
  %0 = nn.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  %1 = nn.reshape %0 : tensor<24xf32> -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// CHECK-LABEL: func.func @reshape_back(
// CHECK-SAME: %[[X:.+]]: tensor<4x6xf32>)
func.func @reshape_back(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = nn.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  %1 = nn.reshape %0 : tensor<24xf32> -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @reshape_constant(
func.func @reshape_constant() -> tensor<2x2xi64> {
  // CHECK-NEXT: %[[C:.+]] = nn.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi64>
  // CHECK-NEXT: return %[[C]]
  %0 = nn.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %1 = nn.reshape %0 : tensor<4xi64> -> tensor<2x2xi64>
  return %1 : tensor<2x2xi64>
}

// CHECK-LABEL: func.func @transpose_identity(
// CHECK-SAME: %[[X:.+]]: tensor<4x6xf32>)
func.func @transpose_identity(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = nn.transpose %x [0, 1] : tensor<4x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @transpose_splat(
func.func @transpose_splat() -> tensor<3x2xf32> {
  // CHECK-NEXT: nn.constant dense<1.000000e+00> : tensor<3x2xf32>
  // CHECK-NEXT: return
  %0 = nn.constant dense<1.0> : tensor<2x3xf32>
  %1 = nn.transpose %0 [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// A constant that is not a splat stays as it is: folding it would copy it.
// CHECK-LABEL: func.func @transpose_table(
func.func @transpose_table() -> tensor<2x1xi64> {
  // CHECK: nn.transpose
  %0 = nn.constant dense<[[1, 2]]> : tensor<1x2xi64>
  %1 = nn.transpose %0 [1, 0] : tensor<1x2xi64> -> tensor<2x1xi64>
  return %1 : tensor<2x1xi64>
}

// CHECK-LABEL: func.func @broadcast_same(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
func.func @broadcast_same(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = nn.broadcast %x [0] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @broadcast_splat(
func.func @broadcast_splat() -> tensor<2x3xf32> {
  // CHECK-NEXT: nn.constant dense<2.000000e+00> : tensor<2x3xf32>
  // CHECK-NEXT: return
  %0 = nn.constant dense<2.0> : tensor<f32>
  %1 = nn.broadcast %0 [] : tensor<f32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// The axes of a product can be named in any order, so transposes of operands
// go away.
// CHECK-LABEL: func.func @dot_of_transposed(
// CHECK-SAME: %[[X:.+]]: tensor<4x8xf32>, %[[W:.+]]: tensor<5x8xf32>)
func.func @dot_of_transposed(%x: tensor<4x8xf32>, %w: tensor<5x8xf32>) -> tensor<4x5xf32> {
  // CHECK-NEXT: %[[Y:.+]] = nn.dot_general %[[X]], %[[W]] batch [] x [] contract [1] x [1]
  // CHECK-NEXT: return %[[Y]]
  %0 = nn.transpose %w [1, 0] : tensor<5x8xf32> -> tensor<8x5xf32>
  %1 = nn.dot_general %x, %0 batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return %1 : tensor<4x5xf32>
}

// Attention: the heads come in front of the tokens.
// CHECK-LABEL: func.func @dot_of_heads(
// CHECK-SAME: %[[Q:.+]]: tensor<2x16x4x8xf32>, %[[K:.+]]: tensor<2x16x4x8xf32>)
func.func @dot_of_heads(%q: tensor<2x16x4x8xf32>, %k: tensor<2x16x4x8xf32>) -> tensor<2x4x16x16xf32> {
  // CHECK-NEXT: nn.dot_general %[[Q]], %[[K]] batch [0, 2] x [0, 2] contract [3] x [3]
  // CHECK-NEXT: return
  %0 = nn.transpose %q [0, 2, 1, 3] : tensor<2x16x4x8xf32> -> tensor<2x4x16x8xf32>
  %1 = nn.transpose %k [0, 2, 3, 1] : tensor<2x16x4x8xf32> -> tensor<2x4x8x16xf32>
  %2 = nn.dot_general %0, %1 batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x16x16xf32>
  return %2 : tensor<2x4x16x16xf32>
}

// Two free axes in another order would change the order of the result's.
// CHECK-LABEL: func.func @dot_keeps_order(
func.func @dot_keeps_order(%x: tensor<4x3x8xf32>, %w: tensor<5x8xf32>) -> tensor<3x4x5xf32> {
  // CHECK-NEXT: nn.transpose
  // CHECK-NEXT: nn.dot_general
  %0 = nn.transpose %x [1, 0, 2] : tensor<4x3x8xf32> -> tensor<3x4x8xf32>
  %1 = nn.dot_general %0, %w batch [] x [] contract [2] x [1] : (tensor<3x4x8xf32>, tensor<5x8xf32>) -> tensor<3x4x5xf32>
  return %1 : tensor<3x4x5xf32>
}

// What nobody reads goes away, what changes a state stays.
ml_program.global private mutable @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
// CHECK-LABEL: func.func @dead(
func.func @dead(%x: tensor<4xf32>) {
  // CHECK-NEXT: %[[P:.+]] = nn.parameter @w
  // CHECK-NEXT: nn.accumulate gradient @w, %[[P]]
  // CHECK-NEXT: return
  %0 = nn.parameter @w : tensor<4xf32>
  %1 = nn.exp %x : tensor<4xf32>
  nn.accumulate gradient @w, %0 : tensor<4xf32>
  return
}

// Indices that count through all samples are split into those of one.
// CHECK-LABEL: func.func @gather_from_samples(
// CHECK-SAME: %[[X:.+]]: tensor<12x5xf32>)
func.func @gather_from_samples(%x: tensor<12x5xf32>) -> tensor<1x3x2x5xf32> {
  // CHECK-DAG: %[[I:.+]] = nn.constant dense<[3, 1]> : tensor<2xi64>
  // CHECK-DAG: %[[S:.+]] = nn.reshape %[[X]] : tensor<12x5xf32> -> tensor<3x4x5xf32>
  // CHECK: %[[G:.+]] = nn.gather %[[S]][%[[I]]] axis 1 : (tensor<3x4x5xf32>, tensor<2xi64>) -> tensor<3x2x5xf32>
  // CHECK: nn.reshape %[[G]] : tensor<3x2x5xf32> -> tensor<1x3x2x5xf32>
  %i = nn.constant dense<[[[3, 1], [7, 5], [11, 9]]]> : tensor<1x3x2xi64>
  %0 = nn.gather %x[%i] axis 0 : (tensor<12x5xf32>, tensor<1x3x2xi64>) -> tensor<1x3x2x5xf32>
  return %0 : tensor<1x3x2x5xf32>
}

// CHECK-LABEL: func.func @gather_all(
// CHECK-SAME: %[[X:.+]]: tensor<2x6xf32>)
func.func @gather_all(%x: tensor<2x6xf32>) -> tensor<2x3x2xf32> {
  // CHECK-NEXT: %[[Y:.+]] = nn.reshape %[[X]] : tensor<2x6xf32> -> tensor<2x3x2xf32>
  // CHECK-NEXT: return %[[Y]]
  %i = nn.constant dense<[[0, 1], [2, 3], [4, 5]]> : tensor<3x2xi64>
  %0 = nn.gather %x[%i] axis 1 : (tensor<2x6xf32>, tensor<3x2xi64>) -> tensor<2x3x2xf32>
  return %0 : tensor<2x3x2xf32>
}

// Each slice has a place of its own: a gather by the inverse permutation, in
// the same part of the step.
// CHECK-LABEL: func.func @scatter_permuted(
// CHECK-SAME: %[[U:.+]]: tensor<2x3xf32>
func.func @scatter_permuted(%u: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x4xf32>) {
  // CHECK: %[[I:.+]] = nn.constant {step.origin = 1 : i64, step.phase = #step.phase<backward_input>} dense<[1, 2, 0]> : tensor<3xi64>
  // CHECK: nn.gather %[[U]][%[[I]]] axis 1 {step.origin = 1 : i64, step.phase = #step.phase<backward_input>}
  %i = nn.constant dense<[2, 0, 1]> : tensor<3xi64>
  %0 = nn.scatter_add %u at [%i] axis 1 {step.origin = 1 : i64, step.phase = #step.phase<backward_input>} : (tensor<3xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // Two have the same place; one place has none.
  // CHECK: nn.scatter_add
  %j = nn.constant dense<[2, 2, 1]> : tensor<3xi64>
  %1 = nn.scatter_add %u at [%j] axis 1 : (tensor<3xi64>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: nn.scatter_add
  %2 = nn.scatter_add %u at [%i] axis 1 : (tensor<3xi64>, tensor<2x3xf32>) -> tensor<2x4xf32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x4xf32>
}

// One that is not trained stays so.
// Along the axis itself, whatever its indices look like; not where the axes come
// back in another order.
// CHECK-LABEL: func.func @gather_in_place(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x6xf32>, %[[I:.+]]: tensor<4x5xi64>
func.func @gather_in_place(%x: tensor<2x3x6xf32>, %i: tensor<4x5xi64>) -> (tensor<2x4x5x6xf32>, tensor<6x2x4x5xf32>) {
  // CHECK: nn.gather %[[X]][%[[I]]] axis 1 untrained 2 : (tensor<2x3x6xf32>, tensor<4x5xi64>) -> tensor<2x4x5x6xf32>
  %0 = nn.transpose %x [1, 0, 2] : tensor<2x3x6xf32> -> tensor<3x2x6xf32>
  %1 = nn.gather %0[%i] axis 0 untrained 2 : (tensor<3x2x6xf32>, tensor<4x5xi64>) -> tensor<4x5x2x6xf32>
  %2 = nn.transpose %1 [2, 0, 1, 3] : tensor<4x5x2x6xf32> -> tensor<2x4x5x6xf32>
  // CHECK-NEXT: nn.gather {{.*}} axis 0
  // CHECK-NEXT: nn.transpose
  %3 = nn.gather %0[%i] axis 0 : (tensor<3x2x6xf32>, tensor<4x5xi64>) -> tensor<4x5x2x6xf32>
  %4 = nn.transpose %3 [3, 2, 0, 1] : tensor<4x5x2x6xf32> -> tensor<6x2x4x5xf32>
  return %2, %4 : tensor<2x4x5x6xf32>, tensor<6x2x4x5xf32>
}

// CHECK-LABEL: func.func @gather_untrained(
func.func @gather_untrained(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // CHECK: nn.gather {{.*}} axis 0 untrained 1
  %i = nn.constant dense<[0, 1]> : tensor<2xi64>
  %0 = nn.gather %x[%i] axis 0 untrained 1 : (tensor<2x6xf32>, tensor<2xi64>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// An index that reaches into the next sample stays, and so does one from the end.
// CHECK-LABEL: func.func @gather_across(
func.func @gather_across(%x: tensor<8xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  // CHECK: nn.gather {{.*}} : (tensor<8xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
  // CHECK: nn.gather {{.*}} : (tensor<8xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
  %i = nn.constant dense<[[3, 4], [7, 0]]> : tensor<2x2xi64>
  %0 = nn.gather %x[%i] axis 0 : (tensor<8xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
  %j = nn.constant dense<[[-8, 1], [-4, 5]]> : tensor<2x2xi64>
  %1 = nn.gather %x[%j] axis 0 : (tensor<8xf32>, tensor<2x2xi64>) -> tensor<2x2xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}

// Zeros where the weights are no numbers. What else reads them has them as they are.
// CHECK-LABEL: func.func @zeroed_softmax(
// CHECK-SAME: %[[X:.+]]: tensor<2x4xf32>)
func.func @zeroed_softmax(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  // CHECK-DAG: %[[P:.+]] = nn.softmax %[[X]] : tensor<2x4xf32>
  // CHECK-DAG: %[[W:.+]] = nn.softmax %[[X]] zeroed : tensor<2x4xf32>
  // CHECK: return %[[W]], %[[P]]
  %p = nn.softmax %x : tensor<2x4xf32>
  %zero = nn.constant dense<0.0> : tensor<2x4xf32>
  %n = nn.compare ne %p, %p : tensor<2x4xf32> -> tensor<2x4xi1>
  %w = nn.select %n, %zero, %p : tensor<2x4xi1>, tensor<2x4xf32>
  return %w, %p : tensor<2x4xf32>, tensor<2x4xf32>
}

// Another number, another order, or of another value.
// CHECK-LABEL: func.func @not_zeroed(
func.func @not_zeroed(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  // CHECK-COUNT-3: nn.select
  // CHECK-NOT: zeroed
  %p = nn.softmax %x : tensor<2x4xf32>
  %one = nn.constant dense<1.0> : tensor<2x4xf32>
  %zero = nn.constant dense<0.0> : tensor<2x4xf32>
  %n = nn.compare ne %p, %p : tensor<2x4xf32> -> tensor<2x4xi1>
  %m = nn.compare ne %x, %x : tensor<2x4xf32> -> tensor<2x4xi1>
  %0 = nn.select %n, %one, %p : tensor<2x4xi1>, tensor<2x4xf32>
  %1 = nn.select %n, %p, %zero : tensor<2x4xi1>, tensor<2x4xf32>
  %2 = nn.select %m, %zero, %p : tensor<2x4xi1>, tensor<2x4xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// Logarithms of probabilities do not round them first.
// CHECK-LABEL: func.func @log_of_logistic(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
func.func @log_of_logistic(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[N:.+]] = nn.neg %[[X]]
  // CHECK-NEXT: %[[A:.+]] = nn.softplus %[[N]]
  // CHECK-NEXT: %[[P:.+]] = nn.neg %[[A]]
  // CHECK-NEXT: %[[B:.+]] = nn.softplus %[[X]]
  // CHECK-NEXT: %[[Q:.+]] = nn.neg %[[B]]
  // CHECK-NEXT: return %[[P]], %[[Q]]
  %one = nn.constant dense<1.0> : tensor<4xf32>
  %p = nn.logistic %x : tensor<4xf32>
  %0 = nn.log %p : tensor<4xf32>
  %q = nn.sub %one, %p : tensor<4xf32>
  %1 = nn.log %q : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Others, and what a maximum bounds.
// CHECK-LABEL: func.func @log_of_others(
func.func @log_of_others(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-3: nn.log %
  %two = nn.constant dense<2.0> : tensor<4xf32>
  %p = nn.logistic %x : tensor<4xf32>
  %q = nn.sub %two, %p : tensor<4xf32>
  %0 = nn.log %q : tensor<4xf32>
  %t = nn.tanh %x : tensor<4xf32>
  %1 = nn.log %t : tensor<4xf32>
  %one = nn.constant dense<1.0> : tensor<4xf32>
  %least = nn.constant dense<-100.0> : tensor<4xf32>
  %r = nn.sub %one, %p : tensor<4xf32>
  %2 = nn.log %r : tensor<4xf32>
  %3 = nn.maximum %2, %least : tensor<4xf32>
  return %0, %1, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Places of a window that see nothing but padding are left out: all but the
// middle, the last of one axis and the first of the other, none.
// CHECK-LABEL: func.func @narrow_windows(
// CHECK-SAME: %[[X:.+]]: tensor<1x8x6x6xf32>, %[[W:.+]]: tensor<4x8x3x3xf32>, %[[V:.+]]: tensor<4x8x2x2xf32>)
func.func @narrow_windows(%x: tensor<1x8x6x6xf32>, %w: tensor<4x8x3x3xf32>, %v: tensor<4x8x2x2xf32>) -> (tensor<1x4x6x6xf32>, tensor<1x4x3x3xf32>, tensor<1x4x6x6xf32>, tensor<1x4x2x2xf32>) {
  // CHECK-DAG: %[[M:.+]] = nn.slice %[[W]] starts [0, 0, 1, 1] limits [4, 8, 2, 2] strides [1, 1, 1, 1]
  // CHECK-DAG: nn.conv %[[X]], %[[M]] strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1
  %0 = nn.conv %x, %w strides [1, 1] dilations [6, 7] pad [6, 7] x [6, 7] groups 1 : (tensor<1x8x6x6xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x6x6xf32>
  // CHECK-DAG: %[[P:.+]] = nn.slice %[[W]] starts [0, 0, 0, 1] limits [4, 8, 2, 3] strides [1, 1, 1, 1]
  // CHECK-DAG: nn.conv %[[X]], %[[P]] strides [1, 1] dilations [3, 3] pad [0, 0] x [0, 0] groups 1
  %1 = nn.conv %x, %w strides [1, 1] dilations [3, 3] pad [0, 3] x [3, 0] groups 1 : (tensor<1x8x6x6xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x3x3xf32>
  // CHECK-DAG: nn.conv %[[X]], %[[W]] strides [1, 1] dilations [5, 5] pad [5, 5] x [5, 5] groups 1
  %2 = nn.conv %x, %w strides [1, 1] dilations [5, 5] pad [5, 5] x [5, 5] groups 1 : (tensor<1x8x6x6xf32>, tensor<4x8x3x3xf32>) -> tensor<1x4x6x6xf32>
  // The second place alone would begin inside.
  // CHECK-DAG: nn.conv %[[X]], %[[V]] strides [8, 8] dilations [4, 4] pad [2, 2] x [5, 5] groups 1
  %3 = nn.conv %x, %v strides [8, 8] dilations [4, 4] pad [2, 2] x [5, 5] groups 1 : (tensor<1x8x6x6xf32>, tensor<4x8x2x2xf32>) -> tensor<1x4x2x2xf32>
  return %0, %1, %2, %3 : tensor<1x4x6x6xf32>, tensor<1x4x3x3xf32>, tensor<1x4x6x6xf32>, tensor<1x4x2x2xf32>
}
