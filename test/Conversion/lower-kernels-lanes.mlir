// RUN: pp-opt %s --nn-lower-kernels="lanes=16" | FileCheck %s

// Rows of 21 numbers become two vectors, with the least number behind them;
// 16 rows wait for one vector of logarithms.
// CHECK-LABEL: func.func @kernel_0(
// CHECK-SAME: %[[X:.+]]: memref<32x21xbf16>
// CHECK-DAG: %[[COPY:.+]] = memref.alloca() : memref<32xf32>
// CHECK-DAG: %[[TOPS:.+]] = memref.alloca() : memref<16xf32>
// CHECK: %[[BLOCKS:.+]] = arith.constant 2 : index
// CHECK: scf.for %{{.+}} = %{{.+}} to %[[BLOCKS]]
// CHECK: scf.for
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK: %[[LEAST:.+]] = arith.constant dense<0xFF80> : vector<16xbf16>
// CHECK: arith.constant dense<[true, true, true, true, true, false
// CHECK: %[[REST:.+]] = vector.maskedload {{.*}}, %[[LEAST]]
// CHECK: %[[WIDE:.+]] = arith.extf %[[REST]]
// CHECK: vector.store %[[WIDE]], %[[COPY]]
// CHECK: linalg.generic {{.*}} ins(%[[COPY]] : memref<32xf32>)
// CHECK: math.log %{{.+}} : vector<16xf32>
// CHECK: {pp.rows}
module {
func.func @main(%x: tensor<32x21xbf16>) -> tensor<32x21xf32> {
  %0 = nn.kernel(%a = %x) : (tensor<32x21xbf16>) -> tensor<32x21xf32> {
    %1 = nn.cast %a : tensor<32x21xbf16> -> tensor<32x21xf32>
    %2 = nn.log_softmax %1 : tensor<32x21xf32>
    nn.yield %2 : tensor<32x21xf32>
  }
  return %0 : tensor<32x21xf32>
}
}
