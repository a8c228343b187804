// RUN: pp-opt %s --split-input-file --nn-rebatch="batch=2 microbatches=4" | FileCheck %s

// The batch is followed from axis 0 of the inputs; parameters stay.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.+]]: tensor<2x8xf32> {step.batched, step.feed = "x"}) -> (tensor<2x10xf32> {step.batched})
ml_program.global private @w(dense<0.0> : tensor<10x8xf32>) : tensor<10x8xf32>
ml_program.global private @b(dense<0.0> : tensor<10xf32>) : tensor<10xf32>
func.func @main(%x: tensor<8x8xf32> {step.batched, step.feed = "x"}) -> tensor<8x10xf32> {
  // CHECK: nn.parameter @w : tensor<10x8xf32>
  %w = nn.parameter @w : tensor<10x8xf32>
  %b = nn.parameter @b : tensor<10xf32>
  // CHECK: nn.dot_general {{.*}} : (tensor<2x8xf32>, tensor<10x8xf32>) -> tensor<2x10xf32>
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [1] : (tensor<8x8xf32>, tensor<10x8xf32>) -> tensor<8x10xf32>
  // CHECK: nn.broadcast {{.*}} [1] : tensor<10xf32> -> tensor<2x10xf32>
  %1 = nn.broadcast %b [1] : tensor<10xf32> -> tensor<8x10xf32>
  // CHECK: nn.add {{.*}} : tensor<2x10xf32>
  %2 = nn.add %0, %1 : tensor<8x10xf32>
  return %2 : tensor<8x10xf32>
}

// -----

// Exporters merge the batch with heads and tokens.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x16x32xf32> {step.batched}) -> tensor<8x16x32xf32> {
  // CHECK: nn.reshape {{.*}} : tensor<2x16x32xf32> -> tensor<2x16x4x8xf32>
  %0 = nn.reshape %x : tensor<8x16x32xf32> -> tensor<8x16x4x8xf32>
  // CHECK: nn.transpose {{.*}} [0, 2, 1, 3] : tensor<2x16x4x8xf32> -> tensor<2x4x16x8xf32>
  %1 = nn.transpose %0 [0, 2, 1, 3] : tensor<8x16x4x8xf32> -> tensor<8x4x16x8xf32>
  // CHECK: nn.reshape {{.*}} : tensor<2x4x16x8xf32> -> tensor<8x16x8xf32>
  %2 = nn.reshape %1 : tensor<8x4x16x8xf32> -> tensor<32x16x8xf32>
  // CHECK: nn.softmax {{.*}} : tensor<8x16x8xf32>
  %3 = nn.softmax %2 : tensor<32x16x8xf32>
  // CHECK: nn.reshape {{.*}} : tensor<8x16x8xf32> -> tensor<2x4x16x8xf32>
  %4 = nn.reshape %3 : tensor<32x16x8xf32> -> tensor<8x4x16x8xf32>
  // CHECK: nn.transpose {{.*}} : tensor<2x4x16x8xf32> -> tensor<2x16x4x8xf32>
  %5 = nn.transpose %4 [0, 2, 1, 3] : tensor<8x4x16x8xf32> -> tensor<8x16x4x8xf32>
  // CHECK: nn.reshape {{.*}} -> tensor<2x16x32xf32>
  %6 = nn.reshape %5 : tensor<8x16x4x8xf32> -> tensor<8x16x32xf32>
  return %6 : tensor<8x16x32xf32>
}

// -----

// The sequence comes first: axis 1 holds the samples after a transpose.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x16x32xf32> {step.batched}) -> tensor<128x32xf32> {
  // CHECK: nn.transpose {{.*}} -> tensor<16x2x32xf32>
  %0 = nn.transpose %x [1, 0, 2] : tensor<8x16x32xf32> -> tensor<16x8x32xf32>
  // CHECK: nn.reshape {{.*}} -> tensor<32x32xf32>
  %1 = nn.reshape %0 : tensor<16x8x32xf32> -> tensor<128x32xf32>
  // CHECK: return {{.*}} : tensor<32x32xf32>
  return %1 : tensor<128x32xf32>
}

// -----

// A slice of another axis keeps its limits there, and gets new ones on the
// batch axis.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x16xf32> {step.batched}) -> tensor<8x4xf32> {
  // CHECK: nn.slice {{.*}} starts [0, 4] limits [2, 8] strides [1, 1] : tensor<2x16xf32> -> tensor<2x4xf32>
  %0 = nn.slice %x starts [0, 4] limits [8, 8] strides [1, 1] : tensor<8x16xf32> -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// Splats and broadcasts are made for the new size; a constant that is also
