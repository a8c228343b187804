// RUN: pp-opt %s --split-input-file --nn-rebatch=batch=2 | FileCheck %s
// RUN: pp-opt %s --split-input-file --nn-rebatch | FileCheck %s --check-prefix=SAME

// What is drawn is told where its samples are: on an axis, or as a factor of one. Noise that all samples share has none.
// CHECK-LABEL: func.func @main(
// SAME-LABEL: func.func @main(
func.func @main(%x: tensor<8x4x6xf32> {step.batched}, %c: tensor<5xi32> {step.role = #step.role<random_counter>}) -> tensor<32x6xf32> {
  // CHECK: nn.uniform {{.*}} stream 0 samples [0, 1, 1] : tensor<5xi32> -> tensor<2x4x6xf32>
  // SAME: nn.uniform {{.*}} stream 0 samples [0, 1, 1] : tensor<5xi32> -> tensor<8x4x6xf32>
  %u0 = nn.uniform %c stream 0 : tensor<5xi32> -> tensor<8x4x6xf32>
  %0 = nn.add %x, %u0 : tensor<8x4x6xf32>
  %1 = nn.transpose %0 [1, 0, 2] : tensor<8x4x6xf32> -> tensor<4x8x6xf32>
  // CHECK: nn.uniform {{.*}} stream 1 samples [1, 1, 1] : tensor<5xi32> -> tensor<4x2x6xf32>
  // SAME: nn.uniform {{.*}} stream 1 samples [1, 1, 1] : tensor<5xi32> -> tensor<4x8x6xf32>
  %u1 = nn.uniform %c stream 1 : tensor<5xi32> -> tensor<4x8x6xf32>
  %2 = nn.add %1, %u1 : tensor<4x8x6xf32>
  %3 = nn.reshape %2 : tensor<4x8x6xf32> -> tensor<32x6xf32>
  // CHECK: nn.uniform {{.*}} stream 2 samples [0, 4, 1] : tensor<5xi32> -> tensor<8x6xf32>
  // SAME: nn.uniform {{.*}} stream 2 samples [0, 4, 1] : tensor<5xi32> -> tensor<32x6xf32>
  %u2 = nn.uniform %c stream 2 : tensor<5xi32> -> tensor<32x6xf32>
  %4 = nn.add %3, %u2 : tensor<32x6xf32>
  // CHECK: nn.uniform {{.*}} stream 3 : tensor<5xi32> -> tensor<6xf32>
  // SAME: nn.uniform {{.*}} stream 3 : tensor<5xi32> -> tensor<6xf32>
  %u3 = nn.uniform %c stream 3 : tensor<5xi32> -> tensor<6xf32>
  %b = nn.broadcast %u3 [1] : tensor<6xf32> -> tensor<32x6xf32>
  %5 = nn.add %4, %b : tensor<32x6xf32>
  return %5 : tensor<32x6xf32>
}

// -----

// Behind what mixes samples, they are not followed: numbers are those of the first sample of a micro-batch.
// SAME-LABEL: func.func @main(
func.func @main(%x: tensor<2x6xf32> {step.batched}, %c: tensor<5xi32> {step.role = #step.role<random_counter>}) -> tensor<2x6xf32> {
  %0 = nn.cumsum %x axis 0 : tensor<2x6xf32>
  // SAME: nn.uniform {{.*}} samples [0, 1, 2] : tensor<5xi32> -> tensor<2x6xf32>
  %u = nn.uniform %c stream 0 : tensor<5xi32> -> tensor<2x6xf32>
  %1 = nn.add %0, %u : tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
}
