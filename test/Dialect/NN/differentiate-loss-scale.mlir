// RUN: pp-opt %s --nn-differentiate=loss-scale | FileCheck %s

// The loss keeps its value; its gradient is what the runtime says.
ml_program.global private mutable @w(dense<0.0> : tensor<8xf32>) : tensor<8xf32> {nn.trained}
// CHECK: func.func @main(%{{.+}}: tensor<8xf32> {step.feed = "x", step.role = #step.role<input>},
// CHECK-SAME: %[[SCALE:.+]]: tensor<f32> {step.feed = "loss_scale", step.role = #step.role<loss_scale>}) -> tensor<f32>
func.func @main(%x: tensor<8xf32> {step.feed = "x", step.role = #step.role<input>}) -> tensor<f32> {
  %w = nn.parameter @w : tensor<8xf32>
  %0 = nn.mul %x, %w : tensor<8xf32>
  // CHECK: %[[LOSS:.+]] = nn.reduce sum
  %1 = nn.reduce sum %0 [0] : tensor<8xf32> -> tensor<f32>
  // CHECK-NEXT: %[[G:.+]] = nn.broadcast %[[SCALE]] []
  // CHECK-NEXT: %[[DW:.+]] = nn.mul %[[G]],
  // CHECK-NEXT: nn.accumulate gradient @w, %[[DW]]
  // CHECK: return %[[LOSS]]
  return %1 : tensor<f32>
}
