// Masks that the program makes, or that hide something else than what is above the diagonal.
// RUN: split-file %s %t
// RUN: pp-opt %t/fused.mlir --split-input-file --nn-fuse-attention | FileCheck %t/fused.mlir --implicit-check-not=nn.softmax
// RUN: pp-opt %t/fused.mlir --split-input-file --nn-fuse-attention=least-masked-columns=4 | FileCheck %t/fused.mlir --implicit-check-not=nn.softmax
// RUN: pp-opt %t/fused.mlir --split-input-file --nn-fuse-attention=least-masked-columns=5 | FileCheck %s --check-prefix=LEFT --implicit-check-not="nn.attention "
// RUN: pp-opt %t/fused.mlir --split-input-file --nn-fuse-attention=gpu | FileCheck %s --check-prefix=LEFT --implicit-check-not="nn.attention "
// RUN: pp-opt %t/left.mlir --split-input-file --nn-fuse-attention | FileCheck %t/left.mlir --implicit-check-not="nn.attention "

// LEFT-COUNT-8: nn.softmax

//--- fused.mlir
// One for padding: an operand, without what it is repeated along. Rows that it hides as a whole are zeros,
// CHECK-LABEL: func.func @main(
// CHECK: %[[C:.+]] = nn.select %arg3
// CHECK: %[[M:.+]] = nn.reshape %[[C]] : tensor<2x4xf32> -> tensor<2x1x1x4xf32>
// CHECK: nn.attention %arg0 [0, 1, 2, 3], %arg1 [0, 1, 2, 3], %arg2 [0, 1, 2, 3] mask %[[M]] zeroed scale 1.000000e+00 output
// CHECK-NEXT: return
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %zero = nn.constant dense<0.0> : tensor<2x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<2x4xf32>
  %c = nn.select %i, %zero, %low : tensor<2x4xi1>, tensor<2x4xf32>
  %m = nn.broadcast %c [0, 3] : tensor<2x4xf32> -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %w = nn.softmax %a zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// or no numbers.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} mask %{{[^ ]+}} scale
// CHECK-NEXT: return
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %zero = nn.constant dense<0.0> : tensor<2x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<2x4xf32>
  %c = nn.select %i, %zero, %low : tensor<2x4xi1>, tensor<2x4xf32>
  %m = nn.broadcast %c [0, 3] : tensor<2x4xf32> -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %p = nn.softmax %a : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// First in the sum, behind a scale of the scores. What all samples have is there once.
// CHECK-LABEL: func.func @main(
// CHECK: %[[M:.+]] = nn.reshape %arg3 : tensor<4x4xf32> -> tensor<1x1x4x4xf32>
// CHECK: nn.attention {{.*}} mask %[[M]] zeroed scale 5.000000e-01 output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %c: tensor<4x4xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %m = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %h = nn.constant dense<0.5> : tensor<2x3x4x4xf32>
  %x = nn.mul %s, %h : tensor<2x3x4x4xf32>
  %a = nn.add %m, %x : tensor<2x3x4x4xf32>
  %w = nn.softmax %a zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// One that has all axes, or no columns of its own, is as it is.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} mask %arg3 zeroed scale
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %m: tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %w = nn.softmax %a zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// CHECK-LABEL: func.func @main(
// CHECK: %[[M:.+]] = nn.broadcast %arg3 [0, 2]
// CHECK: nn.attention {{.*}} mask %[[M]] zeroed scale
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %c: tensor<2x4xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %m = nn.broadcast %c [0, 2] : tensor<2x4xf32> -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %w = nn.softmax %a zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A window, from numbers that are not trained. A value of integers has no derivative.
ml_program.global private mutable @w(dense<0.0> : tensor<3x4x4xf32>) : tensor<3x4x4xf32>
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} mask
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %x: tensor<2x3x4x4xi64>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %t = nn.parameter @w : tensor<3x4x4xf32>
  %d = nn.broadcast %t [1, 2, 3] : tensor<3x4x4xf32> -> tensor<2x3x4x4xf32>
  %f = nn.cast %x : tensor<2x3x4x4xi64> -> tensor<2x3x4x4xf32>
  %m = nn.mul %d, %f : tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %w = nn.softmax %a zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Scores that are replaced; a scale behind an infinity.
// CHECK-LABEL: func.func @main(
// CHECK: %[[C:.+]] = nn.reshape %arg3 : tensor<2x4xi1> -> tensor<2x1x1x4xi1>
// CHECK: %[[L:.+]] = nn.constant dense<0xFF800000> : tensor<2x1x1x4xf32>
// CHECK: %[[Z:.+]] = nn.constant dense<0.000000e+00> : tensor<2x1x1x4xf32>
// CHECK: %[[M:.+]] = nn.select %[[C]], %[[L]], %[[Z]]
// CHECK: nn.attention {{.*}} mask %[[M]] scale 5.000000e-01
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %c = nn.broadcast %i [0, 3] : tensor<2x4xi1> -> tensor<2x3x4x4xi1>
  %a = nn.select %c, %low, %s : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %h = nn.constant dense<0.5> : tensor<2x3x4x4xf32>
  %b = nn.mul %a, %h : tensor<2x3x4x4xf32>
  %p = nn.softmax %b : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Several are added up, also with what is above the diagonal: a row may be hidden by both. What hides nothing is not.
