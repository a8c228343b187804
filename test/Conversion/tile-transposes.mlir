// RUN: pp-opt %s --pp-tile-transposes | FileCheck %s

// Matrices of a batch: 35 x 100 become 100 x 35. Of the 7 tiles of rows, 4 are
// of a turn, but of the last turn all that are left.
// CHECK-LABEL: func.func @matrices(
// CHECK-SAME: %[[X:.+]]: memref<3x35x100xf32>, %[[Y:.+]]: memref<3x100x35xf32>)
// CHECK-DAG: %[[FROM:.+]] = memref.reinterpret_cast %[[X]] {{.*}} to memref<10500xf32>
// CHECK-DAG: %[[TO:.+]] = memref.reinterpret_cast %[[Y]] {{.*}} to memref<10500xf32>
// CHECK-DAG: %[[TURNS:.+]] = arith.constant 3 : index
// CHECK: scf.for %{{.+}} = %{{.+}} to %[[TURNS]]
// CHECK: scf.for
// The last tile begins at 35 - 16.
// CHECK: %[[LAST:.+]] = arith.constant 19 : index
// CHECK: arith.minui %{{.+}}, %[[LAST]]
// CHECK: scf.for
// CHECK: %[[LAST_ROW:.+]] = arith.constant 84 : index
// CHECK: arith.minui %{{.+}}, %[[LAST_ROW]]
// CHECK-COUNT-8: vector.load %[[FROM]]{{.*}} : memref<10500xf32>, vector<8xf32>
// CHECK-COUNT-24: vector.shuffle
// CHECK-COUNT-8: vector.store %{{.+}}, %[[TO]]
// CHECK: } {pp.rows}
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @matrices(%x: memref<3x35x100xf32>, %y: memref<3x100x35xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k, j)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : memref<3x35x100xf32>) outs(%y : memref<3x100x35xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  return
}

// Height and width are one axis; 9 channels have a tile of 8.
// CHECK-LABEL: func.func @image(
// CHECK: %[[LAST:.+]] = arith.constant 1 : index
// CHECK: vector.load {{.*}} vector<8xbf16>
func.func @image(%x: memref<2x9x5x7xbf16>, %y: memref<2x5x7x9xbf16>) {
  linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, c, h, w)>, affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : memref<2x9x5x7xbf16>) outs(%y : memref<2x5x7x9xbf16>) {
  ^bb0(%a: bf16, %b: bf16):
    linalg.yield %a : bf16
  }
  return
}

// Rows that stay whole, few columns, booleans and what computes are left.
// CHECK-LABEL: func.func @others(
// CHECK-COUNT-4: linalg.generic
// CHECK-NOT: vector.load
func.func @others(%x: memref<9x16x32xf32>, %y: memref<16x9x32xf32>, %z: memref<32x16x9xf32>, %few: memref<64x3xf32>, %turned: memref<3x64xf32>, %p: memref<32x32xi1>, %q: memref<32x32xi1>) {
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (j, i, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : memref<9x16x32xf32>) outs(%y : memref<16x9x32xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%few : memref<64x3xf32>) outs(%turned : memref<3x64xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : memref<32x32xi1>) outs(%q : memref<32x32xi1>) {
  ^bb0(%a: i1, %b: i1):
    linalg.yield %a : i1
  }
  linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (k, j, i)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : memref<9x16x32xf32>) outs(%z : memref<32x16x9xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %a, %a : f32
    linalg.yield %0 : f32
  }
  return
}