// read where there are no samples keeps its own form there.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  // CHECK-DAG: %[[SMALL:.+]] = nn.constant dense<2.000000e+00> : tensor<2x4xf32>
  // CHECK-DAG: %[[BIG:.+]] = nn.constant dense<2.000000e+00> : tensor<8x4xf32>
  %c = nn.constant dense<2.0> : tensor<8x4xf32>
  // CHECK: nn.mul %{{.+}}, %[[SMALL]] : tensor<2x4xf32>
  %0 = nn.mul %x, %c : tensor<8x4xf32>
  // CHECK: nn.exp %[[BIG]] : tensor<8x4xf32>
  %1 = nn.exp %c : tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// Running statistics learn how many micro-batches there are and how large.
// CHECK-LABEL: func.func @main(
ml_program.global private mutable @m(dense<0.0> : tensor<3xf32>) : tensor<3xf32>
ml_program.global private mutable @v(dense<1.0> : tensor<3xf32>) : tensor<3xf32>
func.func @main(%x: tensor<8x3x4x4xf32> {step.batched}) -> tensor<8x3x4x4xf32> {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  // CHECK: nn.batch_norm {{.*}} -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  %y, %mean, %variance = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : (tensor<8x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: nn.accumulate statistics @m, {{.*}} : tensor<3xf32>
  nn.accumulate statistics @m, %mean : tensor<3xf32>
  nn.accumulate statistics @v, %variance : tensor<3xf32>
  // CHECK: nn.commit_statistics @m, @v momentum {{.*}} microbatches 4 elements 32
  nn.commit_statistics @m, @v momentum 0.1 microbatches 1 elements 128
  return %y : tensor<8x3x4x4xf32>
}

// -----

// Where each micro-batch moves them, its summands get the weights that they have after the last one.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[C:[^:]+]]: tensor<5xi32> {step.feed = "random_counter", step.role = #step.role<random_counter>})
ml_program.global private mutable @m(dense<0.0> : tensor<3xf32>) : tensor<3xf32>
ml_program.global private mutable @v(dense<1.0> : tensor<3xf32>) : tensor<3xf32>
func.func @main(%x: tensor<8x3x4x4xf32> {step.batched}) -> tensor<8x3x4x4xf32> {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  %y, %mean, %variance = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : (tensor<8x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: %[[LEFT:.+]] = nn.present_rows %[[C]] samples 8 rows 1
  // CHECK: nn.add %[[LEFT]],
  // CHECK: %[[POWER:.+]] = nn.exp
  // CHECK: %[[WEIGHT:.+]] = nn.mul %{{.+}}, %[[POWER]]
  // CHECK: %[[WEIGHTS:.+]] = nn.broadcast %[[WEIGHT]]
  // CHECK: %[[MEAN:.+]] = nn.mul %{{.+}}, %[[WEIGHTS]]
  // CHECK: nn.accumulate statistics @m, %[[MEAN]]
  nn.accumulate statistics @m, %mean : tensor<3xf32>
  nn.accumulate statistics @v, %variance : tensor<3xf32>
  // CHECK: nn.commit_statistics @m, @v momentum {{.*}} microbatches 4 elements 32 each
  nn.commit_statistics @m, @v momentum 0.1 microbatches 1 elements 128 each
  return %y : tensor<8x3x4x4xf32>
}

// -----

// A sum over samples is a loss, which micro-batches add up.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x10xf32> {step.batched}, %t: tensor<8xi64> {step.batched}) -> tensor<f32> {
  // CHECK: nn.softmax_cross_entropy {{.*}} : (tensor<2x10xf32>, tensor<2xi64>) -> (tensor<f32>, tensor<2xf32>)
  %0, %1 = nn.softmax_cross_entropy %x, %t : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  return %0 : tensor<f32>
}

// -----

