// RUN: pp-opt %s --pp-insert-portals | FileCheck %s
// RUN: pp-opt %s --pp-insert-portals --pp-outline-stages | FileCheck %s --check-prefix=OUTLINED

// The value of stage 0 that stage 2 reads goes through a portal; stage 1 reads
// it as a neighbour.
// CHECK: pp.portal @portal_first_0_2 from(0) to(2) forward : tensor<4xf32>
// CHECK: %[[FIRST:.*]] = nn.kernel
// CHECK: pp.stash @portal_first_0_2, %[[FIRST]]
// CHECK: %[[SECOND:.*]] = nn.kernel(%{{.*}} = %[[FIRST]])
// CHECK: %[[POPPED:.*]] = pp.pop @portal_first_0_2
// CHECK: nn.kernel(%{{.*}} = %[[SECOND]], %{{.*}} = %[[POPPED]])

// OUTLINED: %[[S0:.*]] = pp.stage 0 forward (%{{.*}} = %arg0)
// OUTLINED: pp.stash @portal_first_0_2, %[[S0]]
// OUTLINED: %[[S1:.*]] = pp.stage 1 forward (%{{.*}} = %[[S0]])
// OUTLINED: %[[POP:.*]] = pp.pop @portal_first_0_2
// OUTLINED: pp.stage 2 forward (%{{.*}} = %[[S1]], %{{.*}} = %[[POP]])
module attributes {pp.stages = 3 : i64} {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = nn.kernel(%a = %x) attributes {pp.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
      %b = nn.exp %a : tensor<4xf32>
      nn.yield %b : tensor<4xf32>
    } loc("first")
    %1 = nn.kernel(%a = %0) attributes {pp.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
      %b = nn.exp %a : tensor<4xf32>
      nn.yield %b : tensor<4xf32>
    } loc("second")
    %2 = nn.kernel(%a = %1, %c = %0) attributes {pp.stage = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %b = nn.add %a, %c : tensor<4xf32>
      nn.yield %b : tensor<4xf32>
    } loc("third")
    return %2 : tensor<4xf32>
  }
}
