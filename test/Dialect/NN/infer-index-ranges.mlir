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

// -----

// Columns of a sample may be indices of different tables, or of none.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: tensor<2x4xi64> {step.batched, step.range = array<i64: -7, 6, -3, 2, -9223372036854775808, 9223372036854775807, -3, 2>})
func.func @main(%i: tensor<2x4xi64> {step.batched}) -> (tensor<2x4xf32>, tensor<4x4xf32>) {
  %seven = nn.parameter @seven : tensor<7x4xf32>
  %three = nn.parameter @three : tensor<3x4xf32>
  %turned = nn.transpose %i [1, 0] : tensor<2x4xi64> -> tensor<4x2xi64>
  %first = nn.slice %turned starts [0, 0] limits [1, 2] strides [1, 1] : tensor<4x2xi64> -> tensor<1x2xi64>
  %odd = nn.slice %turned starts [1, 0] limits [4, 2] strides [2, 1] : tensor<4x2xi64> -> tensor<2x2xi64>
  %flat = nn.reshape %first : tensor<1x2xi64> -> tensor<2xi64>
  %joined = nn.reshape %odd : tensor<2x2xi64> -> tensor<4xi64>
  %0 = nn.gather %seven[%flat] axis 0 : (tensor<7x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = nn.gather %three[%joined] axis 0 : (tensor<3x4xf32>, tensor<4xi64>) -> tensor<4x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<4x4xf32>
}
ml_program.global private @seven(dense<0.0> : tensor<7x4xf32>) : tensor<7x4xf32>
ml_program.global private @three(dense<0.0> : tensor<3x4xf32>) : tensor<3x4xf32>

// -----

// Tables that are read in turn, through a concatenation with other numbers and a broadcast.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: tensor<2x2xi64> {step.batched, step.range = array<i64: -9, 8, -5, 4>}, %{{.+}}: tensor<1xi64> {step.range = array<i64: -9, 8>})
func.func @main(%i: tensor<2x2xi64> {step.batched}, %start: tensor<1xi64>) -> (tensor<2x2x4xf32>, tensor<3x2x4xf32>) {
  %nine = nn.parameter @nine : tensor<9x4xf32>
  %five = nn.parameter @five : tensor<5x4xf32>
  %starts = nn.broadcast %start [1] : tensor<1xi64> -> tensor<2x1xi64>
  %left = nn.slice %i starts [0, 0] limits [2, 1] strides [1, 1] : tensor<2x2xi64> -> tensor<2x1xi64>
  %right = nn.slice %i starts [0, 1] limits [2, 2] strides [1, 1] : tensor<2x2xi64> -> tensor<2x1xi64>
  %both = nn.concat %starts, %left axis 1 : (tensor<2x1xi64>, tensor<2x1xi64>) -> tensor<2x2xi64>
  %column = nn.reshape %right : tensor<2x1xi64> -> tensor<2xi64>
  %rows = nn.broadcast %column [1] : tensor<2xi64> -> tensor<3x2xi64>
  %0 = nn.gather %nine[%both] axis 0 : (tensor<9x4xf32>, tensor<2x2xi64>) -> tensor<2x2x4xf32>
  %1 = nn.gather %five[%rows] axis 0 : (tensor<5x4xf32>, tensor<3x2xi64>) -> tensor<3x2x4xf32>
  return %0, %1 : tensor<2x2x4xf32>, tensor<3x2x4xf32>
}
ml_program.global private @nine(dense<0.0> : tensor<9x4xf32>) : tensor<9x4xf32>
ml_program.global private @five(dense<0.0> : tensor<5x4xf32>) : tensor<5x4xf32>

// -----

// Of very large inputs, the smallest table decides.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: tensor<2x4194304xi64> {step.batched, step.range = array<i64: -3, 2>})
func.func @main(%i: tensor<2x4194304xi64> {step.batched}) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %big = nn.parameter @big : tensor<7x4xf32>
  %little = nn.parameter @little : tensor<3x4xf32>
  %first = nn.slice %i starts [0, 0] limits [2, 1] strides [1, 1] : tensor<2x4194304xi64> -> tensor<2x1xi64>
  %second = nn.slice %i starts [0, 1] limits [2, 2] strides [1, 1] : tensor<2x4194304xi64> -> tensor<2x1xi64>
  %a = nn.reshape %first : tensor<2x1xi64> -> tensor<2xi64>
  %b = nn.reshape %second : tensor<2x1xi64> -> tensor<2xi64>
  %0 = nn.gather %big[%a] axis 0 : (tensor<7x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = nn.gather %little[%b] axis 0 : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>
}
ml_program.global private @big(dense<0.0> : tensor<7x4xf32>) : tensor<7x4xf32>
ml_program.global private @little(dense<0.0> : tensor<3x4xf32>) : tensor<3x4xf32>