// Attention: the samples are the batch, or a factor of the heads.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x5x3x4xf32> {step.batched}) -> (tensor<8x5x3x4xf32>, tensor<1x40x3x4xf32>) {
  // CHECK: nn.attention {{.*}} -> (tensor<2x5x3x4xf32>, tensor<2x3x5xf32>)
  %0:2 = nn.attention %x [0, 2, 1, 3], %x [0, 2, 1, 3], %x [0, 2, 1, 3] scale 1.0 output [0, 2, 1, 3] : (tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>) -> (tensor<8x5x3x4xf32>, tensor<8x3x5xf32>)
  // CHECK: nn.attention_backward {{.*}} -> (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>)
  %1:3 = nn.attention_backward %x [0, 2, 1, 3], %x [0, 2, 1, 3], %x [0, 2, 1, 3], %0#0 [0, 2, 1, 3], %0#1, %x scale 1.0 : (tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x3x5xf32>, tensor<8x5x3x4xf32>) -> (tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>)
  %2 = nn.reshape %1#0 : tensor<8x5x3x4xf32> -> tensor<1x40x3x4xf32>
  // CHECK: nn.attention {{.*}} -> (tensor<1x10x3x4xf32>, tensor<1x10x3xf32>)
  %3:2 = nn.attention %2 [0, 1, 2, 3], %2 [0, 1, 2, 3], %2 [0, 1, 2, 3] scale 1.0 output [0, 1, 2, 3] : (tensor<1x40x3x4xf32>, tensor<1x40x3x4xf32>, tensor<1x40x3x4xf32>) -> (tensor<1x40x3x4xf32>, tensor<1x40x3xf32>)
  return %1#1, %3#0 : tensor<8x5x3x4xf32>, tensor<1x40x3x4xf32>
}

// -----

// Axes that a gather or a scatter shares with its indices may hold the samples.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x4x3xf32> {step.batched}, %i: tensor<8x5xi64> {step.batched}) -> tensor<8x4x3xf32> {
  // CHECK: nn.gather {{.*}} axis 1 shared 1 : (tensor<2x4x3xf32>, tensor<2x5xi64>) -> tensor<2x5x3xf32>
  %0 = nn.gather %x[%i] axis 1 shared 1 : (tensor<8x4x3xf32>, tensor<8x5xi64>) -> tensor<8x5x3xf32>
  // CHECK: nn.scatter_add {{.*}} axis 1 shared 1 : (tensor<2x5xi64>, tensor<2x5x3xf32>) -> tensor<2x4x3xf32>
  %1 = nn.scatter_add %0 at [%i] axis 1 shared 1 : (tensor<8x5xi64>, tensor<8x5x3xf32>) -> tensor<8x4x3xf32>
  // A tensor of zeros, and indices that are the same for all samples, are made for any number of them.
  %zero = nn.constant dense<0.0> : tensor<8x4x3xf32>
  // CHECK: nn.scatter {{.*}} axis 1 shared 1 : (tensor<2x4x3xf32>, tensor<2x5xi64>, tensor<2x5x3xf32>) -> tensor<2x4x3xf32>
  %2 = nn.scatter %0 into %zero at [%i] axis 1 shared 1 : (tensor<8x4x3xf32>, tensor<8x5xi64>, tensor<8x5x3xf32>) -> tensor<8x4x3xf32>
  %counts = nn.iota 1 : tensor<8x5xi64>
  // CHECK: nn.scatter {{.*}} axis 1 shared 1 : (tensor<2x4x3xf32>, tensor<2x5xi64>, tensor<2x5x3xf32>) -> tensor<2x4x3xf32>
  %3 = nn.scatter %0 into %x at [%counts] axis 1 shared 1 : (tensor<8x4x3xf32>, tensor<8x5xi64>, tensor<8x5x3xf32>) -> tensor<8x4x3xf32>
  %j = nn.constant dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>
  %updates = nn.constant dense<1.0> : tensor<8x2x2x3xf32>
  // CHECK: nn.scatter {{.*}} axis 1 : (tensor<2x4x3xf32>, tensor<2x2xi64>, tensor<2x2x2x3xf32>) -> tensor<2x4x3xf32>
  %4 = nn.scatter %updates into %x at [%j] axis 1 : (tensor<8x4x3xf32>, tensor<2x2xi64>, tensor<8x2x2x3xf32>) -> tensor<8x4x3xf32>
  // CHECK: nn.cumsum {{.*}} axis 1 : tensor<2x4x3xf32>
  %5 = nn.cumsum %x axis 1 : tensor<8x4x3xf32>
  // CHECK: nn.top_k {{.*}} : tensor<2x4x3xf32> -> tensor<2x4x1xi64>
  %6 = nn.top_k %x : tensor<8x4x3xf32> -> tensor<8x4x1xi64>
  return %1 : tensor<8x4x3xf32>
}

// -----

