// A kernel keeps the names of its operations.
// RUN: pp-opt %s --nn-form-kernels --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.exp %x : tensor<4xf32> loc("first")
  %1 = nn.tanh %0 : tensor<4xf32> loc("second")
  return %1 : tensor<4xf32>
}
// CHECK: nn.yield
// CHECK-NEXT: } loc(fused["first", "second"])
