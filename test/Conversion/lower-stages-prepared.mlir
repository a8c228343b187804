// RUN: pp-opt %s --pp-lower-stages | FileCheck %s

// The update rounds @w with the parameter, so P does so only where it is told
// that no update has; what P alone reads is always made.
// CHECK-LABEL: llvm.func @stage0_P(
// CHECK: %[[FIRST:.*]] = llvm.icmp "ne"
// CHECK: %[[ROUND:.*]] = llvm.mlir.addressof @cast
// CHECK: %[[NOTHING:.*]] = llvm.mlir.addressof @nothing0
// CHECK: %[[CALLEE:.*]] = llvm.select %[[FIRST]], %[[ROUND]], %[[NOTHING]]
// CHECK: llvm.call %[[CALLEE]](%{{.*}}, %{{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> ()
// CHECK: llvm.call @cast(
// CHECK: llvm.return
//
// Sixteen numbers at a time.
// CHECK-LABEL: llvm.func @round(
// CHECK-SAME: %{{.*}}: i64, %[[FROM:.*]]: !llvm.ptr, %[[TO:.*]]: !llvm.ptr)
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[FROM]][%[[I:.*]]] : {{.*}} -> !llvm.ptr, f32
// CHECK: %[[X:.*]] = llvm.load %[[AT]] {alignment = 64 : i64} : !llvm.ptr -> vector<16xf32>
// CHECK: %[[Y:.*]] = llvm.fptrunc %[[X]] : vector<16xf32> to vector<16xbf16>
// CHECK: %[[INTO:.*]] = llvm.getelementptr %[[TO]][%[[I]]] : {{.*}} -> !llvm.ptr, bf16
// CHECK: llvm.store %[[Y]], %[[INTO]] {alignment = 32 : i64}
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32> {nn.trained}
  ml_program.global private mutable @v(dense<0.5> : tensor<4xf32>) : tensor<4xf32> {nn.trained}
  func.func @main() {
    %0 = pp.stage 0 prepare () sources([]) targets([[]])
        attributes {argument_buffers = [], copies = []} : () -> (tensor<4xbf16>) {
      %w = nn.parameter @w {pp.buffers = [#pp.buffer<parameters, 0>]} : tensor<4xf32>
      %v = nn.parameter @v {pp.buffers = [#pp.buffer<parameters, 64>]} : tensor<4xf32>
      %1 = nn.kernel(%c = %w) attributes {pp.callee = @cast, pp.buffers = [#pp.buffer<prepared, 0>], step.prepared_by_update} : (tensor<4xf32>) -> tensor<4xbf16> {
        %2 = nn.cast %c : tensor<4xf32> -> tensor<4xbf16>
        nn.yield %2 : tensor<4xbf16>
      }
      %3 = nn.kernel(%c = %v) attributes {pp.callee = @cast, pp.buffers = [#pp.buffer<scratch, 0>], step.prepared_by_update} : (tensor<4xf32>) -> tensor<4xbf16> {
        %2 = nn.cast %c : tensor<4xf32> -> tensor<4xbf16>
        nn.yield %2 : tensor<4xbf16>
      }
      pp.return %1 : tensor<4xbf16>
    }
    return
  }
  pp.memory 0 total(384) areas([<parameters, 0, 128>, <gradients, 128, 128>, <prepared, 256, 64>, <scratch, 320, 64>]) slots(1, 0) parameters([<@w, 0>, <@v, 64>]) buffers([]) statistics([]) kernels([]) discards([], 0)
  module @code {
    llvm.func @cast(%x: !llvm.ptr, %y: !llvm.ptr) {
      llvm.return
    }
  }
}
