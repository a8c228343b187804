// Each kernel of @device becomes a function of one thread in @code.
// RUN: pp-opt %s --pp-lower-to-mock --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-NOT: gpu.module
// CHECK: module @code
// CHECK-DAG: func.func private @pp_mock_barrier(i32)
// CHECK-DAG: func.func private @pp_mock_shuffle(i32, i32, i32) -> i32
module {
  module @code {
  }
  gpu.module @device {
    // CHECK: func.func @plain_0(%[[X:.*]]: memref<8xf32> {llvm.noalias}, %[[COUNT:.*]]: i64, %{{.*}}: memref<0xi8>, %[[BLOCK:.*]]: index, %[[THREAD:.*]]: index)
    // CHECK-SAME: attributes {pp.mock_kernel = #pp.mock_kernel<shared = 0, waits = 0>}
    // CHECK: %[[AT:.*]] = arith.addi %[[BLOCK]], %[[THREAD]]
    // CHECK: %[[INSIDE:.*]] = arith.cmpi ult, %[[AT]], %c8
    // CHECK: %[[OUTSIDE:.*]] = arith.xori %[[INSIDE]]
    // CHECK: scf.if %[[OUTSIDE]]
    // CHECK: %[[KIND:.*]] = arith.constant 0 : i32
    // CHECK: call @pp_mock_fault(%[[KIND]], %[[BLOCK]], %[[THREAD]])
    // CHECK: %[[SAFE:.*]] = arith.select %[[INSIDE]], %[[AT]], %c0
    // CHECK: memref.load %[[X]][%[[SAFE]]]
    // CHECK: return
    gpu.func @plain_0(%x: memref<8xf32> {llvm.noalias}, %count: i64) kernel {
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %at = arith.addi %block, %thread : index
      %0 = memref.load %x[%at] : memref<8xf32>
      gpu.return
    }
    // The last of four lanes is inside; the address is a multiple of 16.
    // CHECK: func.func @vector_0(%[[X:.*]]: memref<2x8xf32>
    // CHECK: arith.cmpi ult, %{{.*}}, %c2{{[_a-z0-9]*}} : index
    // CHECK: arith.cmpi ult, %{{.*}}, %c5{{[_a-z0-9]*}} : index
    // CHECK: memref.extract_strided_metadata %[[X]]
    // CHECK: memref.extract_aligned_pointer_as_index %[[X]]
    // CHECK: arith.remui %{{.*}}, %c16
    // CHECK: %[[KIND:.*]] = arith.constant 1 : i32
    // CHECK: call @pp_mock_fault(%[[KIND]]
    // CHECK: vector.load
    gpu.func @vector_0(%x: memref<2x8xf32>) kernel {
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %0 = vector.load %x[%block, %thread] : memref<2x8xf32>, vector<4xf32>
      gpu.return
    }
    // CHECK: func.func @waits_0(%[[X:.*]]: memref<8xf32>, %[[SHARED:.*]]: memref<128xi8>, %{{.*}}: index, %[[THREAD:.*]]: index)
    // CHECK-SAME: pp.mock_kernel = #pp.mock_kernel<shared = 128, waits = 1>
    // CHECK: %[[A:.*]] = memref.view %[[SHARED]][%c0{{.*}}][] : memref<128xi8> to memref<2xf32>
    // CHECK: %[[B:.*]] = memref.view %[[SHARED]][%c64{{.*}}][] : memref<128xi8> to memref<3xi64>
    // CHECK: %[[V:.*]] = memref.load %[[X]]
    // CHECK: %[[BITS:.*]] = arith.bitcast %[[V]] : f32 to i32
    // CHECK: %[[PLACE:.*]] = arith.constant 0 : i32
    // CHECK: %[[OTHER:.*]] = call @pp_mock_shuffle(%[[BITS]], %{{.*}}, %[[PLACE]])
    // CHECK: %[[W:.*]] = arith.bitcast %[[OTHER]] : i32 to f32
    // CHECK: memref.store %[[W]], %[[A]]
    // CHECK: %[[PLACE:.*]] = arith.constant 1 : i32
    // CHECK: call @pp_mock_barrier(%[[PLACE]])
    // CHECK: memref.load %[[B]]
    gpu.func @waits_0(%x: memref<8xf32>) workgroup(%a: memref<2xf32, #gpu.address_space<workgroup>>, %b: memref<3xi64, #gpu.address_space<workgroup>>) kernel {
      %c0 = arith.constant 0 : index
      %thread = gpu.thread_id x
      %v = memref.load %x[%thread] : memref<8xf32>
      %mask = arith.constant 4 : i32
      %width = arith.constant 32 : i32
      %w, %valid = gpu.shuffle xor %v, %mask, %width : f32
      memref.store %w, %a[%c0] : memref<2xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %n = memref.load %b[%c0] : memref<3xi64, #gpu.address_space<workgroup>>
      gpu.return
    }
  }
}

// -----

// expected-error@+1 {{has no modules @code and @device; run pp-make-launches first}}
module {
}

// -----

module {
  module @code {
  }
  gpu.module @device {
    gpu.func @up_0(%x: i32) kernel {
      %c1 = arith.constant 1 : i32
      %width = arith.constant 32 : i32
      // expected-error@+1 {{cannot run on the mock device: expected one that exchanges 32 bits by XOR in a warp of 32}}
      %w, %valid = gpu.shuffle up %x, %c1, %width : i32
      gpu.return
    }
  }
}

// -----

module {
  module @code {
  }
  gpu.module @device {
    gpu.func @two_0() kernel {
      // expected-error@+1 {{cannot run on the mock device: grids and blocks have one dimension}}
      %y = gpu.thread_id y
      gpu.return
    }
  }
}
