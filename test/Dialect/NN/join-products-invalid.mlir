// RUN: not pp-opt %s --nn-join-products=terms=0 2>&1 | FileCheck %s
// RUN: not pp-opt %s --nn-join-products=products=-1 2>&1 | FileCheck %s
// CHECK: error: terms and products must be positive

func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}
