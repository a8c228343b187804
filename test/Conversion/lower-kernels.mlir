// RUN: pp-opt %s --nn-lower-kernels | FileCheck %s

// Equal kernels share a function; locations and costs do not matter.
// CHECK: nn.kernel{{.*}}pp.callee = @kernel_0
// CHECK: nn.kernel{{.*}}pp.callee = @kernel_0
// CHECK: nn.kernel{{.*}}pp.callee = @kernel_1
// CHECK: nn.kernel
// CHECK-NOT: pp.callee
// CHECK: nn.dot_general
// CHECK: module @code
// CHECK: func.func @kernel_0(%[[A:.*]]: memref<4x8xf32> {llvm.align = 64 : i64, llvm.noalias, llvm.nonnull}, %[[B:.*]]: memref<8xf32> {{.*}}, %[[C:.*]]: memref<4x8xf32>
// CHECK: linalg.generic
// CHECK: arith.addf
// CHECK: arith.cmpf ole
// CHECK: func.func @kernel_1(%{{.*}}: memref<4x8xf32>
// CHECK: linalg.fill
// CHECK: iterator_types = ["reduction"]
// CHECK: arith.addf {{.*}} fastmath<reassoc>
// CHECK-NOT: func.func
module {
  func.func @main(%x: tensor<4x8xf32> {step.feed = "x"}, %b: tensor<8xf32> {step.feed = "b"}) -> (tensor<4x8xf32>, tensor<f32>, tensor<4x4xf32>) {
    %0 = nn.kernel(%a = %x, %c = %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
      %1 = nn.broadcast %c [1] : tensor<8xf32> -> tensor<4x8xf32>
      %2 = nn.add %a, %1 : tensor<4x8xf32>
      %3 = nn.relu %2 : tensor<4x8xf32>
      nn.yield %3 : tensor<4x8xf32>
    } loc("one")
    %4 = nn.kernel(%a = %0, %c = %b) attributes {pp.stage = 1 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
      %1 = nn.broadcast %c [1] : tensor<8xf32> -> tensor<4x8xf32>
      %2 = nn.add %a, %1 : tensor<4x8xf32>
      %3 = nn.relu %2 : tensor<4x8xf32>
      nn.yield %3 : tensor<4x8xf32>
    } loc("other")
    %5 = nn.kernel(%a = %4) : (tensor<4x8xf32>) -> tensor<f32> {
      %1 = nn.reduce sum %a [0, 1] : tensor<4x8xf32> -> tensor<f32>
      nn.yield %1 : tensor<f32>
    }
    %6 = nn.kernel(%a = %4) : (tensor<4x8xf32>) -> tensor<4x4xf32> {
      %1 = nn.dot_general %a, %a batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
      nn.yield %1 : tensor<4x4xf32>
    }
    return %4, %5, %6 : tensor<4x8xf32>, tensor<f32>, tensor<4x4xf32>
  }
}