// CHECK-LABEL: func.func @main(
// CHECK-DAG: %[[A:.+]] = nn.reshape %{{.+}} : tensor<4x4xf32> -> tensor<1x1x4x4xf32>
// CHECK-DAG: %[[P:.+]] = nn.reshape %{{.+}} : tensor<2x4xf32> -> tensor<2x1x1x4xf32>
// CHECK-DAG: nn.broadcast %{{.+}} [1, 2, 3] : tensor<1x4x4xf32> -> tensor<2x1x4x4xf32>
// CHECK-DAG: nn.broadcast %{{.+}} [0, 1, 3] : tensor<2x1x4xf32> -> tensor<2x1x4x4xf32>
// CHECK: %[[M:.+]] = nn.add %{{.+}}, %{{.+}} : tensor<2x1x4x4xf32>
// CHECK: nn.attention {{.*}} mask %[[M]] zeroed scale 1.0
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %zero = nn.constant dense<0.0> : tensor<2x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<2x4xf32>
  %c = nn.select %i, %zero, %low : tensor<2x4xi1>, tensor<2x4xf32>
  %pad = nn.broadcast %c [0, 3] : tensor<2x4xf32> -> tensor<2x3x4x4xf32>
  %rows = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %m = nn.broadcast %rows [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %nothing = nn.constant dense<0.0> : tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %b0 = nn.add %a, %nothing : tensor<2x3x4x4xf32>
  %b = nn.add %pad, %b0 : tensor<2x3x4x4xf32>
  %w = nn.softmax %b zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

//--- left.mlir
// A scale behind a mask that is added.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %zero = nn.constant dense<0.0> : tensor<2x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<2x4xf32>
  %c = nn.select %i, %zero, %low : tensor<2x4xi1>, tensor<2x4xf32>
  %m = nn.broadcast %c [0, 3] : tensor<2x4xf32> -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %h = nn.constant dense<0.5> : tensor<2x3x4x4xf32>
  %b = nn.mul %a, %h : tensor<2x3x4x4xf32>
  %w = nn.softmax %b zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A trained bias, also behind other operations.
ml_program.global private mutable @w(dense<0.0> : tensor<3x4x4xf32>) : tensor<3x4x4xf32> {nn.trained}
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %t = nn.parameter @w : tensor<3x4x4xf32>
  %d = nn.broadcast %t [1, 2, 3] : tensor<3x4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.neg %d : tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %w = nn.softmax %a zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A sum of what are no scores.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %x: tensor<2x3x4x4xf32>, %y: tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %a = nn.add %x, %y : tensor<2x3x4x4xf32>
  %w = nn.softmax %a zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Heads before samples.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %m: tensor<2x3x4x4xf32>) -> tensor<3x2x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %m : tensor<2x3x4x4xf32>
  %w = nn.softmax %a zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [1, 0] x [1, 0] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<3x2x4x8xf32>
  return %o : tensor<3x2x4x8xf32>
}

// -----

// Scores in whose place is a finite number: where it hides a row, they have no derivative, and in a sum they would,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %low = nn.constant dense<0xFF7FFFFF> : tensor<2x3x4x4xf32>
  %c = nn.broadcast %i [0, 3] : tensor<2x4xi1> -> tensor<2x3x4x4xi1>
  %a = nn.select %c, %low, %s : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %p = nn.softmax %a : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// or the sum is another number,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %low = nn.constant dense<-1.0e+09> : tensor<2x3x4x4xf32>
  %c = nn.broadcast %i [0, 3] : tensor<2x4xi1> -> tensor<2x3x4x4xi1>
  %a = nn.select %c, %low, %s : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %p = nn.softmax %a : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// one that differs,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>, %low: tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.broadcast %i [0, 3] : tensor<2x4xi1> -> tensor<2x3x4x4xi1>
  %a = nn.select %c, %low, %s : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %p = nn.softmax %a : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// or an infinity that becomes a positive one.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %i: tensor<2x4xi1>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %c = nn.broadcast %i [0, 3] : tensor<2x4xi1> -> tensor<2x3x4x4xi1>
  %a = nn.select %c, %low, %s : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %h = nn.constant dense<-0.5> : tensor<2x3x4x4xf32>
  %b = nn.mul %a, %h : tensor<2x3x4x4xf32>
  %p = nn.softmax %b : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}
