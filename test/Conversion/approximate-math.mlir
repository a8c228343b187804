// RUN: pp-opt %s --pp-approximate-math | FileCheck %s

// Two polynomials, and no quotient; numbers that are none pass the comparisons.
// CHECK-LABEL: func.func @erf(
// CHECK-SAME: %[[X:.+]]: f32)
// CHECK-NOT: divf
// CHECK-DAG: %[[ONE:.+]] = arith.constant 1.000000e+00 : f32
// CHECK-DAG: %[[SIZE:.+]] = math.absf %[[X]]
// CHECK: %[[SMALL:.+]] = math.fma %{{.+}}, %[[X]], %[[X]]
// CHECK: %[[LARGE:.+]] = math.copysign %{{.+}}, %[[X]]
// CHECK: %[[IS:.+]] = arith.cmpf olt, %[[SIZE]], %[[ONE]]
// CHECK: arith.select %[[IS]], %[[SMALL]], %[[LARGE]]
func.func @erf(%x: f32) -> f32 {
  %0 = math.erf %x : f32
  return %0 : f32
}

// CHECK-LABEL: func.func @exp(
// CHECK-NOT: math.floor
// CHECK-NOT: fptosi
// CHECK: %[[SUM:.+]] = math.fma %{{.+}}, %{{.+}}, %[[WHOLE:.+]] : vector<4xf32>
// CHECK: arith.subf %[[SUM]], %[[WHOLE]]
// CHECK: arith.bitcast %[[SUM]] : vector<4xf32> to vector<4xi32>
// CHECK: arith.shli
func.func @exp(%x: vector<4xf32>) -> vector<4xf32> {
  %0 = math.exp %x : vector<4xf32>
  return %0 : vector<4xf32>
}

// 1.99999988 is too near to where the quotient's rounding changes; of a power of
// two the reciprocal is exact, which LLVM knows.
// CHECK-LABEL: func.func @quotients(
// CHECK-SAME: %[[X:.+]]: f32)
// CHECK-DAG: %[[THREE:.+]] = arith.constant 3.000000e+00
// CHECK-DAG: %[[THIRD:.+]] = arith.constant 0.333333343
// CHECK: %[[Q:.+]] = arith.mulf %[[X]], %[[THIRD]]
// CHECK: %[[N:.+]] = arith.negf %[[Q]]
// CHECK: %[[R:.+]] = math.fma %[[N]], %[[THREE]], %[[X]]
// CHECK: %[[Y:.+]] = math.fma %[[R]], %[[THIRD]], %[[Q]]
// CHECK: %[[HAS:.+]] = arith.cmpf one, %[[R]], %{{.+}}
// CHECK: arith.select %[[HAS]], %[[Y]], %[[Q]]
// CHECK: arith.divf
// CHECK: arith.divf
// CHECK-NOT: arith.divf
func.func @quotients(%x: f32) -> (f32, f32, f32) {
  %c = arith.constant 3.0 : f32
  %0 = arith.divf %x, %c : f32
  %d = arith.constant 1.99999988 : f32
  %1 = arith.divf %x, %d : f32
  %e = arith.constant 4.0 : f32
  %2 = arith.divf %x, %e : f32
  return %0, %1, %2 : f32, f32, f32
}
