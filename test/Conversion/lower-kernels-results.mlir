// RUN: pp-opt %s --nn-lower-kernels | FileCheck %s

// Results of one shape are written in one loop, each computed once: what the
// backward pass reads later need not be read back for the others.
// CHECK: func.func @kernel_0(
// CHECK: linalg.generic
// CHECK-SAME: outs({{.*}}, {{.*}}, {{.*}} : memref<4x8xf32>, memref<4x8xf32>, memref<4x8xbf16>)
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK-NOT: arith.addf
// CHECK: %[[ERF:.*]] = math.erf %[[SUM]]
// CHECK-NOT: math.erf
// CHECK: %[[SHORT:.*]] = arith.truncf
// CHECK: linalg.yield %[[SUM]], %[[ERF]], %[[SHORT]]
// CHECK-NOT: linalg.generic

// A sum, and a result of another shape, have loops of their own; the sum reads
// what is in memory.
// CHECK: func.func @kernel_1(
// CHECK: linalg.generic
// CHECK-SAME: outs({{.*}} : memref<8xf32>)
// CHECK: linalg.generic
// CHECK-SAME: outs({{.*}}, {{.*}} : memref<4x8xf32>, memref<4x8xf32>)
// CHECK: arith.mulf
// CHECK: arith.subf
// CHECK: linalg.fill
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["reduction", "parallel"]
// CHECK-NOT: arith.subf
// CHECK-NOT: linalg.generic

// Where numbers are drawn, each result has a loop.
// CHECK: func.func @kernel_2(
// CHECK-COUNT-2: linalg.generic
// CHECK-NOT: linalg.generic
module {
  func.func @main(%x: tensor<4x8xf32> {step.feed = "x"}, %b: tensor<8xf32> {step.feed = "b"}, %n: tensor<5xi32> {step.feed = "random_counter"}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xbf16>, tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
    %0:3 = nn.kernel(%a = %x, %c = %b) : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xbf16>) {
      %1 = nn.broadcast %c [1] : tensor<8xf32> -> tensor<4x8xf32>
      %2 = nn.add %a, %1 : tensor<4x8xf32>
      %3 = nn.erf %2 : tensor<4x8xf32>
      %4 = nn.mul %2, %3 : tensor<4x8xf32>
      %5 = nn.cast %4 : tensor<4x8xf32> -> tensor<4x8xbf16>
      nn.yield %2, %3, %5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xbf16>
    }
    %6:4 = nn.kernel(%a = %x, %c = %b) : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) {
      %1 = nn.neg %c : tensor<8xf32>
      %2 = nn.broadcast %1 [1] : tensor<8xf32> -> tensor<4x8xf32>
      %3 = nn.mul %a, %2 : tensor<4x8xf32>
      %4 = nn.sub %3, %a : tensor<4x8xf32>
      %5 = nn.reduce sum %4 [0] : tensor<4x8xf32> -> tensor<8xf32>
      nn.yield %1, %3, %4, %5 : tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>
    }
    %7:2 = nn.kernel(%a = %x, %c = %n) : (tensor<4x8xf32>, tensor<5xi32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
      %1 = nn.uniform %c stream 0 samples [0, 1, 1] : tensor<5xi32> -> tensor<4x8xf32>
      %2 = nn.add %a, %1 : tensor<4x8xf32>
      nn.yield %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
    }
    return %0#0, %0#1, %0#2, %6#0, %6#1, %6#2, %6#3, %7#0, %7#1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xbf16>, tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}
