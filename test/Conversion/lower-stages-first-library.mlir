// RUN: pp-opt %s --pp-lower-stages | FileCheck %s
// RUN: sed -e "s/pp.first_library = 1 : i64, //" %s | not pp-opt --pp-lower-stages 2>&1 | FileCheck %s --check-prefix=MISSING

// In the first W of a step a library kernel writes what all others add; what
// adds to the gradient after it always adds.
// CHECK-LABEL: llvm.func @stage0_W(
// CHECK-SAME: %[[ARGUMENTS:.*]]: !llvm.ptr)
// CHECK: %[[FIELD:.*]] = llvm.getelementptr %[[ARGUMENTS]][11]
// CHECK: %[[LOADED:.*]] = llvm.load %[[FIELD]] : !llvm.ptr -> i64
// CHECK: %[[FIRST:.*]] = llvm.icmp "ne" %[[LOADED]]
// CHECK: %[[KERNELS:.*]] = llvm.getelementptr %[[ARGUMENTS]][9]
// CHECK: %[[TABLE:.*]] = llvm.load %[[KERNELS]]
// CHECK: %[[ENTRY:.*]] = llvm.getelementptr %[[TABLE]][0]
// CHECK: %[[ADDS:.*]] = llvm.load %[[ENTRY]]
// CHECK: %[[ENTRY1:.*]] = llvm.getelementptr %[[TABLE]][1]
// CHECK: %[[WRITES:.*]] = llvm.load %[[ENTRY1]]
// CHECK: %[[KERNEL:.*]] = llvm.select %[[FIRST]], %[[WRITES]], %[[ADDS]]
// CHECK: llvm.call @pp_execute_kernel(%[[KERNEL]],
// CHECK-NOT: llvm.select
// CHECK: llvm.call @pp_execute_kernel(
// CHECK: llvm.return

// MISSING: 'nn.kernel' op has no kernel for the first micro-batch; run pp-plan-memory first
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4x8xf32>) : tensor<4x8xf32>
  func.func @main(%x: tensor<2x4xf32> {step.feed = "x"}, %g: tensor<2x8xf32> {step.feed = "g"}) {
    pp.stage 0 backward_weight (%a = %x, %b = %g) sources([feed 0, feed 1]) targets([])
        attributes {argument_buffers = [#pp.buffer<input, 0>, #pp.buffer<input, 1>], copies = []} : (tensor<2x4xf32>, tensor<2x8xf32>) -> () {
      nn.kernel(%c = %a, %d = %b) attributes {pp.library = 0 : i64, pp.first_library = 1 : i64, pp.scratchpad = #pp.buffer<scratch, 0>, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : (tensor<2x4xf32>, tensor<2x8xf32>) -> () {
        %2 = nn.dot_general %c, %d batch [] x [] contract [0] x [0] : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
        nn.accumulate gradient @w, %2 : tensor<4x8xf32>
        nn.yield
      }
      nn.kernel(%c = %a, %d = %b) attributes {pp.library = 0 : i64, pp.scratchpad = #pp.buffer<scratch, 0>, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : (tensor<2x4xf32>, tensor<2x8xf32>) -> () {
        %2 = nn.dot_general %c, %d batch [] x [] contract [0] x [0] : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
        nn.accumulate gradient @w, %2 : tensor<4x8xf32>
        nn.yield
      }
      pp.return
    }
    return
  }
  pp.memory 0 total(320) areas([<parameters, 0, 128>, <gradients, 128, 128>, <scratch, 256, 64>]) slots(1, 0) parameters([<@w, 0>]) buffers([]) statistics([]) kernels([<"matmul a=4x2 b=2x8 c=4x8 as=1x4 accumulate=1", 64>, <"matmul a=4x2 b=2x8 c=4x8 as=1x4", 64>]) discards([], 0) writes_gradients
  module @code {
  }
}
