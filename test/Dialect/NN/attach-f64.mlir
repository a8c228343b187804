// RUN: pp-opt %s --nn-attach-loss="loss=mse microbatches=2" --nn-differentiate=loss-scale --nn-attach-optimizer="loss-scale=1" | FileCheck %s

// With parameters of f64, the loss, its gradients and the optimizer are of f64, whatever the output is of.
// The scale of the loss stays f32.
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf64>) : tensor<4xf64> {nn.trained}
  // CHECK-LABEL: func.func @main(
  // CHECK-SAME: %{{.+}}: tensor<2x4xf64> {step.batched, step.feed = "target"
  // CHECK-SAME: %[[SCALE:.+]]: tensor<f32> {step.feed = "loss_scale"
  // CHECK-SAME: -> (tensor<f64> {step.fetch = "loss"})
  func.func @main(%x: tensor<2x4xf32> {step.batched, step.feed = "x"}) -> (tensor<2x4xf32> {step.fetch = "y"}) {
    %w = nn.parameter @w : tensor<4xf64>
    %0 = nn.broadcast %w [1] : tensor<4xf64> -> tensor<2x4xf64>
    %1 = nn.cast %x : tensor<2x4xf32> -> tensor<2x4xf64>
    %2 = nn.mul %0, %1 : tensor<2x4xf64>
    %3 = nn.cast %2 : tensor<2x4xf64> -> tensor<2x4xf32>
    // CHECK: nn.cast {{.*}} : tensor<2x4xf32> -> tensor<2x4xf64>
    // CHECK: nn.reduce sum {{.*}} : tensor<2x4xf64> -> tensor<f64>
    // CHECK: nn.cast %[[SCALE]] {{.*}} : tensor<f32> -> tensor<f64>
    // CHECK: nn.accumulate gradient @w, {{.*}} : tensor<4xf64>
    return %3 : tensor<2x4xf32>
  }
  // A block has 64 bytes.
  // CHECK-LABEL: func.func private @optimizer(
  // CHECK-SAME: tensor<8xf64>, %{{[^:]+}}: tensor<8xf64>, %{{[^:]+}}: tensor<8xf64>, %{{[^:]+}}: tensor<f64>
}
