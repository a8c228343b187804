// RUN: pp-opt %s --pp-outline-stages | FileCheck %s

// Views and what depends on no input are copied into the stages that read them;
// the residual that the backward pass reads is a result of the forward stage.
// CHECK: %[[F:.*]]:2 = pp.stage 0 forward (%[[X:.*]] = %arg0)
// CHECK:   %[[W:.*]] = nn.parameter @w
// CHECK:   nn.kernel(%{{.*}} = %[[X]], %{{.*}} = %[[W]])
// CHECK:   %[[MASK:.*]] = nn.kernel()
// CHECK:   nn.kernel(%{{.*}}, %{{.*}} = %[[MASK]])
// CHECK:   pp.return
// CHECK: pp.stage 1 forward
// CHECK:   nn.kernel()
// CHECK:   nn.reshape
// CHECK: pp.stage 0 backward_weight (%{{.*}} = %[[F]]#{{[01]}})
// CHECK:   nn.accumulate {{ *}}gradient @w
module attributes {pp.stages = 2 : i64} {
  ml_program.global private mutable @w(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<2x2xf32> {step.fetch = "y"}) {
    %w = nn.parameter @w : tensor<4xf32>
    %mask = nn.kernel() attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>} : () -> tensor<4xf32> {
      %c = nn.iota 0 : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %0 = nn.kernel(%a = %x, %b = %w) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>, pp.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %1 = nn.kernel(%a = %0, %b = %mask) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>, pp.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %2 = nn.reshape %1 : tensor<4xf32> -> tensor<2x2xf32>
    %m2 = nn.reshape %mask : tensor<4xf32> -> tensor<2x2xf32>
    %3 = nn.kernel(%a = %2, %b = %m2) attributes {step.origin = 3 : i64, step.phase = #step.phase<forward>, pp.stage = 1 : i64} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> {
      %c = nn.mul %a, %b : tensor<2x2xf32>
      nn.yield %c : tensor<2x2xf32>
    }
    nn.accumulate gradient @w, %0 {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    return %3 : tensor<2x2xf32>
  }
}
