// Attention in sixteen bits: all but the logsumexp and the mask, which stay f32.
// RUN: pp-opt %s --nn-mixed-precision | FileCheck %s --implicit-check-not=nn.cast
// RUN: pp-opt %s --nn-mixed-precision=type=f16 | FileCheck %s --check-prefix=F16
// RUN: pp-opt %s --nn-mixed-precision=type=tf32 | FileCheck %s --check-prefix=TF32 --implicit-check-not=nn.tf32 --implicit-check-not=nn.cast
// RUN: pp-opt %s --nn-mixed-precision --nn-form-kernels | FileCheck %s --check-prefix=KERNELS

module {
  ml_program.global private mutable @q(dense<0.5> : tensor<2x4x3x8xf32>) : tensor<2x4x3x8xf32>
  func.func @main(%x: tensor<2x4x3x8xf32>, %m: tensor<2x1x1x4xf32>) -> tensor<2x4x3x8xf32> {
    %q = nn.parameter @q : tensor<2x4x3x8xf32>
    %out, %lse = nn.attention %q [0, 2, 1, 3], %x [0, 2, 1, 3], %x [0, 2, 1, 3] mask %m scale 0.5 causal output [0, 2, 1, 3] {step.phase = #step.phase<forward>, step.origin = 0 : i64} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x1x1x4xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x3x4xf32>)
    %g = nn.neg %x {step.phase = #step.phase<backward_input>, step.origin = 1 : i64} : tensor<2x4x3x8xf32>
    %dq, %dk, %dv = nn.attention_backward %q [0, 2, 1, 3], %x [0, 2, 1, 3], %x [0, 2, 1, 3], %out [0, 2, 1, 3], %lse, %g mask %m scale 0.5 causal {step.phase = #step.phase<backward_input>, step.origin = 0 : i64} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x3x4xf32>, tensor<2x4x3x8xf32>, tensor<2x1x1x4xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>)
    nn.accumulate gradient @q, %dq {step.phase = #step.phase<backward_input>, step.origin = 0 : i64} : tensor<2x4x3x8xf32>
    return %out : tensor<2x4x3x8xf32>
  }
}

// CHECK: %[[X:.+]] = nn.cast %arg0
// CHECK: %[[Q:.+]] = nn.cast %{{.+}}#step.phase<forward>
// CHECK: %[[O:.+]], %[[L:.+]] = nn.attention %[[Q]] [0, 2, 1, 3], %[[X]] [0, 2, 1, 3], %[[X]] [0, 2, 1, 3] mask %arg1 {{.*}} -> (tensor<2x4x3x8xbf16>, tensor<2x3x4xf32>)
// CHECK: %[[G:.+]] = nn.cast
// CHECK: %[[QB:.+]] = nn.cast %{{.+}}#step.phase<backward_input>

// The result is kept short and read as it is.
// CHECK: %[[DQ:[^ ,]+]], %{{[^ ,]+}}, %{{[^ ,]+}} = nn.attention_backward %[[QB]] [0, 2, 1, 3], %[[X]] [0, 2, 1, 3], %[[X]] [0, 2, 1, 3], %[[O]] [0, 2, 1, 3], %[[L]], %[[G]] mask %arg1 {{.*}} -> (tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>)

// A gradient that is accumulated becomes f32 behind the kernel, which has one type.
// CHECK: %[[LONG:.+]] = nn.cast %[[DQ]] {{.*}} : tensor<2x4x3x8xbf16> -> tensor<2x4x3x8xf32>
// CHECK: nn.accumulate gradient @q, %[[LONG]]
// CHECK: nn.cast %[[O]]

// F16: nn.attention {{.*}} -> (tensor<2x4x3x8xf16>, tensor<2x3x4xf32>)
// F16: nn.attention_backward {{.*}} -> (tensor<2x4x3x8xf16>, tensor<2x4x3x8xf16>, tensor<2x4x3x8xf16>)
// TF32: nn.attention {{.*}} -> (tensor<2x4x3x8xf32>, tensor<2x3x4xf32>)

// A kernel has all operands and results of the library's, read or not, also where two are the same.
// KERNELS: :2 = nn.kernel(%[[A:[^ ]+]] = %{{[^ ]+}}, %{{[^ ]+}} = %[[S:[^ ]+]], %[[C:[^ ]+]] = %[[S]], %{{[^ ]+}} = %arg1) {{.*}} -> (tensor<2x4x3x8xbf16>, tensor<2x3x4xf32>) {
// KERNELS-NEXT: nn.attention %[[A]] [0, 2, 1, 3], %[[C]] [0, 2, 1, 3], %[[C]]
// KERNELS: :3 = nn.kernel({{.*}}) {{.*}} -> (tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>, tensor<2x4x3x8xbf16>) {
// KERNELS-NEXT: nn.attention_backward
