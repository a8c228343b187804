// RUN: pp-opt %s --pp-schedule="schedule=gpipe microbatches=3" --pp-insert-transfers --pp-plan-memory | FileCheck %s
// RUN: pp-opt %s --pp-schedule="schedule=1f1b microbatches=3" --pp-insert-transfers --pp-plan-memory | FileCheck %s --check-prefix=F1B1
// RUN: pp-opt %s --pp-schedule="schedule=1f1b microbatches=6 replicas=2" --pp-insert-transfers --pp-plan-memory | FileCheck %s --check-prefix=REPLICAS

// The temporary %t and the result that leaves share no bytes with what lives;
// the residual is in the slot; the sent value is written to the channel at once.
// CHECK: pp.stage 0 forward
// CHECK-SAME: targets({{.*}}[channel @c0]
// CHECK: nn.kernel{{.*}}pp.buffers = [#pp.buffer<residuals, 0>]
// CHECK: nn.kernel{{.*}}pp.buffers = [#pp.buffer<scratch, 0>]
// CHECK: nn.kernel{{.*}}pp.buffers = [#pp.buffer<output, 0>]
// CHECK: pp.stage 1 forward
// CHECK-SAME: sources([channel @c0])

// GPipe keeps all three micro-batches of stage 0, 1F1B two.
// CHECK: pp.memory 0
// CHECK-SAME: <residuals, {{[0-9]+}}, 192>
// CHECK-SAME: slots(3, 64)
// F1B1: pp.memory 0
// F1B1-SAME: <residuals, {{[0-9]+}}, 128>
// F1B1-SAME: slots(2, 64)
// The memory of one of the replicas, which have half of the micro-batches each,
// with a place for half of its parameters' gradients from the other.
// REPLICAS: pp.memory 0
// REPLICAS-SAME: <residuals, {{[0-9]+}}, 128>
// REPLICAS-SAME: <exchange, {{[0-9]+}}, 0>
// CHECK: pp.schedule "gpipe"
// CHECK-NEXT: [0F0[0], 0SEND_F0 @c0, 0F1[1], 0SEND_F1 @c0, 0F2[2], 0SEND_F2 @c0, 0RECV_B0 @c1, 0B0[0], 0RECV_B1 @c1, 0B1[1], 0RECV_B2 @c1, 0B2[2], 0U]
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "y"}) {
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
