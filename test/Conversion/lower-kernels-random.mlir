// RUN: pp-opt %s --nn-lower-kernels | FileCheck %s

module {
  func.func @main(%x: tensor<8x6xf32> {step.feed = "x"}, %y: tensor<2x3xf32> {step.feed = "y"}, %c: tensor<5xi32> {step.feed = "random_counter"})
      -> (tensor<8x6xf32>, tensor<2x3xf32>, tensor<f32>) {
    // An axis of 2 samples with 4 rows each is walked along as two, and each iteration computes a number in each row's quarter.
    // CHECK-LABEL: func.func @kernel_0(
    // CHECK: memref.expand_shape {{.*}} : memref<8x6xf32{{.*}}> into memref<2x4x6xf32
    // CHECK: memref.collapse_shape {{.*}} : memref<2x4x6xf32{{.*}}> into memref<2x24xf32
    // CHECK: memref.subview {{.*}}[0, 0] [2, 6] [1, 1]
    // CHECK: memref.subview {{.*}}[0, 6] [2, 6] [1, 1]
    // CHECK: memref.subview {{.*}}[0, 12] [2, 6] [1, 1]
    // CHECK: memref.subview {{.*}}[0, 18] [2, 6] [1, 1]
    // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
    // CHECK-COUNT-20: arith.mului_extended
    // CHECK-NOT: arith.mului_extended
    // CHECK: linalg.yield {{.*}} : f32, f32, f32, f32
    %0 = nn.kernel(%a = %x, %k = %c) : (tensor<8x6xf32>, tensor<5xi32>) -> tensor<8x6xf32> {
      %u = nn.uniform %k stream 0 samples [0, 1, 4] : tensor<5xi32> -> tensor<8x6xf32>
      %s = nn.add %a, %u : tensor<8x6xf32>
      nn.yield %s : tensor<8x6xf32>
    }
    // Three numbers are no multiple of a block's four words: each comes from a block of its own.
    // CHECK-LABEL: func.func @kernel_1(
    // CHECK: linalg.generic
    // CHECK: arith.select
    // CHECK: linalg.yield {{.*}} : f32
    %1 = nn.kernel(%a = %y, %k = %c) : (tensor<2x3xf32>, tensor<5xi32>) -> tensor<2x3xf32> {
      %u = nn.uniform %k stream 1 seed 4294967301 samples [0, 1, 1] : tensor<5xi32> -> tensor<2x3xf32>
      %s = nn.add %a, %u : tensor<2x3xf32>
      nn.yield %s : tensor<2x3xf32>
    }
    // So are those of a sum.
    // CHECK-LABEL: func.func @kernel_2(
    // CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "reduction"
    // CHECK: arith.addf {{.*}} fastmath<reassoc>
    %2 = nn.kernel(%a = %x, %k = %c) : (tensor<8x6xf32>, tensor<5xi32>) -> tensor<f32> {
      %u = nn.uniform %k stream 0 samples [0, 1, 4] : tensor<5xi32> -> tensor<8x6xf32>
      %s = nn.add %a, %u : tensor<8x6xf32>
      %r = nn.reduce sum %s [0, 1] : tensor<8x6xf32> -> tensor<f32>
      nn.yield %r : tensor<f32>
    }
    return %0, %1, %2 : tensor<8x6xf32>, tensor<2x3xf32>, tensor<f32>
  }
}
