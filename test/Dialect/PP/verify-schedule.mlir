// RUN: pp-opt %s --pp-verify-schedule | FileCheck %s

// A schedule without a fault passes unchanged.
// CHECK: pp.schedule "1f1b"
// CHECK: 1RECV_F1 @c0, 1SEND_B0 @c1
// 1F1B of two stages.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  pp.schedule "1f1b" microbatches(2) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0, 0RECV_B1 @c1, 0B1, 0U],
    [1RECV_F0 @c0, 1F0, 1B0, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1SEND_B1 @c1, 1U]])
}
