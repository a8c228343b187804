// RUN: pp-opt %s --pp-lower-stages | FileCheck %s

// The first W of a step writes gradients that nobody has cleared: @w gets the
// product in place of scratch memory, and nothing is added; @b is cleared, since
// its sum is read twice; the second sum of @w is always added.
// CHECK-LABEL: llvm.func @stage0_W(
// CHECK-SAME: %[[ARGUMENTS:.*]]: !llvm.ptr)
// CHECK: %[[FIELD:.*]] = llvm.getelementptr %[[ARGUMENTS]][11]
// CHECK: %[[LOADED:.*]] = llvm.load %[[FIELD]] : !llvm.ptr -> i64
// CHECK: %[[FIRST:.*]] = llvm.icmp "ne" %[[LOADED]]
// CHECK: %[[PLACE:.*]] = llvm.select %[[FIRST]], %{{.*}}, %{{.*}} : i1, !llvm.ptr
// CHECK: llvm.call @exp(%{{.*}}, %[[PLACE]])
// CHECK: %[[NOTHING:.*]] = llvm.mlir.addressof @nothing0
// CHECK: %[[ADD:.*]] = llvm.mlir.addressof @add
// CHECK: %[[CALLEE:.*]] = llvm.select %[[FIRST]], %[[NOTHING]], %[[ADD]]
// CHECK: llvm.call %[[CALLEE]](%{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> ()
// CHECK: %[[BYTES:.*]] = llvm.select %[[FIRST]], %{{.*}}, %{{.*}} : i1, i64
// CHECK: "llvm.intr.memset"(%{{.*}}, %{{.*}}, %[[BYTES]])
// CHECK: llvm.call @add(
// CHECK-NOT: memset
// CHECK: llvm.call @add(
// CHECK: llvm.return
// CHECK: llvm.func internal @nothing0(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
// CHECK-NEXT: llvm.return
//
// What I has added to is not written once more in W.
// CHECK-LABEL: llvm.func @stage1_I(
// CHECK: %[[FIRST_I:.*]] = llvm.icmp "ne"
// CHECK: %[[PLACE_I:.*]] = llvm.select %[[FIRST_I]]
// CHECK: llvm.call @exp(%{{.*}}, %[[PLACE_I]])
// CHECK: %[[CALLEE_I:.*]] = llvm.select %[[FIRST_I]]
// CHECK: llvm.call %[[CALLEE_I]](
// CHECK-LABEL: llvm.func @stage1_W(
// CHECK-NOT: llvm.select
// CHECK-NOT: memset
// CHECK: llvm.call @add(
// CHECK: llvm.return
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  ml_program.global private mutable @b(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  ml_program.global private mutable @v(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) {
    pp.stage 0 backward_weight (%a = %x) sources([feed 0]) targets([])
        attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> () {
      %1 = nn.kernel(%c = %a) attributes {pp.callee = @exp, pp.buffers = [#pp.buffer<scratch, 0>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %c : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      nn.accumulate gradient @w, %1 {pp.callee = @add, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : tensor<4xf32>
      %3 = nn.kernel(%c = %a) attributes {pp.callee = @exp, pp.buffers = [#pp.buffer<scratch, 64>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %c : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      nn.accumulate gradient @b, %3 {pp.callee = @add, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 64>]} : tensor<4xf32>
      nn.accumulate gradient @w, %3 {pp.callee = @add, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : tensor<4xf32>
      pp.return
    }
    pp.stage 1 backward_input (%a = %x) sources([feed 0]) targets([])
        attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> () {
      %1 = nn.kernel(%c = %a) attributes {pp.callee = @exp, pp.buffers = [#pp.buffer<scratch, 0>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %c : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      nn.accumulate gradient @v, %1 {pp.callee = @add, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : tensor<4xf32>
      pp.return
    }
    pp.stage 1 backward_weight (%a = %x) sources([feed 0]) targets([])
        attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> () {
      nn.accumulate gradient @v, %a {pp.callee = @add, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : tensor<4xf32>
      pp.return
    }
    return
  }
  pp.memory 1 total(192) areas([<parameters, 0, 64>, <gradients, 64, 64>, <scratch, 128, 64>]) slots(1, 0) parameters([<@v, 0>]) buffers([]) statistics([]) kernels([]) discards([], 0) writes_gradients
  pp.memory 0 total(384) areas([<parameters, 0, 128>, <gradients, 128, 128>, <scratch, 256, 128>]) slots(1, 0) parameters([<@w, 0>, <@b, 64>]) buffers([]) statistics([]) kernels([]) discards([], 0) writes_gradients
  module @code {
    llvm.func @exp(%x: !llvm.ptr, %y: !llvm.ptr) {
      llvm.return
    }
    llvm.func @add(%x: !llvm.ptr, %y: !llvm.ptr) {
      llvm.return
    }
  }
}
