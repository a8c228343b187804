// RUN: pp-opt %s --pp-schedule="schedule=gpipe microbatches=3" --pp-insert-transfers --pp-plan-memory | FileCheck %s
// RUN: pp-opt %s --pp-schedule="schedule=1f1b microbatches=3" --pp-insert-transfers --pp-plan-memory | FileCheck %s --check-prefix=F1B1
// RUN: pp-opt %s --pp-schedule="schedule=1f1b microbatches=6 replicas=2" --pp-insert-transfers --pp-plan-memory | FileCheck %s --check-prefix=REPLICAS

// The temporary %t and the result that leaves share no bytes with what lives;
// the residual is in the slot; the sent value is written to the channel at once.
// CHECK: pp.stage 0 forward
// CHECK-SAME: pp.outputs = [{channel = 0 : i64}]
// CHECK: nn.kernel{{.*}}pp.buffers = [#pp.buffer<residuals, 0>]
// CHECK: nn.kernel{{.*}}pp.buffers = [#pp.buffer<scratch, 0>]
// CHECK: nn.kernel{{.*}}pp.buffers = [#pp.buffer<output, 0>]
// CHECK: pp.stage 1 forward
// CHECK-SAME: pp.inputs = [{channel = 0 : i64}]

// GPipe keeps all three micro-batches of stage 0, 1F1B two.
// CHECK: pp.memory 0
// CHECK-SAME: residuals = {bytes = 192 : i64, offset = {{[0-9]+}} : i64, slot_bytes = 64 : i64, slots = 3 : i64}
// F1B1: pp.memory 0
// F1B1-SAME: residuals = {bytes = 128 : i64, offset = {{[0-9]+}} : i64, slot_bytes = 64 : i64, slots = 2 : i64}
// The memory of one of the replicas, which have half of the micro-batches each,
// with a place for half of its parameters' gradients from the other.
// REPLICAS: pp.memory 0
// REPLICAS-SAME: exchange = {bytes = 0 : i64
// REPLICAS-SAME: residuals = {bytes = 128 : i64
// CHECK: pp.schedule "gpipe"
// CHECK-SAME{LITERAL}: slots([[0, -1, 1, -1, 2, -1, -1, 0, -1, 1, -1, 2, -1]
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "y"}) {
    %0:2 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %r = nn.kernel(%b = %a) : (tensor<4xf32>) -> tensor<4xf32> {
        %c = nn.exp %b : tensor<4xf32>
        nn.yield %c : tensor<4xf32>
      }
      %t = nn.kernel(%b = %r) : (tensor<4xf32>) -> tensor<4xf32> {
        %c = nn.exp %b : tensor<4xf32>
        nn.yield %c : tensor<4xf32>
      }
      %s = nn.kernel(%b = %t) : (tensor<4xf32>) -> tensor<4xf32> {
        %c = nn.exp %b : tensor<4xf32>
        nn.yield %c : tensor<4xf32>
      }
      pp.return %r, %s : tensor<4xf32>, tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0#1) : (tensor<4xf32>) -> tensor<4xf32> {
      %s = nn.kernel(%b = %a) : (tensor<4xf32>) -> tensor<4xf32> {
        %c = nn.exp %b : tensor<4xf32>
        nn.yield %c : tensor<4xf32>
      }
      pp.return %s : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %0#1) : (tensor<4xf32>) -> tensor<4xf32> {
      %s = nn.kernel(%b = %a) : (tensor<4xf32>) -> tensor<4xf32> {
        %c = nn.exp %b : tensor<4xf32>
        nn.yield %c : tensor<4xf32>
      }
      pp.return %s : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2, %b = %0#0) : (tensor<4xf32>, tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
}