// What is the same for all samples is made for another number of them, also
// through operations that look things up, and from tables of equal rows. Others
// that read it as it is keep it.
// CHECK-LABEL: func.func @main(
ml_program.global private @types(dense<0.0> : tensor<2x3xf32>) : tensor<2x3xf32>
func.func @main(%x: tensor<8x2x3xf32> {step.batched}) -> (tensor<8x2x3xf32>, tensor<8x2xi64>) {
  %types = nn.parameter @types : tensor<2x3xf32>
  %ids = nn.constant dense<[[0, 1], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1]]> : tensor<8x2xi64>
  // CHECK: %[[IDS:.+]] = nn.constant dense<{{\[\[}}0, 1], [0, 1]]> : tensor<2x2xi64>
  // CHECK: %[[ALL:.+]] = nn.constant dense<{{.*}}> : tensor<8x2xi64>
  // CHECK: %[[ROWS:.+]] = nn.gather %{{.+}}[%[[IDS]]] axis 0 : (tensor<2x3xf32>, tensor<2x2xi64>) -> tensor<2x2x3xf32>
  %rows = nn.gather %types[%ids] axis 0 : (tensor<2x3xf32>, tensor<8x2xi64>) -> tensor<8x2x3xf32>
  // CHECK: nn.softmax %[[ROWS]] : tensor<2x2x3xf32>
  %weights = nn.softmax %rows : tensor<8x2x3xf32>
  // CHECK: nn.add {{.*}} : tensor<2x2x3xf32>
  %sum = nn.add %x, %weights : tensor<8x2x3xf32>
  // CHECK: return {{.*}}, %[[ALL]] : tensor<2x2x3xf32>, tensor<8x2xi64>
  return %sum, %ids : tensor<8x2x3xf32>, tensor<8x2xi64>
}

// -----

// A product along the samples of one factor alone.
// CHECK-LABEL: func.func @main(
ml_program.global private @w(dense<0.0> : tensor<4x3xf32>) : tensor<4x3xf32>
func.func @main(%x: tensor<8x2x3xf32> {step.batched}) -> tensor<8x2x4xf32> {
  %w = nn.parameter @w : tensor<4x3xf32>
  // CHECK: %[[W:.+]] = nn.broadcast %{{.+}} [1, 2] : tensor<4x3xf32> -> tensor<2x4x3xf32>
  %all = nn.broadcast %w [1, 2] : tensor<4x3xf32> -> tensor<8x4x3xf32>
  // CHECK: nn.dot_general %{{.+}}, %[[W]] batch [0] x [0] contract [2] x [2] : (tensor<2x2x3xf32>, tensor<2x4x3xf32>) -> tensor<2x2x4xf32>
  %y = nn.dot_general %x, %all batch [0] x [0] contract [2] x [2] : (tensor<8x2x3xf32>, tensor<8x4x3xf32>) -> tensor<8x2x4xf32>
  return %y : tensor<8x2x4xf32>
}

// -----

// Indices that are the same for all samples add to other axes; a concatenation
// and a normalization of what all samples share are made for any number of them.
// CHECK-LABEL: func.func @main(
ml_program.global private @rows(dense<0.0> : tensor<4x3xf32>) : tensor<4x3xf32>
ml_program.global private @scale(dense<1.0> : tensor<6xf32>) : tensor<6xf32>
func.func @main(%x: tensor<8x4x6xf32> {step.batched}) -> (tensor<8x5x6xf32>, tensor<8x4x6xf32>) {
  %i = nn.constant dense<[0, 2, 2, 4]> : tensor<4xi64>
  // CHECK: nn.scatter_add {{.*}} axis 1 : (tensor<4xi64>, tensor<2x4x6xf32>) -> tensor<2x5x6xf32>
  %0 = nn.scatter_add %x at [%i] axis 1 : (tensor<4xi64>, tensor<8x4x6xf32>) -> tensor<8x5x6xf32>
  %rows = nn.parameter @rows : tensor<4x3xf32>
  %scale = nn.parameter @scale : tensor<6xf32>
  %1 = nn.broadcast %rows [1, 2] : tensor<4x3xf32> -> tensor<8x4x3xf32>
  // CHECK: nn.concat {{.*}} axis 2 : (tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x6xf32>
  %2 = nn.concat %1, %1 axis 2 : (tensor<8x4x3xf32>, tensor<8x4x3xf32>) -> tensor<8x4x6xf32>
  // CHECK: nn.layer_norm {{.*}} -> (tensor<2x4x6xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %3, %mean, %rstd = nn.layer_norm %2, %scale, %scale epsilon 1.0e-5 : (tensor<8x4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<8x4x6xf32>, tensor<8x4xf32>, tensor<8x4xf32>)
  // CHECK: nn.mul {{.*}} : tensor<2x4x6xf32>
  %4 = nn.mul %x, %3 : tensor<8x4x6xf32>
  return %0, %4 : tensor<8x5x6xf32>, tensor<8x4x6xf32>
}

