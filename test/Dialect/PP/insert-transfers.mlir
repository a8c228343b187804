// RUN: pp-opt %s --pp-schedule="schedule=inference microbatches=2" --pp-insert-transfers | FileCheck %s

// A value that two stages read has a channel to each; what skips a stage comes
// out of a portal, and its channel says so. Operands and results name them.
// CHECK: %[[S0:.*]] = pp.stage 0 forward (%{{.*}} = %arg0) sources([feed 0]) targets({{\[\[}}channel @c0, channel @c1]])
// CHECK: %[[S1:.*]] = pp.stage 1 forward (%{{.*}} = %[[S0]]) sources([channel @c0]) targets({{\[\[}}channel @c2]])
// CHECK: pp.stage 2 forward (%{{.*}} = %{{.*}}, %{{.*}} = %[[S1]], %{{.*}} = %arg1) sources([channel @c1, channel @c2, feed 1]) targets({{\[\[}}fetch 0]])
// CHECK: pp.channel @c0 next from(0) forward to(1) forward until forward value("F:input:0")
// CHECK: pp.channel @c1 portal from(0) forward to(2) forward until forward
// CHECK: pp.channel @c2 next from(1) forward to(2) forward until forward
// CHECK: pp.schedule "inference" microbatches(2) checkpoint(never) ranks([
// CHECK-NEXT: [0F0, 0SEND_F0 @c0, 0SEND_F0 @c1, 0F1, 0SEND_F1 @c0, 0SEND_F1 @c1],
// CHECK-NEXT: [1RECV_F0 @c0, 1F0, 1SEND_F0 @c2, 1RECV_F1 @c0, 1F1, 1SEND_F1 @c2],
// CHECK-NEXT: [2RECV_F0 @c1, 2RECV_F0 @c2, 2F0, 2RECV_F1 @c1, 2RECV_F1 @c2, 2F1]])
module {
  pp.portal @skip from(0) to(2) forward : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}, %y: tensor<4xf32> {step.feed = "y"}) -> (tensor<4xf32> {step.fetch = "z"}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stash @skip, %0 : tensor<4xf32>
    %1 = pp.stage 1 forward (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.pop @skip : tensor<4xf32>
    %3 = pp.stage 2 forward (%a = %2, %b = %1, %c = %y) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %3 : tensor<4xf32>
  }
}
