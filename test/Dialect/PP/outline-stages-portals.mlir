// RUN: pp-opt %s --pp-insert-portals --pp-outline-stages --pp-verify-stages | FileCheck %s

// In a program without a backward pass, too, what reads only what leaves a
// portal belongs to its stage: it is not repeated where its values are read.
// Here one of them is stashed again.
// CHECK: pp.portal @[[IN:.+]] from(0) to(2) forward
// CHECK: pp.portal @[[OUT:.+]] from(2) to(4) forward
// CHECK: pp.stage 0 forward
// CHECK: pp.stash @[[IN]]
// CHECK: %[[POPPED:.+]] = pp.pop @[[IN]]
// CHECK: pp.stage 2 forward (%{{.+}} = %[[POPPED]]
// CHECK: nn.neg
// CHECK: pp.stash @[[OUT]]
// CHECK: pp.stage 4 forward
// CHECK-NOT: nn.neg
module attributes {pp.stages = 5 : i64} {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = nn.kernel(%a = %x) attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>, pp.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.exp %a : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %1 = nn.kernel(%a = %0) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>, pp.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.exp %a : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %2 = nn.kernel(%a = %0) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>, pp.stage = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.neg %a : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %3 = nn.kernel(%a = %1, %b = %2) attributes {step.origin = 3 : i64, step.phase = #step.phase<forward>, pp.stage = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.add %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %4 = nn.kernel(%a = %3) attributes {step.origin = 4 : i64, step.phase = #step.phase<forward>, pp.stage = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.exp %a : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %5 = nn.kernel(%a = %4, %b = %2) attributes {step.origin = 5 : i64, step.phase = #step.phase<forward>, pp.stage = 4 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    return %5 : tensor<4xf32>
  }
}
