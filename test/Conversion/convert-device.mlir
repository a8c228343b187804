// Kernels become functions of the LLVM and NVVM dialects, without calls of libdevice.
// RUN: pp-opt %s --pass-pipeline="builtin.module(gpu.module(pp-convert-device))" | FileCheck %s

module {
  gpu.module @device {
    // Shared memory is a global of address space 3, aligned for vectors of 16 bytes.
    // CHECK: llvm.mlir.global internal @{{.*}}() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<2 x f32>
    // CHECK: llvm.func @k_0(%[[X:.*]]: !llvm.ptr {llvm.noalias}, %{{.*}}: i64)
    // CHECK-SAME: nvvm.kernel
    // CHECK-SAME: nvvm.maxntid = array<i32: 64, 1, 1>
    // CHECK: nvvm.read.ptx.sreg.tid.x
    // CHECK: nvvm.read.ptx.sreg.ctaid.x
    // CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
    // CHECK-NOT: llvm.call
    // CHECK: llvm.intr.floor
    // CHECK: llvm.intr.sqrt
    // CHECK: nvvm.shfl.sync {{ *}}bfly
    // CHECK: llvm.store {{.*}} : f32, !llvm.ptr<3>
    // CHECK: nvvm.barrier
    // CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> f32
    gpu.func @k_0(%x: memref<64x4xf32> {llvm.noalias}, %count: i64) workgroup(%shared: memref<2xf32, #gpu.address_space<workgroup>>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
      %c0 = arith.constant 0 : index
      %thread = gpu.thread_id x
      %block = gpu.block_id x
      %v = vector.load %x[%thread, %c0] : memref<64x4xf32>, vector<4xf32>
      %a = vector.extract %v[0] : f32 from vector<4xf32>
      %b = math.floor %a : f32
      %c = math.sqrt %b : f32
      %mask = arith.constant 4 : i32
      %width = arith.constant 32 : i32
      %w, %valid = gpu.shuffle xor %c, %mask, %width : f32
      memref.store %w, %shared[%c0] : memref<2xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %d = memref.load %shared[%c0] : memref<2xf32, #gpu.address_space<workgroup>>
      memref.store %d, %x[%block, %thread] : memref<64x4xf32>
      gpu.return
    }
  }
}
