// What keeps a training from smaller batches.
// RUN: pp-opt %s --split-input-file --nn-rebatch | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK-NOT: step.whole_batches
// CHECK: nn.exp
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> tensor<8x4xf32> {
  %0 = nn.exp %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// CHECK: step.whole_batches = "'most' mixes samples"
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> tensor<4xf32> {
  %0 = nn.reduce max %x [0] : tensor<8x4xf32> -> tensor<4xf32> loc("most")
  return %0 : tensor<4xf32>
}
