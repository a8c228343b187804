// RUN: pp-opt %s --nn-differentiate --nn-hoist-preparation --nn-form-kernels | FileCheck %s

// What is prepared once per step from parameters belongs to no kernel of a
// micro-batch. Its gradient does: to the kernel that reads what was prepared, in
// whose stage it is added, with the operations before it in one kernel.
// CHECK: nn.kernel{{.*}}#step.phase<prepare>
// CHECK: nn.sqrt
// CHECK: nn.kernel{{.*}}step.origin = 0 : i64, step.phase = #step.phase<forward>
// CHECK-NEXT: nn.dot_general
// CHECK: nn.kernel{{.*}}step.origin = 3 : i64, step.phase = #step.phase<forward>
// CHECK: nn.reduce sum
// CHECK: %[[D:.+]] = nn.kernel{{.*}}step.origin = 3 : i64, step.phase = #step.phase<backward_weight>
// CHECK: nn.mul
// CHECK: nn.reduce sum
// CHECK: %[[G:.+]] = nn.kernel({{.*}} = %[[D]]{{.*}}step.origin = 3 : i64, step.phase = #step.phase<backward_weight>
// CHECK: nn.div
// CHECK: nn.accumulate gradient @scale, %[[G]] {step.origin = 3 : i64
ml_program.global private mutable @w0(dense<0.5> : tensor<8x8xf32>) : tensor<8x8xf32> {nn.trained}
ml_program.global private mutable @w1(dense<0.5> : tensor<8x8xf32>) : tensor<8x8xf32> {nn.trained}
ml_program.global private mutable @scale(dense<0.5> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
ml_program.global private @variance(dense<0.5> : tensor<8xf32>) : tensor<8xf32>
func.func @main(%x: tensor<4x8xf32> {step.feed = "x"}) -> tensor<f32> {
  %w0 = nn.parameter @w0 : tensor<8x8xf32>
  %w1 = nn.parameter @w1 : tensor<8x8xf32>
  %scale = nn.parameter @scale : tensor<8xf32>
  %variance = nn.parameter @variance : tensor<8xf32>
  %deviation = nn.sqrt %variance : tensor<8xf32>
  %factor = nn.div %scale, %deviation : tensor<8xf32>
  %0 = nn.dot_general %x, %w0 batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.tanh %0 : tensor<4x8xf32>
  %2 = nn.dot_general %1, %w1 batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = nn.broadcast %factor [1] : tensor<8xf32> -> tensor<4x8xf32>
  %4 = nn.mul %2, %3 : tensor<4x8xf32>
  %5 = nn.tanh %4 : tensor<4x8xf32>
  %6 = nn.reduce sum %5 [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return %6 : tensor<f32>
}
