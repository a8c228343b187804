// RUN: pp-opt %s --pp-verify-schedule | FileCheck %s

// A schedule without a fault passes unchanged.
// CHECK: pp.schedule "1f1b"
// CHECK-SAME: "1RECV_F1", "1SEND_B0"
// 1F1B of two stages.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.channel @channel1 gradient from(1) backward_input result(0) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1U"]])
}
