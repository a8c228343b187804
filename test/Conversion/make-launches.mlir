// What each kind of loop nest becomes on a GPU.
// RUN: pp-opt %s --nn-attach-optimizer="momentum=0.9" --nn-lower-kernels --pp-make-launches --canonicalize | FileCheck %s

// CHECK: module attributes {pp.optimizer_launch = "launch name=optimizer elements=256 blocks=256 tensors=4"}
module {
  func.func @main(%x: tensor<64x36xf32> {step.feed = "x"}, %b: tensor<36xf32> {step.feed = "b"}, %o: tensor<5x33xf32> {step.feed = "o"}, %i: tensor<7xi64> {step.feed = "i"}, %j: tensor<100xi64> {step.feed = "j"}, %u: tensor<7x8xf32> {step.feed = "u"}, %h: tensor<5x36xbf16> {step.feed = "h"}, %t: tensor<2048x40xf32> {step.feed = "t"}, %z: tensor<3x8xf32> {step.feed = "z"}) -> (tensor<64x36xf32>, tensor<5x33xf32>, tensor<64xf32>, tensor<36xf32>, tensor<33xf32>, tensor<5x33xf32>, tensor<3x8xf32>, tensor<i64>, tensor<36xf32>, tensor<5x36xbf16>, tensor<40xf32>, tensor<3x8xf32>) {
    // Parallel loops, 4 points per thread: 64 * 9 threads.
    // CHECK: pp.launch = "launch name=kernel_0 grids=3 blocks=256 tensors=3", pp.launch_scratchpad = 0
    %0 = nn.kernel(%a = %x, %c = %b) : (tensor<64x36xf32>, tensor<36xf32>) -> tensor<64x36xf32> {
      %1 = nn.broadcast %c [1] : tensor<36xf32> -> tensor<64x36xf32>
      %2 = nn.add %a, %1 : tensor<64x36xf32>
      nn.yield %2 : tensor<64x36xf32>
    }
    // Rows of 33 numbers do not start at multiples of a vector, but all of them do as one row of 165; that is no multiple of 4.
    // CHECK: "launch name=kernel_1 grids=1 blocks=192 tensors=2"
    %10 = nn.kernel(%a = %o) : (tensor<5x33xf32>) -> tensor<5x33xf32> {
      %2 = nn.neg %a : tensor<5x33xf32>
      nn.yield %2 : tensor<5x33xf32>
    }
    // The fill with 0 is part of the reduction. More than 32 terms, innermost: a block per output.
    // CHECK: "launch name=kernel_2 grids=64 blocks=32 tensors=2"
    %20 = nn.kernel(%a = %x) : (tensor<64x36xf32>) -> tensor<64xf32> {
      %2 = nn.reduce sum %a [1] : tensor<64x36xf32> -> tensor<64xf32>
      nn.yield %2 : tensor<64xf32>
    }
    // More than 32 terms, outer loop: a block per 32 outputs.
    // CHECK: "launch name=kernel_3 grids=2 blocks=1024 tensors=2"
    %30 = nn.kernel(%a = %x) : (tensor<64x36xf32>) -> tensor<36xf32> {
      %2 = nn.reduce max %a [0] : tensor<64x36xf32> -> tensor<36xf32>
      nn.yield %2 : tensor<36xf32>
    }
    // Few terms: a thread per output.
    // CHECK: "launch name=kernel_4 grids=1 blocks=64 tensors=2"
    %40 = nn.kernel(%a = %o) : (tensor<5x33xf32>) -> tensor<33xf32> {
      %2 = nn.reduce sum %a [0] : tensor<5x33xf32> -> tensor<33xf32>
      nn.yield %2 : tensor<33xf32>
    }
    // A block per row.
    // CHECK: "launch name=kernel_5 grids=5 blocks=64 tensors=2"
    %50 = nn.kernel(%a = %o) : (tensor<5x33xf32>) -> tensor<5x33xf32> {
      %2 = nn.softmax %a : tensor<5x33xf32>
      nn.yield %2 : tensor<5x33xf32>
    }
    // The fill, then a block per index for its rank, then for its sum; the scratchpad holds the order and the lengths.
    // CHECK: "launch name=kernel_6 grids=1x7x7 blocks=32x32x32 tensors=3", pp.launch_scratchpad = 128
    %60 = nn.kernel(%a = %i, %v = %u) : (tensor<7xi64>, tensor<7x8xf32>) -> tensor<3x8xf32> {
      %2 = nn.scatter_add %v at [%a] axis 0 : (tensor<7xi64>, tensor<7x8xf32>) -> tensor<3x8xf32>
      nn.yield %2 : tensor<3x8xf32>
    }
    // A 64-bit sum.
    // CHECK: "launch name=kernel_7 grids=1 blocks=32 tensors=2"
    %70 = nn.kernel(%a = %j) : (tensor<100xi64>) -> tensor<i64> {
      %2 = nn.reduce sum %a [0] : tensor<100xi64> -> tensor<i64>
      nn.yield %2 : tensor<i64>
    }
    // The number goes to the scratchpad, the launch after it reads it there.
    // CHECK: "launch name=kernel_8 grids=1x1 blocks=32x32 tensors=2", pp.launch_scratchpad = 64
    %80 = nn.kernel(%a = %x) : (tensor<64x36xf32>) -> tensor<36xf32> {
      %1 = nn.constant dense<3> : tensor<i64>
      %2 = nn.gather %a[%1] axis 0 : (tensor<64x36xf32>, tensor<i64>) -> tensor<36xf32>
      nn.yield %2 : tensor<36xf32>
    }
    // Rows of 16 bits: nothing else is written.
    // CHECK: "launch name=kernel_9 grids=5 blocks=32 tensors=2", pp.launch_scratchpad = 0
    %90 = nn.kernel(%a = %h) : (tensor<5x36xbf16>) -> tensor<5x36xbf16> {
      %1 = nn.cast %a : tensor<5x36xbf16> -> tensor<5x36xf32>
      %2 = nn.softmax %1 : tensor<5x36xf32>
      %3 = nn.cast %2 : tensor<5x36xf32> -> tensor<5x36xbf16>
      nn.yield %3 : tensor<5x36xbf16>
    }
    // Few sums of many terms: 8 parts of 256 terms, then their sums.
    // CHECK: "launch name=kernel_10 grids=16x1 blocks=1024x64 tensors=2", pp.launch_scratchpad = 1280
    %100 = nn.kernel(%a = %t) : (tensor<2048x40xf32>) -> tensor<40xf32> {
      %2 = nn.reduce sum %a [0] : tensor<2048x40xf32> -> tensor<40xf32>
      nn.yield %2 : tensor<40xf32>
    }
    // The copy, then a thread for each of 8 columns, which takes the 7 updates in their order.
    // CHECK: "launch name=kernel_11 grids=1x1 blocks=32x32 tensors=4", pp.launch_scratchpad = 0
    %110 = nn.kernel(%a = %i, %v = %u, %w = %z) : (tensor<7xi64>, tensor<7x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32> {
      %2 = nn.scatter %v into %w at [%a] axis 0 : (tensor<3x8xf32>, tensor<7xi64>, tensor<7x8xf32>) -> tensor<3x8xf32>
      nn.yield %2 : tensor<3x8xf32>
    }
    return %0, %10, %20, %30, %40, %50, %60, %70, %80, %90, %100, %110 : tensor<64x36xf32>, tensor<5x33xf32>, tensor<64xf32>, tensor<36xf32>, tensor<33xf32>, tensor<5x33xf32>, tensor<3x8xf32>, tensor<i64>, tensor<36xf32>, tensor<5x36xbf16>, tensor<40xf32>, tensor<3x8xf32>
  }
}

// No function is left in @code.
// CHECK: gpu.module @device {

// CHECK-LABEL: gpu.func @kernel_0_0(
// CHECK-SAME: memref<1xi8> {llvm.noalias}) kernel attributes {known_block_size = array<i32: 256, 1, 1>}
// CHECK: arith.cmpi ult
// CHECK: scf.if
// CHECK: vector.load {{.*}} memref<64x36xf32>, vector<4xf32>
// CHECK: vector.load {{.*}} memref<36xf32>, vector<4xf32>
// CHECK-COUNT-4: arith.addf
// CHECK: vector.store

// CHECK-LABEL: gpu.func @kernel_1_0(
// CHECK-NOT: vector
// CHECK: memref.load {{.*}} memref<165xf32>
// CHECK: arith.negf
// CHECK: memref.store

// CHECK-LABEL: gpu.func @kernel_2_0(
// CHECK: %[[PART:.*]] = scf.for
// CHECK: vector.load
// CHECK: gpu.shuffle  xor %[[PART]]
// CHECK-COUNT-4: gpu.shuffle  xor
// CHECK-NOT: gpu.barrier
// CHECK: scf.if
// CHECK-NOT: memref.load
// CHECK: memref.store

// CHECK-LABEL: gpu.func @kernel_3_0(
// CHECK-SAME: workgroup(%[[SHARED:.*]] : memref<1024xf32, #gpu.address_space<workgroup>>)
// CHECK: scf.if
// CHECK: scf.for
// CHECK: arith.maximumf
// CHECK: memref.store {{.*}}, %[[SHARED]]
// CHECK: gpu.barrier
// CHECK: scf.if
// CHECK: memref.store {{.*}} : memref<36xf32>

// CHECK-LABEL: gpu.func @kernel_4_0(
// CHECK-NOT: gpu.barrier
// CHECK: scf.for
// CHECK: arith.addf
// CHECK: memref.store

// The memory through which threads exchange values may change at a barrier.
// CHECK-LABEL: gpu.func @kernel_5_0(
// CHECK-SAME: memref<5x33xf32> {llvm.noalias}, %{{.*}}: memref<5x33xf32>, %{{.*}}: memref<1xi8>
// CHECK-SAME: workgroup(%{{.*}} : memref<2xf32, #gpu.address_space<workgroup>>, %{{.*}} : memref<2xf32, #gpu.address_space<workgroup>>)
// CHECK: memref.subview
// CHECK: arith.maximumf
// CHECK-COUNT-5: gpu.shuffle
// CHECK: gpu.barrier
// CHECK: math.exp
// CHECK: gpu.barrier
// CHECK: gpu.shuffle
// CHECK: arith.divf
// CHECK: arith.mulf

// CHECK-LABEL: gpu.func @kernel_6_0(
// CHECK: vector.store {{.*}} : memref<24xf32>, vector<4xf32>
// CHECK-LABEL: gpu.func @kernel_6_1(
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: scf.for
// CHECK: arith.ori
// CHECK-COUNT-15: gpu.shuffle
// CHECK: scf.if
// CHECK: memref.store {{.*}} : memref<7xi32>
// CHECK: memref.store {{.*}} : memref<7xi32>
// CHECK-LABEL: gpu.func @kernel_6_2(
// CHECK: %[[LENGTH:.*]] = memref.load {{.*}} : memref<7xi32>
// CHECK: scf.if
// CHECK: scf.for
// CHECK: vector.load {{.*}} : memref<1x3x8xf32>
// CHECK: scf.for
// CHECK: vector.load {{.*}} : memref<1x7x8xf32>
// CHECK: arith.addf {{.*}} : vector<4xf32>
// CHECK: vector.store {{.*}} : memref<1x3x8xf32>

// CHECK-LABEL: gpu.func @kernel_7_0(
// CHECK: arith.shrui
// CHECK: gpu.shuffle {{.*}} : i32
// CHECK: gpu.shuffle {{.*}} : i32
// CHECK: arith.shli
// CHECK: arith.addi {{.*}} : i64

// CHECK-LABEL: gpu.func @kernel_8_0(
// CHECK-SAME: memref<64xi8>
// CHECK: memref.view {{.*}} : memref<64xi8> to memref<i64>
// CHECK: memref.store
// CHECK-LABEL: gpu.func @kernel_8_1(
// CHECK: memref.view {{.*}} : memref<64xi8> to memref<i64>
// CHECK: memref.load

// Sums are of 32 bits; short numbers cannot hold the exponentials, so they are computed twice.
// CHECK-LABEL: gpu.func @kernel_9_0(
// CHECK: vector.load {{.*}}, vector<4xbf16>
// CHECK: arith.extf
// CHECK: arith.maximumf {{.*}} : f32
// CHECK: math.exp
// CHECK: arith.addf {{.*}} : f32
// CHECK-NOT: vector.store
// CHECK: math.exp
// CHECK: arith.mulf
// CHECK: arith.truncf
// CHECK: vector.store {{.*}}, vector<4xbf16>
// CHECK-NOT: vector.load

// CHECK-LABEL: gpu.func @kernel_10_0(
// CHECK: scf.for
// CHECK-COUNT-4: arith.addf
// CHECK: memref.store {{.*}} : memref<8x40xf32>
// CHECK-LABEL: gpu.func @kernel_10_1(
// CHECK: scf.for
// CHECK: memref.load {{.*}} : memref<8x40xf32>
// CHECK: memref.store {{.*}} : memref<40xf32>

// CHECK-LABEL: gpu.func @kernel_11_1(
// CHECK: %[[THREAD:.*]] = arith.addi
// CHECK: scf.for %[[AT:.*]] = %c0 to %c7 step
// CHECK: memref.load %arg1[%[[AT]], %[[THREAD]]]
// CHECK: memref.store %{{.*}}, %arg3[%{{.*}}, %[[THREAD]]]

// One thread per parameter of a range; states are as far apart as the last argument says.
// CHECK-LABEL: gpu.func @optimizer_0(
// CHECK-SAME: %[[P:.*]]: memref<1099511627776xf32> {llvm.noalias}, %[[G:.*]]: memref<1099511627776xf32> {llvm.noalias}, %[[S:.*]]: memref<1099511627776xf32> {llvm.noalias}, %{{.*}}: memref<{{[0-9]}}xf32> {llvm.noalias}, %{{.*}}: memref<1099511627776xf64> {llvm.noalias}, %[[COUNT:.*]]: i64, %[[STRIDE:.*]]: i64) kernel
// CHECK: %[[END:.*]] = arith.index_cast %[[COUNT]]
// CHECK: arith.cmpi ult, %{{.*}}, %[[END]]
// CHECK: scf.if
// CHECK: memref.load %[[P]]
// CHECK: memref.load %[[G]]
// CHECK: memref.load %[[S]]
// CHECK: memref.store {{.*}}, %[[P]]
// CHECK: memref.store {{.*}}, %[[S]]
