// What nn-fuse-attention finds, and what it leaves. Masks of left.mlir are operands on a processor (fuse-attention-masks.mlir).
// RUN: split-file %s %t
// RUN: %python -c "import struct; open(r'%t/mask.bin', 'wb').write(struct.pack('<16f', *(float('-inf') if j > i else 0 for i in range(4) for j in range(4))))"
// RUN: cd %t && pp-opt %t/fused.mlir --split-input-file --nn-fuse-attention | FileCheck %t/fused.mlir --implicit-check-not=nn.softmax
// RUN: cd %t && pp-opt %t/left.mlir --split-input-file --nn-fuse-attention=gpu | FileCheck %t/left.mlir --implicit-check-not="nn.attention "
// RUN: pp-opt %t/gpu.mlir --split-input-file --nn-fuse-attention=gpu | FileCheck %t/gpu.mlir --implicit-check-not="nn.attention "
// RUN: pp-opt %t/gpu.mlir --split-input-file --nn-fuse-attention | FileCheck %t/gpu.mlir --check-prefix=ALL --implicit-check-not=nn.softmax

//--- fused.mlir
// No scale and no mask. What remains is dead and gone.
// CHECK-LABEL: func.func @main(
// CHECK: %[[O:.+]], %{{.+}} = nn.attention %arg0 [0, 1, 2, 3], %arg1 [0, 1, 2, 3], %arg2 [0, 1, 2, 3] scale 1.000000e+00 output [0, 1, 2, 3] : ({{.*}}) -> (tensor<2x3x4x8xf32>, tensor<2x3x4xf32>)
// CHECK-NEXT: return %[[O]]
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// The scale of the scores, as a factor or a divisor; a causal mask that is added.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} scale 2.500000e-01 causal output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %t = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %f = nn.constant dense<4.0> : tensor<2x3x4x4xf32>
  %s = nn.div %t, %f : tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A scale of the query, one of the key, and the mask first in the sum. The minimum of f32 is as good as an infinity.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention %arg0 [0, 1, 2, 3], %arg1 [0, 1, 2, 3], {{.*}} scale 2.500000e-01 causal output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %h = nn.constant dense<0.5> : tensor<2x3x4x8xf32>
  %q1 = nn.mul %h, %q : tensor<2x3x4x8xf32>
  %k1 = nn.mul %k, %h : tensor<2x3x4x8xf32>
  %s = nn.dot_general %q1, %k1 batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0xFF7FFFFF, 0xFF7FFFFF, 0xFF7FFFFF], [0.0, 0.0, 0xFF7FFFFF, 0xFF7FFFFF], [0.0, 0.0, 0.0, 0xFF7FFFFF], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %b, %s : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A scale behind the mask: infinities stay infinite.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} scale 5.000000e-01 causal output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %b : tensor<2x3x4x4xf32>
  %h = nn.constant dense<0.5> : tensor<2x3x4x4xf32>
  %m = nn.mul %a, %h : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Rows and heads in the order of a projection: transposes become axes. The columns of a key that was transposed with batch and heads as one axis lie side by side.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention %arg0 [0, 2, 1, 3], %arg1 [0, 1, 2, 3], %arg2 [0, 2, 1, 3] scale 1.000000e+00 output [0, 2, 1, 3] : ({{.*}}) -> (tensor<2x4x3x8xf32>, tensor<2x3x4xf32>)
func.func @main(%q: tensor<2x4x3x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %q1 = nn.transpose %q [0, 2, 1, 3] : tensor<2x4x3x8xf32> -> tensor<2x3x4x8xf32>
  %k1 = nn.reshape %k : tensor<2x3x4x8xf32> -> tensor<6x4x8xf32>
  %k2 = nn.transpose %k1 [0, 2, 1] : tensor<6x4x8xf32> -> tensor<6x8x4xf32>
  %k3 = nn.reshape %k2 : tensor<6x8x4xf32> -> tensor<2x3x8x4xf32>
  %m = nn.dot_general %q1, %k3 batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x8xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %v1 = nn.transpose %v [0, 2, 1, 3] : tensor<2x4x3x8xf32> -> tensor<2x3x4x8xf32>
  %o1 = nn.dot_general %p, %v1 batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %o = nn.transpose %o1 [0, 2, 1, 3] : tensor<2x3x4x8xf32> -> tensor<2x4x3x8xf32>
  return %o : tensor<2x4x3x8xf32>
}