// -----

// What is joined along the samples are blocks of all of them, and so are its parts.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<2x4xf32> {step.batched}, tensor<6x4xf32>)
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> (tensor<8x4xf32>, tensor<24x4xf32>) {
  %0 = nn.relu %x : tensor<8x4xf32>
  // CHECK: nn.concat {{.*}} axis 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %1 = nn.concat %x, %0 axis 0 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %2 = nn.neg %1 : tensor<16x4xf32>
  // CHECK: nn.slice {{.*}} starts [2, 0] limits [4, 4] strides [1, 1] : tensor<4x4xf32> -> tensor<2x4xf32>
  %3 = nn.slice %2 starts [8, 0] limits [16, 4] strides [1, 1] : tensor<16x4xf32> -> tensor<8x4xf32>
  // CHECK: nn.concat {{.*}} axis 0 : (tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
  %4 = nn.concat %2, %3 axis 0 : (tensor<16x4xf32>, tensor<8x4xf32>) -> tensor<24x4xf32>
  return %3, %4 : tensor<8x4xf32>, tensor<24x4xf32>
}

// -----

// Each sample picks from its own rows of a flattened tensor: the indices count
// the samples, from constants or nn.iota, and what is outside of a sample is
// outside of the axis.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x3x4xf32> {step.batched}, %i: tensor<8xi64> {step.batched}, %j: tensor<8x2xi64> {step.batched}) -> (tensor<8x4xf32>, tensor<8x2x4xf32>) {
  %flat = nn.reshape %x : tensor<8x3x4xf32> -> tensor<24x4xf32>
  %starts = nn.constant dense<[0, 3, 6, 9, 12, 15, 18, 21]> : tensor<8xi64>
  %places = nn.add %starts, %i : tensor<8xi64>
  // CHECK: nn.compare lt {{.*}}
  // CHECK: %[[OUTSIDE:.+]] = nn.constant dense<3> : tensor<2x1x1xi64>
  // CHECK: %[[OWN:.+]] = nn.select %{{.+}}, %[[OUTSIDE]], %{{.+}} : tensor<2x1x1xi1>, tensor<2x1x1xi64>
  // CHECK: nn.gather {{.*}}[%[[OWN]]] axis 2 shared 1 : (tensor<2x1x3x4xf32>, tensor<2x1x1xi64>) -> tensor<2x1x1x1x4xf32>
  // CHECK: nn.reshape {{.*}} -> tensor<2x4xf32>
  %0 = nn.gather %flat[%places] axis 0 : (tensor<24x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %rows = nn.iota 0 : tensor<8xi64>
  %three = nn.constant dense<3> : tensor<8xi64>
  %scaled = nn.mul %rows, %three : tensor<8xi64>
  %spread = nn.broadcast %scaled [0] : tensor<8xi64> -> tensor<8x2xi64>
  %pairs = nn.add %spread, %j : tensor<8x2xi64>
  // CHECK: nn.gather {{.*}} axis 2 shared 1 : (tensor<2x1x3x4xf32>, tensor<2x1x1x2xi64>) -> tensor<2x1x1x1x2x4xf32>
  // CHECK: nn.reshape {{.*}} -> tensor<2x2x4xf32>
  %1 = nn.gather %flat[%pairs] axis 0 : (tensor<24x4xf32>, tensor<8x2xi64>) -> tensor<8x2x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x2x4xf32>
}

// -----

