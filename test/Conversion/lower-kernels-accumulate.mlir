// RUN: pp-opt %s --nn-lower-kernels | FileCheck %s

// The states come first; the sum is complete before it is added. Which state it
// is does not matter for the code.
// CHECK: pp.callee = @kernel_0
// CHECK: pp.callee = @kernel_0
// CHECK: pp.callee = @kernel_1
// CHECK: module @code
// CHECK: func.func @kernel_0(%[[STATE:.+]]: memref<8xf32> {{.*}}, %[[X:.+]]: memref<4x8xf32> {{.*}})
// CHECK: %[[SUM:.+]] = memref.alloca() : memref<8xf32>
// CHECK: linalg.fill {{.*}} outs(%[[SUM]]
// CHECK: linalg.generic {{.*}} ins(%[[X]] : memref<4x8xf32>) outs(%[[SUM]] : memref<8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[SUM]] : memref<8xf32>) outs(%[[STATE]] : memref<8xf32>)
// CHECK: func.func @kernel_1
// CHECK-NOT: alloca
// CHECK-NOT: linalg.fill
// CHECK: linalg.generic {{.*}} ins(%{{.+}} : memref<{{.+}}>) outs(%{{.+}} : memref<{{.+}}>)
module {
  ml_program.global private mutable @a(dense<0.0> : tensor<8xf32>) : tensor<8xf32>
  ml_program.global private mutable @b(dense<0.0> : tensor<8xf32>) : tensor<8xf32>
  ml_program.global private mutable @t(dense<0.0> : tensor<4x8xf32>) : tensor<4x8xf32>
  func.func @main(%x: tensor<4x8xf32> {step.feed = "x"}) {
    nn.kernel(%k = %x) : (tensor<4x8xf32>) -> () {
      %0 = nn.reduce sum %k [0] : tensor<4x8xf32> -> tensor<8xf32>
      nn.accumulate gradient @a, %0 : tensor<8xf32>
      nn.yield
    }
    nn.kernel(%k = %x) : (tensor<4x8xf32>) -> () {
      %0 = nn.reduce sum %k [0] : tensor<4x8xf32> -> tensor<8xf32>
      nn.accumulate gradient @b, %0 : tensor<8xf32>
      nn.yield
    }
    nn.kernel(%k = %x) : (tensor<4x8xf32>) -> () {
      %0 = nn.exp %k : tensor<4x8xf32>
      nn.accumulate gradient @t, %0 : tensor<4x8xf32>
      nn.yield
    }
    return
  }
}