// -----

// Such a key that never had four axes: a view.
// CHECK-LABEL: func.func @main(
// CHECK: %[[K:.+]] = nn.reshape %arg1 : tensor<6x4x8xf32> -> tensor<2x3x4x8xf32>
// CHECK: nn.attention %arg0 [0, 1, 2, 3], %[[K]] [0, 1, 2, 3], %arg2
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<6x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %k2 = nn.transpose %k [0, 2, 1] : tensor<6x4x8xf32> -> tensor<6x8x4xf32>
  %k3 = nn.reshape %k2 : tensor<6x8x4xf32> -> tensor<2x3x8x4xf32>
  %m = nn.dot_general %q, %k3 batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x8xf32>, tensor<2x3x8x4xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A mask of comparisons selects between the scores and a constant.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} causal output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %i = nn.iota 2 : tensor<1x1x4x4xi64>
  %j = nn.iota 3 : tensor<1x1x4x4xi64>
  %le = nn.compare le %j, %i : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %r = nn.reshape %le : tensor<1x1x4x4xi1> -> tensor<4x4xi1>
  %w = nn.broadcast %r [2, 3] : tensor<4x4xi1> -> tensor<2x3x4x4xi1>
  %n = nn.constant dense<-1.0e+04> : tensor<2x3x4x4xf32>
  %m = nn.select %w, %s, %n : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// The other way around, from tables; operations of masks are computed.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} causal output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %t = nn.constant dense<[[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]> : tensor<4x4xi64>
  %t1 = nn.cast %t : tensor<4x4xi64> -> tensor<4x4xi1>
  %t2 = nn.not %t1 : tensor<4x4xi1>
  %w = nn.broadcast %t2 [2, 3] : tensor<4x4xi1> -> tensor<2x3x4x4xi1>
  %n = nn.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %m = nn.select %w, %n, %s : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// (1 - mask) * -1e9, added.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} causal output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %t = nn.constant dense<[[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]> : tensor<4x4xf32>
  %one = nn.constant dense<1.0> : tensor<4x4xf32>
  %big = nn.constant dense<-1.0e+09> : tensor<4x4xf32>
  %t1 = nn.sub %one, %t : tensor<4x4xf32>
  %t2 = nn.mul %t1, %big : tensor<4x4xf32>
  %b = nn.broadcast %t2 [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A mask that hides nothing is none; so one row of one column is causal or not.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention %{{.+}} [0, 1, 2, 3], %{{.+}} [0, 1, 2, 3], %{{.+}} [0, 1, 2, 3] scale 1.000000e+00 output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %b = nn.constant dense<0.0> : tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Queries and keys of other numbers of rows, values of other columns.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} scale 1.000000e+00 output {{.*}} -> (tensor<2x3x4x6xf32>, tensor<2x3x4xf32>)
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %p = nn.softmax %m : tensor<2x3x4x5xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %o : tensor<2x3x4x6xf32>
}

// -----

// A mask in a file, which is not trained.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} causal output
ml_program.global private @mask(#nn.external<"mask.bin", 0, 64> : tensor<4x4xf32>) : tensor<4x4xf32>
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.parameter @mask : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// The operations of a stage that the model names stay in it.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}}step.stage_hint = 1
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] {step.stage_hint = 1} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %s : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Zeros instead of weights that are no numbers, which PyTorch exports for rows that a mask hides as a whole: no row of this one,
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} causal output
// CHECK-NEXT: return
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %z = nn.constant dense<0.0> : tensor<2x3x4x4xf32>
  %w = nn.softmax %m zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// and none without a mask.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} scale 1.000000e+00 output
// CHECK-NEXT: return
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %z = nn.constant dense<0.0> : tensor<2x3x4x4xf32>
  %w = nn.softmax %s zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// The same mask for each sample.
// CHECK-LABEL: func.func @main(
// CHECK: nn.attention {{.*}} causal output
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]], [[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]]> : tensor<2x4x4xf32>
  %b = nn.broadcast %c [0, 2, 3] : tensor<2x4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

