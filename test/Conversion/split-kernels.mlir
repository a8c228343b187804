// RUN: pp-opt %s --pp-split-kernels | FileCheck %s

// Threads share the rows of a product with a vector.
// CHECK: func.func private @pp_join_parts(!llvm.ptr)
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %{{.*}}: memref<256x128xf32>, %{{.*}}: memref<256xf32>, %[[TEAM:.*]]: !llvm.ptr, %[[PART:.*]]: i64, %[[PARTS:.*]]: i64)
// CHECK-DAG: %[[I:.*]] = arith.index_cast %[[PART]]
// CHECK-DAG: %[[N:.*]] = arith.index_cast %[[PARTS]]
// CHECK: arith.divui %{{.*}}, %[[N]]
// CHECK: affine.for %{{.*}} = %{{.*}} to %{{.*}} {
// CHECK-NEXT: affine.for %{{.*}} = 0 to 128 {
// CHECK-NOT: call
// CHECK: return
func.func @rows(%x: memref<256x128xf32>, %y: memref<256xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<256x128xf32>) outs(%y : memref<256xf32>) {
  ^bb0(%a: f32, %s: f32):
    %0 = arith.addf %a, %s : f32
    linalg.yield %0 : f32
  }
  return
}

// The sum over rows stays whole in each thread, which has some of the columns;
// before it reads what others wrote, it waits for them.
// CHECK-LABEL: func.func @columns(
// CHECK: affine.for %{{.*}} = %{{.*}} to %{{.*}} {
// CHECK: affine.store
// CHECK: call @pp_join_parts
// CHECK: affine.for %{{.*}} = 0 to 512 {
// CHECK-NEXT: affine.for %{{.*}} = %{{.*}} to %{{.*}} {
func.func @columns(%x: memref<512x96xf32>, %y: memref<96xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<96xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : memref<512x96xf32>) outs(%y : memref<96xf32>) {
  ^bb0(%a: f32, %s: f32):
    %0 = arith.addf %a, %s : f32
    linalg.yield %0 : f32
  }
  return
}

