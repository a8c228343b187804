// RUN: pp-opt %s --split-input-file --pp-annotate-costs --pp-partition=stages=2 | FileCheck %s

// Four equal kernels, and a backward part of the second that reads what the
// third makes: values flow to later stages only, so no cut is between them,
// where it would be best.
// CHECK-LABEL: func @value
// CHECK: pp.stage = 0 : i64, step.origin = 0 : i64
// CHECK: pp.stage = [[STAGE:[01]]] : i64, step.origin = 1 : i64
// CHECK: pp.stage = [[STAGE]] : i64, step.origin = 2 : i64
// CHECK: pp.stage = 1 : i64, step.origin = 3 : i64
module {
  func.func @value(%x: tensor<64x64xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<64x64xf32> {step.fetch = "loss"}) {
    %0 = nn.kernel(%a = %x) attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    %1 = nn.kernel(%a = %0) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    %2 = nn.kernel(%a = %1) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    %3 = nn.kernel(%a = %2) attributes {step.origin = 3 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    %4 = nn.kernel(%a = %2) attributes {step.origin = 1 : i64, step.phase = #step.phase<backward_input>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.neg %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    return %3 : tensor<64x64xf32>
  }
}

// -----

// The same with a parameter, which is where its gradient is made.
// CHECK-LABEL: func @parameter
// CHECK: pp.stage = 0 : i64, step.origin = 0 : i64
// CHECK: pp.stage = [[STAGE:[01]]] : i64, step.origin = 1 : i64
// CHECK: pp.stage = [[STAGE]] : i64, step.origin = 2 : i64
// CHECK: pp.stage = 1 : i64, step.origin = 3 : i64
module {
  ml_program.global private mutable @w(dense<1.0> : tensor<64x64xf32>) : tensor<64x64xf32>
  func.func @parameter(%x: tensor<64x64xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<64x64xf32> {step.fetch = "loss"}) {
    %w = nn.parameter @w : tensor<64x64xf32>
    %0 = nn.kernel(%a = %x) attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    %1 = nn.kernel(%a = %0) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    %2 = nn.kernel(%a = %1) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    %3 = nn.kernel(%a = %2) attributes {step.origin = 3 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    nn.accumulate gradient @w, %2 {step.origin = 2 : i64, step.phase = #step.phase<backward_weight>} : tensor<64x64xf32>
    %4 = nn.kernel(%a = %w) attributes {step.origin = 1 : i64, step.phase = #step.phase<backward_input>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.neg %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    }
    return %3 : tensor<64x64xf32>
  }
}