//--- left.mlir
// Something else reads the weights,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o1 = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %r = nn.reduce sum %p [3] : tensor<2x3x4x4xf32> -> tensor<2x3x4xf32>
  %r1 = nn.broadcast %r [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4x8xf32>
  %o = nn.add %o1, %r1 : tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// or the scores.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o1 = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %r = nn.reduce sum %m [3] : tensor<2x3x4x4xf32> -> tensor<2x3x4xf32>
  %r1 = nn.broadcast %r [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4x8xf32>
  %o = nn.add %o1, %r1 : tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A dropout stands between softmax and product.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %d = nn.constant dense<1.25> : tensor<2x3x4x4xf32>
  %p1 = nn.mul %p, %d : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p1, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Weights that are read beside the product.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x4xf32>) {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %w = nn.softmax %s zeroed : tensor<2x3x4x4xf32>
  %o = nn.dot_general %w, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o, %w : tensor<2x3x4x8xf32>, tensor<2x3x4x4xf32>
}

// -----

// A mask that depends on an input, for padding.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %mask: tensor<2x4xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %b = nn.broadcast %mask [0, 3] : tensor<2x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A mask of another form: one column more,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// one that hides below the diagonal,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0.0, 0.0, 0.0], [0xFF800000, 0.0, 0.0, 0.0], [0xFF800000, 0xFF800000, 0.0, 0.0], [0xFF800000, 0xFF800000, 0xFF800000, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// one that adds a bias,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.5, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// one that hides too little,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, -1.0e+03, -1.0e+03, -1.0e+03], [0.0, 0.0, -1.0e+03, -1.0e+03], [0.0, 0.0, 0.0, -1.0e+03], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// also after a scale behind it,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, -1.0e+04, -1.0e+04, -1.0e+04], [0.0, 0.0, -1.0e+04, -1.0e+04], [0.0, 0.0, 0.0, -1.0e+04], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %b : tensor<2x3x4x4xf32>
  %h = nn.constant dense<0.5> : tensor<2x3x4x4xf32>
  %m = nn.mul %a, %h : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// or shows what it hides, with a negative one,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %b : tensor<2x3x4x4xf32>
  %h = nn.constant dense<-1.0> : tensor<2x3x4x4xf32>
  %m = nn.mul %a, %h : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// one that differs from head to head,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %i = nn.iota 1 : tensor<2x3x4x4xf32>
  %m = nn.add %s, %i : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// or from sample to sample,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]]> : tensor<2x4x4xf32>
  %b = nn.broadcast %c [0, 2, 3] : tensor<2x4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// one that selects zeros,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %i = nn.iota 2 : tensor<1x1x4x4xi64>
  %j = nn.iota 3 : tensor<1x1x4x4xi64>
  %le = nn.compare le %j, %i : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %r = nn.reshape %le : tensor<1x1x4x4xi1> -> tensor<4x4xi1>
  %w = nn.broadcast %r [2, 3] : tensor<4x4xi1> -> tensor<2x3x4x4xi1>
  %n = nn.constant dense<0.0> : tensor<2x3x4x4xf32>
  %m = nn.select %w, %s, %n : tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// two of them.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %a = nn.add %s, %b : tensor<2x3x4x4xf32>
  %m = nn.add %a, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A mask that is trained,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
ml_program.global private mutable @mask(#nn.external<"mask.bin", 0, 64> : tensor<4x4xf32>) : tensor<4x4xf32> {nn.trained}
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.parameter @mask : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// whose file cannot be read,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
ml_program.global private @mask(#nn.external<"none.bin", 0, 64> : tensor<4x4xf32>) : tensor<4x4xf32>
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.parameter @mask : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// or is too short,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
ml_program.global private @mask(#nn.external<"mask.bin", 16, 64> : tensor<4x4xf32>) : tensor<4x4xf32>
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.parameter @mask : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// that may be trained elsewhere,
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
ml_program.global private @mask(dense<[[0.0, -1.0e+09, -1.0e+09, -1.0e+09], [0.0, 0.0, -1.0e+09, -1.0e+09], [0.0, 0.0, 0.0, -1.0e+09], [0.0, 0.0, 0.0, 0.0]]> : tensor<4x4xf32>) : tensor<4x4xf32>
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.parameter @mask : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// or may be filled later.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
ml_program.global private @mask(dense<0.0> : tensor<4x4xf32>) : tensor<4x4xf32>
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %c = nn.parameter @mask : tensor<4x4xf32>
  %b = nn.broadcast %c [2, 3] : tensor<4x4xf32> -> tensor<2x3x4x4xf32>
  %m = nn.add %s, %b : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A scale that is not constant.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>, %f: tensor<f32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %t = nn.broadcast %f [] : tensor<f32> -> tensor<2x3x4x4xf32>
  %m = nn.mul %s, %t : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// A scale without an inverse.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %s = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %t = nn.constant dense<0.0> : tensor<2x3x4x4xf32>
  %m = nn.div %s, %t : tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// tensor<2x3x4x4xf32>tages that differ.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] {step.stage_hint = 0} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] {step.stage_hint = 1} : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Weights on the right side.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x8x4xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %v, %p batch [0, 1] x [0, 1] contract [2] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x8x4xf32>
  return %o : tensor<2x3x8x4xf32>
}

// -----

// A softmax over what is not contracted.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x4x8xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [2] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Double precision.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x8xf64>, %k: tensor<2x3x4x8xf64>, %v: tensor<2x3x4x8xf64>) -> tensor<2x3x4x8xf64> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x8xf64>, tensor<2x3x4x8xf64>) -> tensor<2x3x4x4xf64>
  %p = nn.softmax %m : tensor<2x3x4x4xf64>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf64>, tensor<2x3x4x8xf64>) -> tensor<2x3x4x8xf64>
  return %o : tensor<2x3x4x8xf64>
}

// -----

// Tensors of three axes.
// CHECK-LABEL: func.func @main(
// CHECK: nn.softmax
func.func @main(%q: tensor<6x4x8xf32>, %k: tensor<6x4x8xf32>, %v: tensor<6x4x8xf32>) -> tensor<6x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0] x [0] contract [2] x [2] : (tensor<6x4x8xf32>, tensor<6x4x8xf32>) -> tensor<6x4x4xf32>
  %p = nn.softmax %m : tensor<6x4x4xf32>
  %o = nn.dot_general %p, %v batch [0] x [0] contract [2] x [1] : (tensor<6x4x4xf32>, tensor<6x4x8xf32>) -> tensor<6x4x8xf32>
  return %o : tensor<6x4x8xf32>
}

