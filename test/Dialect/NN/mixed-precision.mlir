// RUN: pp-opt %s --nn-mixed-precision | FileCheck %s
// RUN: pp-opt %s --nn-mixed-precision=type=f16 | FileCheck %s --check-prefix=F16
// RUN: pp-opt %s --nn-mixed-precision=type=tf32 | FileCheck %s --check-prefix=TF32 --implicit-check-not=nn.cast
// RUN: not pp-opt %s --nn-mixed-precision=type=f64 2>&1 | FileCheck %s --check-prefix=UNKNOWN

module {
  ml_program.global private mutable @w(dense<0.5> : tensor<8x4xf32>) : tensor<8x4xf32>
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x8xf32> {
    %w = nn.parameter @w : tensor<8x4xf32>
    %h = nn.relu %x {step.phase = #step.phase<forward>, step.origin = 0 : i64} : tensor<2x4xf32>
    %y = nn.dot_general %h, %w batch [] x [] contract [1] x [1] {step.phase = #step.phase<forward>, step.origin = 1 : i64} : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
    %z = nn.exp %y {step.phase = #step.phase<forward>, step.origin = 2 : i64} : tensor<2x8xf32>
    %g = nn.mul %z, %y {step.phase = #step.phase<backward_input>, step.origin = 2 : i64} : tensor<2x8xf32>
    %dh = nn.dot_general %g, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<backward_input>, step.origin = 1 : i64} : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
    %dx = nn.mul %dh, %h {step.phase = #step.phase<backward_input>, step.origin = 0 : i64} : tensor<2x4xf32>
    %dw = nn.dot_general %g, %h batch [] x [] contract [0] x [0] {step.phase = #step.phase<backward_weight>, step.origin = 1 : i64} : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
    nn.accumulate gradient @w, %dw {step.phase = #step.phase<backward_weight>, step.origin = 1 : i64} : tensor<8x4xf32>
    return %z : tensor<2x8xf32>
  }
}

// Factors and result are short; new forward operations get numbers of their own.
// CHECK-DAG: %[[W:.+]] = nn.parameter @w
// CHECK: %[[H:.+]] = nn.relu
// CHECK-NEXT: %[[H16:.+]] = nn.cast %[[H]] {step.origin = 3 : i64, step.phase = #step.phase<forward>}
// CHECK-NEXT: %[[W16:.+]] = nn.cast %[[W]] {{.*}}#step.phase<forward>
// CHECK-NEXT: %[[Y16:.+]] = nn.dot_general %[[H16]], %[[W16]] {{.*}} : (tensor<2x4xbf16>, tensor<8x4xbf16>) -> tensor<2x8xbf16>
// CHECK-NEXT: %[[Y:.+]] = nn.cast %[[Y16]] {{.*}}#step.phase<forward>
// CHECK-NEXT: nn.exp %[[Y]]

// The backward phase reads the short result and makes a parameter short anew.
// CHECK-NEXT: %[[YB:.+]] = nn.cast %[[Y16]] {step.origin = 2 : i64, step.phase = #step.phase<backward_input>}
// CHECK-NEXT: %[[G:.+]] = nn.mul %{{.+}}, %[[YB]]
// CHECK-NEXT: %[[G16:.+]] = nn.cast %[[G]]
// CHECK-NEXT: %[[WB:.+]] = nn.cast %[[W]] {{.*}}#step.phase<backward_input>
// CHECK-NEXT: %[[DH16:.+]] = nn.dot_general %[[G16]], %[[WB]] {{.*}} -> tensor<2x4xbf16>
// CHECK-NEXT: %[[DH:.+]] = nn.cast %[[DH16]]

// It reads the short form of any value that has one.
// CHECK-NEXT: %[[HB:.+]] = nn.cast %[[H16]] {step.origin = 0 : i64, step.phase = #step.phase<backward_input>}
// CHECK-NEXT: nn.mul %[[DH]], %[[HB]]

// What is accumulated stays long.
// CHECK-NEXT: %[[DW:.+]] = nn.dot_general %[[G16]], %[[H16]] {{.*}} -> tensor<8x4xf32>
// CHECK-NEXT: nn.accumulate gradient @w, %[[DW]]

// F16: nn.dot_general {{.*}} : (tensor<2x4xf16>, tensor<8x4xf16>) -> tensor<2x8xf16>
// F16: nn.dot_general {{.*}} -> tensor<2x4xf16>
// F16: nn.dot_general {{.*}} -> tensor<8x4xf32>

// Products of f32 alone change, and only inside.
// TF32: nn.dot_general {{.*}}nn.tf32{{.*}} : (tensor<2x4xf32>, tensor<8x4xf32>) -> tensor<2x8xf32>
// TF32: nn.dot_general {{.*}}nn.tf32
// TF32: nn.dot_general {{.*}}nn.tf32

// UNKNOWN: for the --type option: 'f64': expected f32, tf32, bf16, f16