// Samples that are taken one by one, all in the same way: the first ones stay.
// CHECK-LABEL: func.func @main(
// CHECK-SAME: -> (tensor<2x3xf32> {step.batched})
func.func @main(%x: tensor<4x3xf32> {step.batched}) -> tensor<4x3xf32> {
  %two = nn.constant dense<2.0> : tensor<1x3xf32>
  // CHECK: %[[FIRST:.+]] = nn.slice %{{.+}} starts [0, 0] limits [1, 3] strides [1, 1] : tensor<2x3xf32> -> tensor<1x3xf32>
  %0 = nn.slice %x starts [0, 0] limits [1, 3] strides [1, 1] : tensor<4x3xf32> -> tensor<1x3xf32>
  // CHECK: %[[A:.+]] = nn.mul %[[FIRST]], %{{.+}} : tensor<1x3xf32>
  %1 = nn.mul %0, %two : tensor<1x3xf32>
  // CHECK: %[[SECOND:.+]] = nn.slice %{{.+}} starts [1, 0] limits [2, 3] strides [1, 1] : tensor<2x3xf32> -> tensor<1x3xf32>
  %2 = nn.slice %x starts [1, 0] limits [2, 3] strides [1, 1] : tensor<4x3xf32> -> tensor<1x3xf32>
  // A constant of its own, but the same one.
  %again = nn.constant dense<2.0> : tensor<1x3xf32>
  // CHECK: %[[B:.+]] = nn.mul %[[SECOND]], %{{.+}} : tensor<1x3xf32>
  %3 = nn.mul %2, %again : tensor<1x3xf32>
  %4 = nn.slice %x starts [2, 0] limits [3, 3] strides [1, 1] : tensor<4x3xf32> -> tensor<1x3xf32>
  %5 = nn.mul %4, %two : tensor<1x3xf32>
  %6 = nn.slice %x starts [3, 0] limits [4, 3] strides [1, 1] : tensor<4x3xf32> -> tensor<1x3xf32>
  // CHECK-NOT: nn.mul
  %7 = nn.mul %6, %two : tensor<1x3xf32>
  // CHECK: nn.concat %[[A]], %[[B]] axis 0
  %8 = nn.concat %1, %3, %5, %7 axis 0 : (tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  return %8 : tensor<4x3xf32>
}

// -----

// A tensor that an exporter computed for a number of samples, all of which have
// the same, is one sample that is repeated.
// CHECK-LABEL: func.func @main(
ml_program.global private @rows(dense<[[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [3.0, 4.0], [3.0, 4.0], [3.0, 4.0]]> : tensor<8x2xf32>) : tensor<8x2xf32>
func.func @main(%y: tensor<4x2x2xf32> {step.batched}) -> tensor<8x2xf32> {
  %rows = nn.parameter @rows : tensor<8x2xf32>
  // CHECK: nn.reshape %{{.+}} : tensor<8x2xf32> -> tensor<2x4x1x2xf32>
  // CHECK: nn.slice %{{.+}} starts [0, 0, 0, 0] limits [2, 1, 1, 2] strides [1, 1, 1, 1] : tensor<2x4x1x2xf32> -> tensor<2x1x1x2xf32>
  // CHECK: %[[ONE:.+]] = nn.reshape %{{.+}} : tensor<2x1x1x2xf32> -> tensor<2x1x2xf32>
  // CHECK: nn.broadcast %[[ONE]] [0, 2, 3] : tensor<2x1x2xf32> -> tensor<2x2x1x2xf32>
  %turned = nn.transpose %y [1, 0, 2] : tensor<4x2x2xf32> -> tensor<2x4x2xf32>
  %flat = nn.reshape %turned : tensor<2x4x2xf32> -> tensor<8x2xf32>
  // CHECK: nn.add {{.*}} : tensor<4x2xf32>
  %sum = nn.add %flat, %rows : tensor<8x2xf32>
  return %sum : tensor<8x2xf32>
}

// -----

// Rows of products of integers are samples.
// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<8x3x30xui8> {step.batched, step.feed = "x"}) -> (tensor<8x3x100xi32>, tensor<8x3x100xf32>) {
  %w = nn.constant dense<1> : tensor<2x8x64x4xi8>
  // CHECK: nn.integer_product %{{.+}}, %{{.+}} : (tensor<2x3x30xui8>, tensor<2x8x64x4xi8>) -> tensor<2x3x100xi32>
  %0 = nn.integer_product %x, %w : (tensor<8x3x30xui8>, tensor<2x8x64x4xi8>) -> tensor<8x3x100xi32>
  %a = nn.cast %x : tensor<8x3x30xui8> -> tensor<8x3x30xf32>
  %b = nn.constant dense<1> : tensor<100x1x16xui8>
  %s = nn.constant dense<1.0> : tensor<100x1xf32>
  // CHECK: nn.block_product {{.+}} : (tensor<2x3x30xf32>, tensor<100x1x16xui8>, tensor<100x1xf32>) -> tensor<2x3x100xf32>
  %1 = nn.block_product %a, %b, %s : (tensor<8x3x30xf32>, tensor<100x1x16xui8>, tensor<100x1xf32>) -> tensor<8x3x100xf32>
  return %0, %1 : tensor<8x3x100xi32>, tensor<8x3x100xf32>
}