//--- gpu.mlir
// At most 128 columns, a multiple of 8.
// CHECK-LABEL: func.func @main(
// ALL-LABEL: func.func @main(
// ALL: nn.attention %
// CHECK: nn.attention %
func.func @main(%q: tensor<2x3x4x128xf32>, %k: tensor<2x3x4x128xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x128xf32>, tensor<2x3x4x128xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// Not more,
// CHECK-LABEL: func.func @main(
// ALL-LABEL: func.func @main(
// ALL: nn.attention %
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x136xf32>, %k: tensor<2x3x4x136xf32>, %v: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x136xf32>, tensor<2x3x4x136xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %o : tensor<2x3x4x8xf32>
}

// -----

// not a multiple of 8
// CHECK-LABEL: func.func @main(
// ALL-LABEL: func.func @main(
// ALL: nn.attention %
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x16xf32>, %k: tensor<2x3x4x16xf32>, %v: tensor<2x3x4x12xf32>) -> tensor<2x3x4x12xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x16xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x12xf32>) -> tensor<2x3x4x12xf32>
  return %o : tensor<2x3x4x12xf32>
}

// -----

// of each,
// CHECK-LABEL: func.func @main(
// ALL-LABEL: func.func @main(
// ALL: nn.attention %
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x12xf32>, %k: tensor<2x3x4x12xf32>, %v: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x3x4x12xf32>, tensor<2x3x4x12xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  return %o : tensor<2x3x4x16xf32>
}

// -----

// and not apart.
// CHECK-LABEL: func.func @main(
// ALL-LABEL: func.func @main(
// ALL: nn.attention %
// CHECK: nn.softmax
func.func @main(%q: tensor<2x3x4x16xf32>, %k: tensor<2x3x16x4xf32>, %v: tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32> {
  %m = nn.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x16xf32>, tensor<2x3x16x4xf32>) -> tensor<2x3x4x4xf32>
  %p = nn.softmax %m : tensor<2x3x4x4xf32>
  %o = nn.dot_general %p, %v batch [0, 1] x [0, 1] contract [3] x [2] : (tensor<2x3x4x4xf32>, tensor<2x3x4x16xf32>) -> tensor<2x3x4x16xf32>
  return %o : tensor<2x3x4x16xf32>
}
