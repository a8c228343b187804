// RUN: pp-opt %s --split-input-file --nn-rematerialize | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-rematerialize=weights-change | FileCheck %s --check-prefix=CHANGE

// All that the backward kernels read is made of %h and the bias: two values are
// not written, and not held. The kernel yields what others read.
ml_program.global private @b(dense<0.0> : tensor<64xf32>) : tensor<64xf32>
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[H:[^:]+]]: tensor<8x64xbf16>, %[[G:[^:]+]]: tensor<8x64xf32>)
func.func @main(%h: tensor<8x64xbf16>, %g: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<64xf32>) {
  // CHECK: %[[B:.+]] = nn.parameter @b
  %b = nn.parameter @b : tensor<64xf32>
  // CHECK-NEXT: %[[Z:.+]] = nn.kernel(%{{.+}} = %[[H]], %{{.+}} = %[[B]]) attributes {step.origin = 3 : i64, step.phase = #step.phase<forward>} : (tensor<8x64xbf16>, tensor<64xf32>) -> tensor<8x64xf32> {
  // CHECK: %[[M:.+]] = nn.mul
  // CHECK-NEXT: nn.yield %[[M]] : tensor<8x64xf32>
  // Of parameters that change in between, what is made of them is kept.
  // CHANGE: nn.kernel
  // CHANGE: %[[X:.+]] = nn.add
  // CHANGE: %[[M:.+]] = nn.mul
  // CHANGE: nn.yield %[[X]], %[[M]] :
  %r:3 = nn.kernel(%0 = %h, %1 = %b) attributes {step.origin = 3 : i64, step.phase = #step.phase<forward>} : (tensor<8x64xbf16>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) {
    %2 = nn.cast %0 : tensor<8x64xbf16> -> tensor<8x64xf32>
    %3 = nn.broadcast %1 [1] : tensor<64xf32> -> tensor<8x64xf32>
    %4 = nn.add %2, %3 : tensor<8x64xf32>
    %5 = nn.exp %4 : tensor<8x64xf32>
    %6 = nn.mul %4, %5 : tensor<8x64xf32>
    nn.yield %4, %5, %6 : tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>
  }
  // CHECK: nn.kernel(%[[A0:.+]] = %[[G]], %[[A1:.+]] = %[[H]], %[[A2:.+]] = %[[B]]) {{.*}}backward_input
  // CHECK-NEXT: %[[W:.+]] = nn.cast %[[A1]]
  // CHECK-NEXT: %[[S:.+]] = nn.broadcast %[[A2]] [1]
  // CHECK-NEXT: %[[X:.+]] = nn.add %[[W]], %[[S]]
  // CHECK-NEXT: %[[Y:.+]] = nn.exp %[[X]]
  // CHECK-NEXT: nn.mul %[[A0]], %[[X]]
  // CHECK-NEXT: nn.mul %{{.+}}, %[[Y]]
  %d = nn.kernel(%0 = %g, %1 = %r#0, %2 = %r#1) attributes {step.origin = 3 : i64, step.phase = #step.phase<backward_input>} : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> {
    %3 = nn.mul %0, %1 : tensor<8x64xf32>
    %4 = nn.mul %3, %2 : tensor<8x64xf32>
    nn.yield %4 : tensor<8x64xf32>
  }
  // CHECK: nn.kernel(%{{.+}} = %[[G]], %{{.+}} = %[[H]], %{{.+}} = %[[B]]) {{.*}}backward_weight
  // CHECK-NOT: nn.exp
  // CHECK: nn.reduce
  %e = nn.kernel(%0 = %g, %1 = %r#0) attributes {step.origin = 3 : i64, step.phase = #step.phase<backward_weight>} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<64xf32> {
    %2 = nn.mul %0, %1 : tensor<8x64xf32>
    %3 = nn.reduce sum %2 [0] : tensor<8x64xf32> -> tensor<64xf32>
    nn.yield %3 : tensor<64xf32>
  }
  return %r#2, %d, %e : tensor<8x64xf32>, tensor<8x64xf32>, tensor<64xf32>
}

// -----

