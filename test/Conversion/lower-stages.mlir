// RUN: pp-opt %s --pp-lower-stages | FileCheck %s

// A phase calls its kernels on constant offsets of what it is handed; what must
// be in two places is copied at the end.
// CHECK: module @code
// CHECK: llvm.func internal @kernel_0
// CHECK: llvm.func @stage0_F(%[[ARGUMENTS:.*]]: !llvm.ptr)
// CHECK: %[[OFFSET:.*]] = llvm.mlir.constant(64 : i64)
// CHECK: %[[Y:.*]] = llvm.getelementptr %[[RESIDUALS:.*]][%[[OFFSET]]]
// CHECK: llvm.call @kernel_0(%{{.*}}, %[[Y]])
// CHECK: %[[AGAIN:.*]] = llvm.getelementptr %[[RESIDUALS]][
// CHECK: %[[BYTES:.*]] = llvm.mlir.constant(16 : i64)
// CHECK: "llvm.intr.memcpy"(%{{.*}}, %[[AGAIN]], %[[BYTES]]) <{isVolatile = false}>
// CHECK: llvm.return
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]])
        attributes {argument_buffers = [#pp.buffer<input, 0>], copies = [#pp.copy<0, <output, 0>>]} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.kernel(%b = %a) attributes {pp.callee = @kernel_0, pp.buffers = [#pp.buffer<residuals, 64>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.memory 0 total(128) areas([<residuals, 0, 128>]) slots(1, 128) parameters([]) buffers([]) statistics([]) kernels([]) discards([0], 64)
  module @code {
    llvm.func @kernel_0(%x: !llvm.ptr, %y: !llvm.ptr) {
      llvm.return
    }
  }
}
