// RUN: pp-opt %s --split-input-file --nn-prepare-in-update | FileCheck %s

// One rounding of each trained parameter that other phases read: not what is not
// trained, what does more than round, or what only P reads.
ml_program.global private mutable @w(dense<0.0> : tensor<8x8xf32>) : tensor<8x8xf32> {nn.trained}
ml_program.global private mutable @v(dense<0.0> : tensor<8x8xf32>) : tensor<8x8xf32> {nn.trained}
ml_program.global private @c(dense<0.0> : tensor<8x8xf32>) : tensor<8x8xf32>
// CHECK-LABEL: func.func @main(
func.func @main() -> (tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xf16>, tensor<8x8xbf16>) {
  %w = nn.parameter @w : tensor<8x8xf32>
  %v = nn.parameter @v : tensor<8x8xf32>
  %c = nn.parameter @c : tensor<8x8xf32>
  // CHECK: nn.kernel({{.*}}) attributes {step.phase = #step.phase<prepare>, step.prepared_by_update}
  %0 = nn.kernel(%a = %w) attributes {step.phase = #step.phase<prepare>} : (tensor<8x8xf32>) -> tensor<8x8xbf16> {
    %1 = nn.cast %a : tensor<8x8xf32> -> tensor<8x8xbf16>
    nn.yield %1 : tensor<8x8xbf16>
  }
  // CHECK-NOT: step.prepared_by_update
  %2 = nn.kernel(%a = %w) attributes {step.phase = #step.phase<prepare>} : (tensor<8x8xf32>) -> tensor<8x8xbf16> {
    %1 = nn.cast %a : tensor<8x8xf32> -> tensor<8x8xbf16>
    nn.yield %1 : tensor<8x8xbf16>
  }
  %3 = nn.kernel(%a = %v) attributes {step.phase = #step.phase<prepare>} : (tensor<8x8xf32>) -> tensor<8x8xbf16> {
    %1 = nn.neg %a : tensor<8x8xf32>
    %8 = nn.cast %1 : tensor<8x8xf32> -> tensor<8x8xbf16>
    nn.yield %8 : tensor<8x8xbf16>
  }
  %4 = nn.kernel(%a = %v) attributes {step.phase = #step.phase<prepare>} : (tensor<8x8xf32>) -> tensor<8x8xf16> {
    %1 = nn.cast %a : tensor<8x8xf32> -> tensor<8x8xf16>
    nn.yield %1 : tensor<8x8xf16>
  }
  %5 = nn.kernel(%a = %c) attributes {step.phase = #step.phase<prepare>} : (tensor<8x8xf32>) -> tensor<8x8xbf16> {
    %1 = nn.cast %a : tensor<8x8xf32> -> tensor<8x8xbf16>
    nn.yield %1 : tensor<8x8xbf16>
  }
  %6 = nn.kernel(%a = %v) attributes {step.phase = #step.phase<prepare>} : (tensor<8x8xf32>) -> tensor<8x8xbf16> {
    %1 = nn.cast %a : tensor<8x8xf32> -> tensor<8x8xbf16>
    nn.yield %1 : tensor<8x8xbf16>
  }
  %7 = nn.kernel(%a = %6) attributes {step.phase = #step.phase<prepare>} : (tensor<8x8xbf16>) -> tensor<8x8xbf16> {
    %1 = nn.transpose %a [1, 0] : tensor<8x8xbf16> -> tensor<8x8xbf16>
    nn.yield %1 : tensor<8x8xbf16>
  }
  // CHECK: return
  return %0, %2, %3, %4, %7 : tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xf16>, tensor<8x8xbf16>
}
