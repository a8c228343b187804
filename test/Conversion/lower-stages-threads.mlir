// RUN: pp-opt %s --pp-lower-stages | FileCheck %s

// All threads of a rank run the function: a kernel that is split each its part,
// another one the first alone. They wait for each other where one may read what
// another wrote, not between two things that the first does.
// CHECK: llvm.func @pp_join_parts(!llvm.ptr)
// CHECK: llvm.func @stage0_F(%[[ARGUMENTS:.*]]: !llvm.ptr)
// CHECK-DAG: %[[PART_PLACE:.*]] = llvm.getelementptr %[[ARGUMENTS]][12]
// CHECK-DAG: %[[PART:.*]] = llvm.load %[[PART_PLACE]] : !llvm.ptr -> i64
// CHECK-DAG: %[[IS_OTHER:.*]] = llvm.icmp "ne" %[[PART]]
// CHECK-DAG: %[[PARTS_PLACE:.*]] = llvm.getelementptr %[[ARGUMENTS]][13]
// CHECK-DAG: %[[PARTS:.*]] = llvm.load %[[PARTS_PLACE]] : !llvm.ptr -> i64
// CHECK-NOT: llvm.call @pp_join_parts
// CHECK: llvm.call @split(%{{.*}}, %{{.*}}, %[[ARGUMENTS]], %[[PART]], %[[PARTS]])
// CHECK-NEXT: llvm.call @pp_join_parts(%[[ARGUMENTS]])
// CHECK: %[[WHOLE:.*]] = llvm.mlir.addressof @whole
// CHECK: %[[NOTHING:.*]] = llvm.mlir.addressof @nothing0
// CHECK: %[[CALLEE:.*]] = llvm.select %[[IS_OTHER]], %[[NOTHING]], %[[WHOLE]]
// CHECK: llvm.call %[[CALLEE]](%{{.*}}, %{{.*}})
// CHECK-NOT: llvm.call @pp_join_parts
// CHECK: %[[BYTES:.*]] = llvm.select %[[IS_OTHER]], %{{.*}}, %{{.*}} : i1, i64
// CHECK: "llvm.intr.memcpy"(%{{.*}}, %{{.*}}, %[[BYTES]])
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 0]])
        attributes {argument_buffers = [#pp.buffer<input, 0>], copies = [#pp.copy<0, <output, 0>>]} : (tensor<4xf32>) -> tensor<4xf32> {
      %1 = nn.kernel(%b = %a) attributes {pp.callee = @split, pp.buffers = [#pp.buffer<residuals, 64>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      %3 = nn.kernel(%b = %1) attributes {pp.callee = @whole, pp.buffers = [#pp.buffer<residuals, 128>]} : (tensor<4xf32>) -> tensor<4xf32> {
        %2 = nn.exp %b : tensor<4xf32>
        nn.yield %2 : tensor<4xf32>
      }
      pp.return %3 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.schedule "inference" microbatches(1) threads(2) checkpoint(never) ranks([[0F0]])
  pp.memory 0 total(192) areas([<residuals, 0, 192>]) slots(1, 192) parameters([]) buffers([]) statistics([]) kernels([]) discards([0], 64)
  module @code {
    llvm.func @split(%x: !llvm.ptr, %y: !llvm.ptr, %team: !llvm.ptr, %part: i64, %parts: i64) {
      llvm.return
    }
    llvm.func @whole(%x: !llvm.ptr, %y: !llvm.ptr) {
      llvm.return
    }
  }
}
