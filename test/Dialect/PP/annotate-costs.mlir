// RUN: split-file %s %t
// RUN: pp-opt %t/dot.mlir --pp-annotate-costs="gflops=1 bandwidth=1 launch=0" | FileCheck %s
// RUN: pp-opt %t/dot.mlir --pp-annotate-costs="gflops=1000 bandwidth=1 launch=0 cache-mbytes=0" | FileCheck %s --check-prefix=MEMORY
// RUN: pp-opt %t/dot.mlir --pp-annotate-costs="gflops=1000 bandwidth=1 launch=0 cache-bandwidth=2" | FileCheck %s --check-prefix=CACHE
// RUN: pp-opt %t/dot.mlir --pp-annotate-costs="cost-file=%t/costs.json" | FileCheck %s --check-prefix=MEASURED
// RUN: pp-opt %t/sum.mlir --pp-annotate-costs="cost-file=%t/costs.json" | FileCheck %s --check-prefix=SUM
// RUN: pp-opt %t/sum.mlir --pp-annotate-costs="cost-file=%t/costs.json microbatches=4" | FileCheck %s --check-prefix=FIRST

// RUN: pp-opt %t/conv.mlir --pp-annotate-costs="gflops=1 bandwidth=1000 launch=0" | FileCheck %s --check-prefix=ALGORITHM

// By Winograd's algorithm, as many operations take less time:
// 16 * 64 * (1.3 * 2 * 36 * 16 + 2500), 16 * 64 * (1.2 * 2 * 16 * 64 + 250).
// ALGORITHM: #pp.cost<flops = 4718592, {{.*}}, seconds = 0.004718{{[0-9]+}} : f64>
// ALGORITHM: #pp.cost<flops = 4718592, {{.*}}, seconds = 0.004093{{[0-9]+}} : f64>
// ALGORITHM: #pp.cost<flops = 4718592, {{.*}}, seconds = 0.002772{{[0-9]+}} : f64>

// RUN: pp-opt %t/short.mlir --pp-annotate-costs="gflops=1 bandwidth=1000 launch=0" | FileCheck %s --check-prefix=SHORT

// Factors of sixteen bits take half the time; a gradient of weights from 49
// pixels, (1 + 75 / 49) times that.
// SHORT: #pp.cost<flops = 8192, {{.*}}, seconds = 4.096000e-06 : f64>
// SHORT: #pp.cost<flops = 225792, {{.*}}, seconds = 2.856960e-04 : f64>

// The first of four micro-batches writes the gradient.
// SUM: nn.accumulate {{.*}}seconds = 1.000000e+00 : f64
// FIRST: nn.accumulate {{.*}}seconds = 7.500000e-01 : f64
// A library kernel that adds runs in the first micro-batch too, and writes.
// FIRST: nn.kernel{{.*}}seconds = 2.000000e+00 : f64

// 2 * 8 * 16 * 32 operations; 4 * (8*32 + 16*32) bytes read, 4 * 8*16 written.
// CHECK: #pp.cost<flops = 8192, read = 3072, written = 512, seconds = 8.192000e-06 : f64>
// MEMORY: seconds = 3.584000e-06 : f64
// CACHE: seconds = 1.792000e-06 : f64
// MEASURED: seconds = 5.000000e-01 : f64

//--- costs.json
{"version": 1, "kernels": {"matmul a=8x32 b=32x16 c=8x16 as=32x1 bs=1x32 cs=16x1": 0.5, "accumulate tensor<4xf32>": 1, "matmul a=4x2 b=2x8 c=4x8 as=1x4 bs=8x1 cs=8x1 accumulate=1": 2}}
//--- sum.mlir
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  ml_program.global private mutable @v(dense<0.5> : tensor<4x8xf32>) : tensor<4x8xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}, %y: tensor<2x4xf32> {step.feed = "y"}, %z: tensor<2x8xf32> {step.feed = "z"}) {
    nn.accumulate gradient @w, %x : tensor<4xf32>
    nn.kernel(%a = %y, %b = %z) : (tensor<2x4xf32>, tensor<2x8xf32>) -> () {
      %0 = nn.dot_general %a, %b batch [] x [] contract [0] x [0] : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
      nn.accumulate gradient @v, %0 : tensor<4x8xf32>
      nn.yield
    }
    return
  }
}
//--- conv.mlir
module {
  func.func @main(%x: tensor<1x16x16x16xf32> {step.feed = "x"}, %w: tensor<64x16x3x3xf32> {step.feed = "w"}) -> (tensor<1x64x16x16xf32>, tensor<1x64x16x16xf32>, tensor<1x64x16x16xf32>) {
    %0 = nn.kernel(%a = %x, %b = %w) : (tensor<1x16x16x16xf32>, tensor<64x16x3x3xf32>) -> tensor<1x64x16x16xf32> {
      %2 = nn.conv %a, %b strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x16x16xf32>, tensor<64x16x3x3xf32>) -> tensor<1x64x16x16xf32>
      nn.yield %2 : tensor<1x64x16x16xf32>
    }
    %1 = nn.kernel(%a = %x, %b = %w) : (tensor<1x16x16x16xf32>, tensor<64x16x3x3xf32>) -> tensor<1x64x16x16xf32> {
      %2 = nn.conv %a, %b strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 algorithm winograd : (tensor<1x16x16x16xf32>, tensor<64x16x3x3xf32>) -> tensor<1x64x16x16xf32>
      nn.yield %2 : tensor<1x64x16x16xf32>
    }
    %3 = nn.kernel(%a = %x, %b = %w) : (tensor<1x16x16x16xf32>, tensor<64x16x3x3xf32>) -> tensor<1x64x16x16xf32> {
      %2 = nn.conv %a, %b strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 algorithm winograd2 : (tensor<1x16x16x16xf32>, tensor<64x16x3x3xf32>) -> tensor<1x64x16x16xf32>
      nn.yield %2 : tensor<1x64x16x16xf32>
    }
    return %0, %1, %3 : tensor<1x64x16x16xf32>, tensor<1x64x16x16xf32>, tensor<1x64x16x16xf32>
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
//--- short.mlir
module {
  func.func @main(%x: tensor<8x32xbf16> {step.feed = "x"}, %w: tensor<16x32xbf16> {step.feed = "w"}, %y: tensor<1x16x7x7xbf16> {step.feed = "y"}) -> (tensor<8x16xbf16>, tensor<16x16x3x3xf32>) {
    %0 = nn.kernel(%a = %x, %b = %w) : (tensor<8x32xbf16>, tensor<16x32xbf16>) -> tensor<8x16xbf16> {
      %1 = nn.dot_general %a, %b batch [] x [] contract [1] x [1] : (tensor<8x32xbf16>, tensor<16x32xbf16>) -> tensor<8x16xbf16>
      nn.yield %1 : tensor<8x16xbf16>
    }
    %2 = nn.kernel(%a = %y) : (tensor<1x16x7x7xbf16>) -> tensor<16x16x3x3xf32> {
      %3 = nn.conv_backward_weight %a, %a strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x16x7x7xbf16>, tensor<1x16x7x7xbf16>) -> tensor<16x16x3x3xf32>
      nn.yield %3 : tensor<16x16x3x3xf32>
    }
    return %0, %2 : tensor<8x16xbf16>, tensor<16x16x3x3xf32>
  }
}
