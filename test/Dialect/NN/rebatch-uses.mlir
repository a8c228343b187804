// RUN: pp-opt %s --nn-rebatch="batch=4 microbatches=1" | FileCheck %s

// A sum over the uses of a norm that is not written as the importer does: all
// count as having the elements that the commit says, 8 for each channel.
// CHECK-LABEL: func.func @main(
// CHECK: %[[SUM:.+]] = nn.add %{{.+}}, %{{.+}} : tensor<3xf32>
// CHECK: %[[LARGER:.+]] = nn.constant dense<1.14285719> : tensor<f32>
// CHECK: %[[SPREAD:.+]] = nn.broadcast %[[LARGER]] [] : tensor<f32> -> tensor<3xf32>
// CHECK: nn.mul %[[SUM]], %[[SPREAD]]
// CHECK: nn.commit_statistics @m, @v momentum 5.000000e-01 microbatches 1 elements 8 each uses 2
func.func @main(%x: tensor<4x3x2xf32> {step.batched, step.feed = "x", step.role = #step.role<input>}, %s: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<4x3x2xf32> {
  %y, %mean, %variance = nn.batch_norm %x, %s, %b epsilon 1.0e-5 : (tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x2xf32>, tensor<3xf32>, tensor<3xf32>)
  %sum = nn.add %variance, %variance : tensor<3xf32>
  nn.accumulate statistics @m, %mean : tensor<3xf32>
  nn.accumulate statistics @v, %sum : tensor<3xf32>
  nn.commit_statistics @m, @v momentum 0.5 microbatches 1 elements 8 each uses 2
  return %y : tensor<4x3x2xf32>
}
ml_program.global private mutable @m(dense<0.0> : tensor<3xf32>) : tensor<3xf32>
ml_program.global private mutable @v(dense<1.0> : tensor<3xf32>) : tensor<3xf32>
