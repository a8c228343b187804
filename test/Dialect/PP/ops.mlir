// Every operation and attribute prints what it parses, in the custom and the
// generic form.
// RUN: pp-opt %s | pp-opt | FileCheck %s
// RUN: pp-opt %s --mlir-print-op-generic | pp-opt | FileCheck %s

// CHECK: pp.portal @skip from(0) to(2) forward : tensor<4xf32>
pp.portal @skip from(0) to(2) forward : tensor<4xf32>
// CHECK: pp.portal @back from(2) to(0) backward_input : tensor<4xf32>
pp.portal @back from(2) to(0) backward_input : tensor<4xf32>

// CHECK: pp.channel @c0 next from(0) forward result(1) to(1) forward release("B") send_slots([0, 0]) receive_slots([0, 1]) : tensor<8x64xf32>
pp.channel @c0 next from(0) forward result(1) to(1) forward release("B")
    send_slots([0, 0]) receive_slots([0, 1]) : tensor<8x64xf32>

// CHECK: pp.schedule "1f1b" microbatches(2) checkpoint("never")
// CHECK-SAME: ranks({{\[\[}}"0F0", "0F1", "0B0", "0B1", "0U"]])
// CHECK-NOT: slots
pp.schedule "1f1b" microbatches(2) checkpoint("never")
    ranks([["0F0", "0F1", "0B0", "0B1", "0U"]])
// CHECK: pp.schedule "gpipe" microbatches(1) checkpoint("always")
// CHECK-SAME: ranks({{\[\[}}"0F0", "0B0"], []]) slots({{\[\[}}0, -1], []])
pp.schedule "gpipe" microbatches(1) checkpoint("always")
    ranks([["0F0", "0B0"], []]) slots([[0, -1], []])

// CHECK: pp.memory 1 total(4096) areas {parameters = {bytes = 1024 : i64, offset = 0 : i64}} symbols {buffers = {}, parameters = {weight = 0 : i64}, statistics = {}}
pp.memory 1 total(4096) areas {parameters = {offset = 0, bytes = 1024}} symbols {parameters = {weight = 0}, buffers = {}, statistics = {}}

// CHECK-LABEL: func.func @stages(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
func.func @stages(%x: tensor<4xf32>) {
  // CHECK: %[[F:.+]]:2 = pp.stage 0 forward (%[[A:.+]] = %[[X]]) attributes {note = "first"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = pp.stage 0 forward (%a = %x) attributes {note = "first"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    // CHECK-NEXT: %[[Y:.+]] = nn.relu %[[A]]
    %1 = nn.relu %a : tensor<4xf32>
    // CHECK-NEXT: pp.stash @skip, %[[Y]] : tensor<4xf32>
    pp.stash @skip, %1 : tensor<4xf32>
    // CHECK-NEXT: pp.return %[[Y]], %[[A]] : tensor<4xf32>, tensor<4xf32>
    pp.return %1, %a : tensor<4xf32>, tensor<4xf32>
  }
  // CHECK: pp.stage 2 backward_input () : () -> tensor<4xf32> {
  %2 = pp.stage 2 backward_input () : () -> tensor<4xf32> {
    // CHECK-NEXT: %[[P:.+]] = pp.pop @skip : tensor<4xf32>
    %3 = pp.pop @skip : tensor<4xf32>
    pp.stash @back, %3 : tensor<4xf32>
    pp.return %3 : tensor<4xf32>
  }
  // CHECK: pp.stage 0 backward_weight () : () -> () {
  pp.stage 0 backward_weight () : () -> () {
    %4 = pp.pop @back : tensor<4xf32>
    // CHECK: pp.return
    // CHECK-NEXT: }
    pp.return
  }
  // CHECK: pp.stage 0 update () : () -> () {
  pp.stage 0 update () : () -> () {
    pp.return
  }
  return
}

// CHECK-LABEL: func.func @attributes(
func.func @attributes(%x: tensor<4xf32>) {
  // CHECK: pp.buffers = [#pp.buffer<residuals, 64>, #pp.buffer<input, 1>]
  // CHECK-SAME: pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 2.500000e-07 : f64>
  // CHECK-SAME: pp.origin = 3 : i64
  // CHECK-SAME: pp.phase = #pp.phase<backward_weight>
  // CHECK-SAME: pp.stage = 1 : i64
  %0 = nn.relu %x {
    pp.buffers = [#pp.buffer<residuals, 64>, #pp.buffer<input, 1>],
    pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 2.5e-7 : f64>,
    pp.origin = 3, pp.phase = #pp.phase<backward_weight>, pp.stage = 1} : tensor<4xf32>
  return
}
