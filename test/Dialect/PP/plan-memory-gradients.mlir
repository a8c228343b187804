// RUN: pp-opt %s --split-input-file --pp-schedule="schedule=gpipe microbatches=2" --pp-insert-transfers --pp-plan-memory | FileCheck %s

// All sums of gradients are in W, whose first run of a step writes them.
// CHECK: pp.memory 0
// CHECK-SAME: writes_gradients
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) {
    pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> () {
      pp.return
    }
    pp.stage 0 backward_weight (%a = %x) : (tensor<4xf32>) -> () {
      nn.accumulate gradient @w, %a : tensor<4xf32>
      pp.return
    }
    return
  }
}

// -----

// I runs before W, and cannot tell.
// CHECK: pp.memory 0
// CHECK-NOT: writes_gradients
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) {
    pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> () {
      pp.return
    }
    pp.stage 0 backward_input (%a = %x) : (tensor<4xf32>) -> () {
      nn.accumulate gradient @w, %a : tensor<4xf32>
      pp.return
    }
    return
  }
}