// Two loops have enough iterations together: a share may begin in a row of
// pixels.
// CHECK-LABEL: func.func @pixels(
// CHECK: affine.for %[[Y:.*]] = #{{.*}}()[%[[BEGIN:.*]]] to #{{.*}}()[%[[END:.*]]] {
// CHECK-NEXT: affine.for %{{.*}} = max #{{.*}}(%[[Y]])[%[[BEGIN]]] to min #{{.*}}(%[[Y]])[%[[END]]] {
// CHECK-NEXT: affine.for %{{.*}} = 0 to 240 {
func.func @pixels(%x: memref<1x14x14x240xf32>, %y: memref<1x14x14x240xf32>) {
  linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : memref<1x14x14x240xf32>) outs(%y : memref<1x14x14x240xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// What is summed over everything is summed by one thread.
// CHECK-LABEL: func.func @mean(
// CHECK: affine.for %{{.*}} = %{{.*}} to %{{.*}} {
// CHECK: call @pp_join_parts
// CHECK: scf.if
// CHECK-NEXT: linalg.generic
func.func @mean(%x: memref<65536xf32>, %y: memref<65536xf32>, %s: memref<f32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : memref<65536xf32>) outs(%y : memref<65536xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%y : memref<65536xf32>) outs(%s : memref<f32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// Rows of a softmax have nothing to do with each other.
// CHECK-LABEL: func.func @softmax(
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step
func.func @softmax(%x: memref<64x1024xf32>, %y: memref<64x1024xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %cell = memref.alloca() : memref<f32>
  scf.for %row = %c0 to %c64 step %c1 {
    %a = memref.subview %x[%row, 0] [1, 1024] [1, 1] : memref<64x1024xf32> to memref<1024xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
        ins(%a : memref<1024xf32, strided<[1], offset: ?>>) outs(%cell : memref<f32>) {
    ^bb0(%v: f32, %s: f32):
      %0 = arith.addf %v, %s : f32
      linalg.yield %0 : f32
    }
  } {pp.rows}
  return
}

// Updates at indices have an order, what is behind the indices has none: each
// thread takes some of the columns.
// CHECK-LABEL: func.func @scatter(
// CHECK: %[[C96:.*]] = arith.constant 96 : index
// CHECK: scf.for %{{.*}} = %c0{{.*}} to %c512{{.*}} step
// CHECK-NEXT: scf.for %{{.*}} = %[[BEGIN:.*]] to %[[END:.*]] step
func.func @scatter(%i: memref<512xindex>, %x: memref<512x96xf32>, %y: memref<40x96xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c96 = arith.constant 96 : index
  %c512 = arith.constant 512 : index
  scf.for %at = %c0 to %c512 step %c1 {
    scf.for %j = %c0 to %c96 step %c1 {
      %to = memref.load %i[%at] : memref<512xindex>
      %a = memref.load %x[%at, %j] : memref<512x96xf32>
      memref.store %a, %y[%to, %j] : memref<40x96xf32>
    } {pp.independent}
  }
  return
}

// Of short rows, parts fill no vector: one thread adds them up.
// CHECK-LABEL: func.func @short(
// CHECK: affine.for
// CHECK: call @pp_join_parts
// CHECK: scf.if
// CHECK-NEXT: linalg.generic
func.func @short(%x: memref<16384x3xf32>, %y: memref<16384x3xf32>, %s: memref<3xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<16384x3xf32>) outs(%y : memref<16384x3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%y : memref<16384x3xf32>) outs(%s : memref<3xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// Few points, each of which walks along a long axis.
// CHECK-LABEL: func.func @walk(
// CHECK-SAME: !llvm.ptr
// CHECK: affine.for %{{.*}} = %{{.*}} to %{{.*}} {
// CHECK: scf.for
func.func @walk(%x: memref<32x1024xf32>, %y: memref<32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c1024 = arith.constant 1024 : index
  %zero = arith.constant 0.0 : f32
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%y : memref<32xf32>) {
  ^bb0(%b: f32):
    %i = linalg.index 0 : index
    %sum = scf.for %j = %c0 to %c1024 step %c1 iter_args(%s = %zero) -> f32 {
      %a = memref.load %x[%i, %j] : memref<32x1024xf32>
      %next = arith.addf %s, %a : f32
      scf.yield %next : f32
    }
    linalg.yield %sum : f32
  }
  return
}

// A thread's stack is its own. Here each reads what it has written itself ...
// CHECK-LABEL: func.func @gradient(
// CHECK-SAME: !llvm.ptr
func.func @gradient(%x: memref<512x96xf32>, %g: memref<96xf32>) {
  %sum = memref.alloca() : memref<96xf32>
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%sum : memref<96xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : memref<512x96xf32>) outs(%sum : memref<96xf32>) {
  ^bb0(%a: f32, %s: f32):
    %0 = arith.addf %a, %s : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%sum : memref<96xf32>) outs(%g : memref<96xf32>) {
  ^bb0(%a: f32, %s: f32):
    %0 = arith.addf %a, %s : f32
    linalg.yield %0 : f32
  }
  return
}

// ... and here one would read what all have written.
// CHECK-LABEL: func.func @loss(
// CHECK-NOT: !llvm.ptr
// CHECK: return
func.func @loss(%x: memref<512x96xf32>, %s: memref<f32>) {
  %rows = memref.alloca() : memref<512xf32>
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<512x96xf32>) outs(%rows : memref<512xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
      ins(%rows : memref<512xf32>) outs(%s : memref<f32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  }
  return
}

// Too little to wait for each other.
// CHECK-LABEL: func.func @small(
// CHECK-NOT: !llvm.ptr
func.func @small(%x: memref<512xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%x : memref<512xf32>)
  return
}
