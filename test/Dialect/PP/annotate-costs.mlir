// RUN: split-file %s %t
// RUN: pp-opt %t/dot.mlir --pp-annotate-costs="gflops=1 bandwidth=1 launch=0" | FileCheck %s
// RUN: pp-opt %t/dot.mlir --pp-annotate-costs="gflops=1000 bandwidth=1 launch=0" | FileCheck %s --check-prefix=MEMORY
// RUN: pp-opt %t/dot.mlir --pp-annotate-costs="cost-file=%t/costs.json" | FileCheck %s --check-prefix=MEASURED
// RUN: pp-opt %t/sum.mlir --pp-annotate-costs="cost-file=%t/costs.json" | FileCheck %s --check-prefix=SUM
// RUN: pp-opt %t/sum.mlir --pp-annotate-costs="cost-file=%t/costs.json microbatches=4" | FileCheck %s --check-prefix=FIRST

// The first of four micro-batches writes the gradient.
// SUM: nn.accumulate {{.*}}seconds = 1.000000e+00 : f64
// FIRST: nn.accumulate {{.*}}seconds = 7.500000e-01 : f64

// 2 * 8 * 16 * 32 operations; 4 * (8*32 + 16*32) bytes read, 4 * 8*16 written.
// CHECK: #pp.cost<flops = 8192, read = 3072, written = 512, seconds = 8.192000e-06 : f64>
// MEMORY: seconds = 3.584000e-06 : f64
// MEASURED: seconds = 5.000000e-01 : f64

//--- costs.json
{"version": 1, "kernels": {"matmul a=8x32 b=32x16 c=8x16 as=32x1 bs=1x32 cs=16x1": 0.5, "accumulate tensor<4xf32>": 1}}
//--- sum.mlir
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) {
    nn.accumulate gradient @w, %x : tensor<4xf32>
    return
  }
}
//--- dot.mlir
module {
  func.func @main(%x: tensor<8x32xf32> {step.feed = "x"}, %w: tensor<16x32xf32> {step.feed = "w"}) -> tensor<8x16xf32> {
    %0 = nn.kernel(%a = %x, %b = %w) : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32> {
      %1 = nn.dot_general %a, %b batch [] x [] contract [1] x [1] : (tensor<8x32xf32>, tensor<16x32xf32>) -> tensor<8x16xf32>
      nn.yield %1 : tensor<8x16xf32>
    }
    return %0 : tensor<8x16xf32>
  }
}
