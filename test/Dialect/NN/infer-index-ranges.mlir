// RUN: pp-opt %s --split-input-file --nn-infer-index-ranges | FileCheck %s

// The smaller of two tables decides; what moves elements is looked through.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %{{.+}}: tensor<2x3xi64> {step.range = array<i64: -5, 4>}, %{{.+}}: tensor<2xi64>, %{{.+}}: tensor<2xf32>)
func.func @main(%i: tensor<2x3xi64>, %other: tensor<2xi64>, %x: tensor<2xf32>) -> (tensor<6x4xf32>, tensor<2x3x4xf32>) {
  %large = nn.parameter @large : tensor<9x4xf32>
  %small = nn.parameter @small : tensor<5x4xf32>
  %flat = nn.reshape %i : tensor<2x3xi64> -> tensor<6xi64>
  %0 = nn.gather %large[%flat] axis 0 : (tensor<9x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
  %1 = nn.gather %small[%i] axis 0 : (tensor<5x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  return %0, %1 : tensor<6x4xf32>, tensor<2x3x4xf32>
}
ml_program.global private @large(dense<0.0> : tensor<9x4xf32>) : tensor<9x4xf32>
ml_program.global private @small(dense<0.0> : tensor<5x4xf32>) : tensor<5x4xf32>

// -----

// Indices that are computed are no longer those that were fed.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %{{.+}}: tensor<2xi64>)
func.func @main(%i: tensor<2xi64>) -> tensor<2xf32> {
  %table = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %twice = nn.add %i, %i : tensor<2xi64>
  %0 = nn.gather %table[%twice] axis 0 : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
