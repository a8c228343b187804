// Every operation and attribute prints what it parses, in the custom and the
// generic form.
// RUN: pp-opt %s | pp-opt | FileCheck %s
// RUN: pp-opt %s --mlir-print-op-generic | pp-opt | FileCheck %s
// RUN: pp-opt %s --canonicalize --cse | FileCheck %s --check-prefix=KEPT

// What is popped is gone, so a pop is neither removed nor merged; a schedule
// runs every phase, so an empty one stays.
// KEPT: pp.stage 2 backward_input
// KEPT: pp.pop @skip
// KEPT: pp.stage 0 backward_weight
// KEPT: pp.pop @back
// KEPT: pp.stage 0 update

// CHECK: pp.portal @skip from(0) to(2) forward : tensor<4xf32>
pp.portal @skip from(0) to(2) forward : tensor<4xf32>
// CHECK: pp.portal @back from(2) to(0) backward_input : tensor<4xf32>
pp.portal @back from(2) to(0) backward_input : tensor<4xf32>

// CHECK: pp.channel @c0 next from(0) forward to(1) forward until backward_weight value("F:x:0") : tensor<4xf32>
pp.channel @c0 next from(0) forward to(1) forward until backward_weight value("F:x:0") : tensor<4xf32>
// CHECK: pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("I:x:0") release(B) send(64, [0, 0]) receive(0, [0, 1]) : tensor<8x64xf32>
pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("I:x:0")
    release(B) send(64, [0, 0]) receive(0, [0, 1]) : tensor<8x64xf32>
// Both stages on one rank.
// CHECK: pp.channel @c2 portal from(0) forward to(2) forward until forward value("F:y:0") release(R) receive(0, [0]) : tensor<4xf32>
pp.channel @c2 portal from(0) forward to(2) forward until forward value("F:y:0") release(R) receive(0, [0]) : tensor<4xf32>

// CHECK: pp.schedule "1f1b" microbatches(2) replicas(2) checkpoint(never) ranks([
// CHECK-NEXT: [0F0, 0SEND_F0 @c0, 0F1, 0SEND_F1 @c0, 0B0, 0B1, 0REDUCE_GRAD, 0U],
// CHECK-NEXT: [1RECV_F0 @c0, 1F0]])
pp.schedule "1f1b" microbatches(2) replicas(2) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0F1, 0SEND_F1 @c0, 0B0, 0B1, 0REDUCE_GRAD, 0U],
    [1RECV_F0 @c0, 1F0]])
// CHECK: pp.schedule "gpipe" microbatches(1) checkpoint(always) ranks([
// CHECK-NEXT: [0F0[0], 0R0[0], 0I0[0], 0W0[1]],
// CHECK-NEXT: []])
pp.schedule "gpipe" microbatches(1) checkpoint(always) ranks([[0F0[0], 0R0[0], 0I0[0], 0W0[1]], []])

ml_program.global private mutable @weight(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
// CHECK: pp.memory 1 total(4096) areas([<parameters, 0, 1024>, <residuals, 1024, 128>]) slots(2, 64)
// CHECK-SAME: parameters([<@weight, 0>]) buffers([]) statistics([]) kernels([<"add n=4", 8>]) discards([0, 64], 128) optimizer_kernel(0)
pp.memory 1 total(4096) areas([<parameters, 0, 1024>, <residuals, 1024, 128>]) slots(2, 64)
    parameters([<@weight, 0>]) buffers([]) statistics([]) kernels([<"add n=4", 8>]) discards([0, 64], 128) optimizer_kernel(0)

// CHECK-LABEL: func.func @stages(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
func.func @stages(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[F:.+]]:2 = pp.stage 0 forward (%[[A:.+]] = %[[X]]) sources([feed 0]) targets({{\[\[}}channel @c0, fetch 0], []]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = [#pp.copy<0, <output, 1>, kernel 3>, #pp.copy<1, <residuals, 64>>], note = "first"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0, fetch 0], []]) attributes {argument_buffers = [#pp.buffer<input, 0>], copies = [#pp.copy<0, <output, 1>, kernel 3>, #pp.copy<1, <residuals, 64>>], note = "first"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
  return %0#0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @attributes(
func.func @attributes(%x: tensor<4xf32>) attributes {
    // CHECK: step.optimizer = #step.optimizer<"sgd", states = ["momentum"], scalars = [#step.scalar<"lr", value = 1.000000e-02 : f64>, #step.scalar<"skipped", is_skipped>]>
    step.optimizer = #step.optimizer<"sgd", states = ["momentum"], scalars = [#step.scalar<"lr", value = 1.0e-2 : f64>, #step.scalar<"skipped", is_skipped>]>} {
  // CHECK: pp.buffers = [#pp.buffer<residuals, 64>, #pp.buffer<input, 1>]
  // CHECK-SAME: pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 2.500000e-07 : f64>
  // CHECK-SAME: pp.stage = 1 : i64
  // CHECK-SAME: step.origin = 3 : i64
  // CHECK-SAME: step.phase = #step.phase<backward_weight>
  %0 = nn.relu %x {
    pp.buffers = [#pp.buffer<residuals, 64>, #pp.buffer<input, 1>],
    pp.cost = #pp.cost<flops = 4, read = 16, written = 16, seconds = 2.5e-7 : f64>,
    step.origin = 3, step.phase = #step.phase<backward_weight>, pp.stage = 1} : tensor<4xf32>
  return
}