// A value that is held anyway is read, and so is what costs as much to make: of
// two f32 that must be held for it.
// CHECK-LABEL: func.func @main(
func.func @main(%p: tensor<8x64xf32>, %q: tensor<8x64xf32>, %g: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK: %[[X:.+]] = nn.kernel
  %x = nn.kernel(%0 = %p, %1 = %q) attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> {
    %2 = nn.add %0, %1 : tensor<8x64xf32>
    nn.yield %2 : tensor<8x64xf32>
  }
  // CHECK: nn.kernel(%{{.+}} = %{{.+}}, %{{.+}} = %[[X]]) {{.*}}backward_input
  %d = nn.kernel(%0 = %g, %1 = %x) attributes {step.origin = 0 : i64, step.phase = #step.phase<backward_input>} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> {
    %2 = nn.mul %0, %1 : tensor<8x64xf32>
    nn.yield %2 : tensor<8x64xf32>
  }
  return %x, %d : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// A kernel of another origin may be in another stage: it reads what was sent.
// One that reads rows needs them in memory.
// CHECK-LABEL: func.func @main(
func.func @main(%h: tensor<8x64xbf16>, %s: tensor<64xf32>, %m: tensor<8xf32>, %g: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
  // CHECK: %[[X:.+]]:2 = nn.kernel
  %r:2 = nn.kernel(%0 = %h) attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>} : (tensor<8x64xbf16>) -> (tensor<8x64xf32>, tensor<8x64xf32>) {
    %1 = nn.cast %0 : tensor<8x64xbf16> -> tensor<8x64xf32>
    %2 = nn.neg %1 : tensor<8x64xf32>
    %3 = nn.abs %1 : tensor<8x64xf32>
    nn.yield %2, %3 : tensor<8x64xf32>, tensor<8x64xf32>
  }
  // CHECK: nn.kernel(%{{.+}} = %{{.+}}, %{{.+}} = %[[X]]#0) {{.*}}step.origin = 1
  %d = nn.kernel(%0 = %g, %1 = %r#0) attributes {step.origin = 1 : i64, step.phase = #step.phase<backward_input>} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> {
    %2 = nn.mul %0, %1 : tensor<8x64xf32>
    nn.yield %2 : tensor<8x64xf32>
  }
  // CHECK: nn.kernel({{.*}} = %[[X]]#1, {{.*}}step.origin = 0
  %e = nn.kernel(%0 = %g, %1 = %r#1, %2 = %s, %3 = %m) attributes {step.origin = 0 : i64, step.phase = #step.phase<backward_input>} : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<64xf32>, tensor<8xf32>) -> tensor<8x64xf32> {
    %4 = nn.layer_norm_backward %0, %1, %2, %3, %3 : (tensor<8x64xf32>, tensor<8x64xf32>, tensor<64xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x64xf32>
    nn.yield %4 : tensor<8x64xf32>
  }
  return %d, %e : tensor<8x64xf32>, tensor<8x64xf32>
}

// -----

// Nobody else reads it, but each origin keeps a forward kernel.
// CHECK-LABEL: func.func @main(
func.func @main(%h: tensor<8x64xbf16>, %g: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK: %[[X:.+]] = nn.kernel
  // CHECK-NEXT: nn.cast
  %x = nn.kernel(%0 = %h) attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>} : (tensor<8x64xbf16>) -> tensor<8x64xf32> {
    %1 = nn.cast %0 : tensor<8x64xbf16> -> tensor<8x64xf32>
    %2 = nn.neg %1 : tensor<8x64xf32>
    nn.yield %2 : tensor<8x64xf32>
  }
  // CHECK: nn.kernel(%{{.+}} = %{{.+}}, %{{.+}} = %[[X]]) {{.*}}backward_input
  %d = nn.kernel(%0 = %g, %1 = %x) attributes {step.origin = 0 : i64, step.phase = #step.phase<backward_input>} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> {
    %2 = nn.mul %0, %1 : tensor<8x64xf32>
    nn.yield %2 : tensor<8x64xf32>
  }
  return %d : tensor<8x64xf32>
}
