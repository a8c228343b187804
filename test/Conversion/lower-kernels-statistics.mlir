// RUN: pp-opt %s --nn-lower-kernels | FileCheck %s

// What running statistics are multiplied with is known, or follows from the number of samples.
// CHECK: module @code
// CHECK: func.func @commit_0(
// CHECK-SAME: memref<3xf32> {{[^)]*}}, %{{[^:]+}}: memref<3xf32> {{[^)]*}}, %{{[^:]+}}: memref<3xf32> {{[^)]*}}, %{{[^:]+}}: memref<3xf32> {{[^)]*}})
// CHECK: arith.constant 2.500000e-01 : f32
// CHECK: linalg.generic
// CHECK: func.func @commit_1(
// CHECK-SAME: %[[SAMPLES:[^:]+]]: memref<i32>
// CHECK: %[[N:.+]] = memref.load %[[SAMPLES]][] : memref<i32>
// CHECK: %[[COUNT:.+]] = arith.sitofp %[[N]]
// Of a sample, 16 elements.
// CHECK: %[[OF:.+]] = arith.constant 1.600000e+01 : f32
// CHECK: %[[ELEMENTS:.+]] = arith.mulf %[[COUNT]], %[[OF]]
// CHECK: %[[LESS:.+]] = arith.maximumf
// CHECK: arith.divf %[[ELEMENTS]], %[[LESS]]
// CHECK: linalg.generic
// Micro-batches that are moved by: of 2 samples each.
// CHECK: func.func @commit_2(
// CHECK: %[[N:.+]] = memref.load
// CHECK: %[[LAST:.+]] = arith.subi %[[N]],
// CHECK: %[[TWO:.+]] = arith.constant 2 : i32
// CHECK: arith.divsi %[[LAST]], %[[TWO]]
ml_program.global private mutable @m(dense<0.0> : tensor<3xf32>) : tensor<3xf32>
ml_program.global private mutable @v(dense<1.0> : tensor<3xf32>) : tensor<3xf32>
func.func @main() {
  nn.commit_statistics @m, @v momentum 0.1 microbatches 4 elements 32
  nn.commit_statistics @m, @v momentum 0.1 microbatches 4 elements 32 samples 2
  nn.commit_statistics @m, @v momentum 0.1 microbatches 4 elements 32 samples 2 each
  return
}
