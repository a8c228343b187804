// RUN: pp-opt %s --pp-lower-stages | FileCheck %s
// RUN: pp-opt %s --pp-lower-stages="mark-kernels" | FileCheck %s --check-prefix=MARKS
// RUN: sed -e 's/accumulate=1"/accumulate=1 parts=2"/' %s | pp-opt --pp-lower-stages | FileCheck %s --check-prefix=PARTS

// Where the first kernel has other parts than those after it, threads meet.
// PARTS-NOT: llvm.call @pp_execute_together
// PARTS: llvm.func @stage0_W(
// PARTS-COUNT-2: llvm.call @pp_run_together(
// PARTS-NOT: llvm.call @pp_execute_together

// What shares a value or a gradient is one section, which runs for one
// micro-batch after the other: @f makes what is added to @w, and @h adds to the
// same. The library kernel that adds to @v has all of them at once.
// CHECK: llvm.func @pp_run_together(!llvm.ptr, !llvm.ptr)
// CHECK: llvm.func @pp_execute_together(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr)

// CHECK-LABEL: llvm.func internal @stage0_W_0(
// CHECK-SAME: %{{.*}}: !llvm.ptr)
// CHECK: llvm.call
// CHECK-NOT: pp_execute
// CHECK: llvm.return

// The tensors of the kernel, for one micro-batch.
// CHECK-LABEL: llvm.func internal @stage0_W_1(
// CHECK-SAME: %{{.*}}: !llvm.ptr, %[[TENSORS:.*]]: !llvm.ptr)
// CHECK: %[[SECOND:.*]] = llvm.getelementptr %[[TENSORS]][1]
// CHECK: llvm.store %{{.*}}, %[[SECOND]]
// CHECK: %[[SUM:.*]] = llvm.getelementptr %[[TENSORS]][2]
// CHECK: llvm.store %{{.*}}, %[[SUM]]
// CHECK: llvm.return

// CHECK-LABEL: llvm.func @stage0_W(
// CHECK-SAME: %[[ARGUMENTS:.*]]: !llvm.ptr)
// CHECK: %[[SECTION:.*]] = llvm.mlir.addressof @stage0_W_0
// CHECK: llvm.call @pp_run_together(%[[ARGUMENTS]], %[[SECTION]])
// CHECK: %[[ADDS:.*]] = llvm.load
// CHECK: %[[WRITES:.*]] = llvm.load
// CHECK: %[[TENSORS:.*]] = llvm.mlir.addressof @stage0_W_1
// CHECK: %[[COUNT:.*]] = llvm.mlir.constant(3 : i64)
// CHECK: llvm.call @pp_execute_together(%[[ARGUMENTS]], %[[ADDS]], %[[WRITES]], %[[TENSORS]], %[[COUNT]],
// CHECK: llvm.return

// A stage whose W stand alone has them as they were.
// CHECK-LABEL: llvm.func @stage1_W(
// CHECK-NOT: together
// CHECK: llvm.call @f(
// CHECK: llvm.return

// Times end with a section, so that none has those of the next one.
// MARKS-LABEL: @stage0_W_0(
// MARKS: llvm.call @h(
// MARKS-NEXT: %[[NONE:.*]] = llvm.mlir.constant(-1 : i64)
// MARKS-NEXT: llvm.call @pp_mark_kernel(%[[NONE]])
// MARKS-NEXT: llvm.return
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  ml_program.global private mutable @v(dense<0.5> : tensor<4x8xf32>) : tensor<4x8xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}, %y: tensor<2x4xf32> {step.feed = "y"}, %g: tensor<2x8xf32> {step.feed = "g"}) {
    pp.stage 0 backward_weight (%a = %x, %c = %y, %d = %g) sources([feed 0, feed 1, feed 2]) targets([])
        attributes {argument_buffers = [#pp.buffer<input, 0>, #pp.buffer<input, 1>, #pp.buffer<input, 2>], copies = []} : (tensor<4xf32>, tensor<2x4xf32>, tensor<2x8xf32>) -> () {
      %0 = nn.kernel(%e = %a) attributes {pp.callee = @f, pp.buffers = [#pp.buffer<scratch, 0>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %1 = nn.exp %e : tensor<4xf32>
        nn.yield %1 : tensor<4xf32>
      }
      nn.kernel(%e = %c, %h = %d) attributes {pp.library = 0 : i64, pp.first_library = 1 : i64, pp.scratchpad = #pp.buffer<scratch, 64>, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 64>]} : (tensor<2x4xf32>, tensor<2x8xf32>) -> () {
        %2 = nn.dot_general %e, %h batch [] x [] contract [0] x [0] : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
        nn.accumulate gradient @v, %2 : tensor<4x8xf32>
        nn.yield
      }
      nn.accumulate gradient @w, %0 {pp.callee = @h, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : tensor<4xf32>
      nn.accumulate gradient @w, %a {pp.callee = @h, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : tensor<4xf32>
      pp.return
    }
    pp.stage 1 backward_weight (%a = %x) sources([feed 0]) targets([])
        attributes {argument_buffers = [#pp.buffer<input, 0>], copies = []} : (tensor<4xf32>) -> () {
      %0 = nn.kernel(%e = %a) attributes {pp.callee = @f, pp.buffers = [#pp.buffer<scratch, 0>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %1 = nn.exp %e : tensor<4xf32>
        nn.yield %1 : tensor<4xf32>
      }
      nn.accumulate gradient @w, %0 {pp.callee = @h, pp.buffers = [], pp.state_buffers = [#pp.buffer<gradients, 0>]} : tensor<4xf32>
      pp.return
    }
    return
  }
  pp.memory 0 total(512) areas([<parameters, 0, 192>, <gradients, 192, 192>, <scratch, 384, 128>]) slots(1, 0) parameters([<@w, 0>, <@v, 64>]) buffers([]) statistics([]) kernels([<"matmul a=4x2 b=2x8 c=4x8 as=1x4 accumulate=1", 64>, <"matmul a=4x2 b=2x8 c=4x8 as=1x4", 64>]) discards([], 0) writes_gradients weights_together(4)
  pp.memory 1 total(192) areas([<parameters, 0, 64>, <gradients, 64, 64>, <scratch, 128, 64>]) slots(1, 0) parameters([<@w, 0>]) buffers([]) statistics([]) kernels([]) discards([], 0) writes_gradients
  module @code {
    llvm.func @f(%a: !llvm.ptr, %b: !llvm.ptr) {
      llvm.return
    }
    llvm.func @h(%a: !llvm.ptr, %b: !llvm.ptr) {
      llvm.return
    }
  }
}
