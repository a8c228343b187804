// RUN: pp-opt %s --pp-annotate-costs --pp-partition=stages=2 | FileCheck %s
// RUN: pp-opt %s --pp-annotate-costs --pp-partition="stages=2 cuts=second" | FileCheck %s --check-prefix=CUT
// RUN: pp-opt %s --pp-annotate-costs --pp-partition="stages=2 objective=memory" | FileCheck %s --check-prefix=MEMORY
// RUN: pp-opt %s --pp-annotate-costs --pp-partition | FileCheck %s --check-prefix=ONE
// A backward kernel that reads nothing may stand before all others.
// RUN: sed 's/^    %0 = nn.kernel/    %z = nn.kernel() attributes {step.origin = 2 : i64, step.phase = #step.phase<backward_input>} : () -> tensor<64xf32> {\n      %c = nn.constant dense<0.0> : tensor<64xf32>\n      nn.yield %c : tensor<64xf32>\n    }\n&/' %s | pp-opt --pp-annotate-costs --pp-partition=stages=2 | FileCheck %s --check-prefix=BEFORE

// Four equal kernels in two stages: two each. The backward kernel goes where
// its forward kernel is.
// CHECK: pp.partition = #pp.partition<value = {{.*}}, lower_bound = {{.*}}>, pp.stages = 2
// CHECK: pp.stage = 0 : i64
// CHECK: pp.stage = 0 : i64
// CHECK: pp.stage = 1 : i64
// CHECK: pp.stage = 1 : i64
// CHECK: pp.stage = 1 : i64, step.origin = {{[0-9]+}} : i64, step.phase = #step.phase<backward_input>

// CUT: pp.stage = 0 : i64
// CUT: pp.stage = 1 : i64
// CUT: pp.stage = 1 : i64
// CUT: pp.stage = 1 : i64

// MEMORY: pp.stages = 2

// ONE: pp.stages = 1

// BEFORE: nn.kernel() attributes {{.*}}pp.stage = 1 : i64
module {
  func.func @main(%x: tensor<64x64xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<64x64xf32> {step.fetch = "loss"}) {
    %0 = nn.kernel(%a = %x) attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("first")
    %1 = nn.kernel(%a = %0) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("second")
    %2 = nn.kernel(%a = %1) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("third")
    %3 = nn.kernel(%a = %2) attributes {step.origin = 3 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("fourth")
    %4 = nn.kernel(%a = %2) attributes {step.origin = 2 : i64, step.phase = #step.phase<backward_input>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.neg %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("third")
    return %3 : tensor<64x64xf32>
  }
}
