// RUN: pp-opt %s --split-input-file --pp-schedule="schedule=gpipe microbatches=2" --pp-insert-transfers --pp-plan-memory | FileCheck %s

// The first W of a step writes the gradients that it adds to.
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

// So does the first I.
// CHECK: pp.memory 0
// CHECK-SAME: writes_gradients
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

// -----

// A library kernel that adds to a gradient has another one that writes it.
// CHECK: pp.stage 0 backward_weight
// CHECK: nn.kernel{{.*}} pp.first_library = 1 : i64, pp.library = 0 : i64
// CHECK: pp.memory 0
// CHECK-SAME: kernels([<"matmul a=4x2 b=2x8 c=4x8 as=1x4 bs=8x1 cs=8x1 accumulate=1", {{[0-9]+}}>, <"matmul a=4x2 b=2x8 c=4x8 as=1x4 bs=8x1 cs=8x1", {{[0-9]+}}>])
// CHECK-SAME: writes_gradients
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4x8xf32>) : tensor<4x8xf32>
  func.func @main(%x: tensor<2x4xf32> {step.feed = "x", step.role = #step.role<input>}, %g: tensor<2x8xf32> {step.feed = "g", step.role = #step.role<input>}) {
    pp.stage 0 forward (%a = %x, %b = %g) : (tensor<2x4xf32>, tensor<2x8xf32>) -> () {
      pp.return
    }
    pp.stage 0 backward_weight (%a = %x, %b = %g) : (tensor<2x4xf32>, tensor<2x8xf32>) -> () {
      nn.kernel(%c = %a, %d = %b) : (tensor<2x4xf32>, tensor<2x8xf32>) -> () {
        %0 = nn.dot_general %c, %d batch [] x [] contract [0] x [0] : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
        nn.accumulate gradient @w, %0 : tensor<4x8xf32>
        nn.yield
      }
      pp.return
    }
    return
  }
}
