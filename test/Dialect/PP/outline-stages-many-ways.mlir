// RUN: pp-opt %s --pp-outline-stages | FileCheck %s

// What stages prepare, each value of which the next one reads twice: there are
// 2^40 ways from the parameter to its reader, and as many steps if each were
// gone. Stage 0 has the parameter, which stage 1 borrows.
// CHECK-LABEL: func @main
// CHECK: pp.stage 0 prepare
// CHECK-COUNT-40: nn.mul
// CHECK: pp.stage 0 forward
// CHECK-NOT: nn.mul
// CHECK: pp.stage 1 forward
// CHECK-COUNT-40: nn.mul
module attributes {pp.stages = 2 : i64} {
  ml_program.global private mutable @w(dense<1.0> : tensor<4xf32>) : tensor<4xf32>
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %w = nn.parameter @w : tensor<4xf32>
    %0 = nn.kernel(%a = %w, %b = %w) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %1 = nn.kernel(%a = %0, %b = %0) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %2 = nn.kernel(%a = %1, %b = %1) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %3 = nn.kernel(%a = %2, %b = %2) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %4 = nn.kernel(%a = %3, %b = %3) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %5 = nn.kernel(%a = %4, %b = %4) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %6 = nn.kernel(%a = %5, %b = %5) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %7 = nn.kernel(%a = %6, %b = %6) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %8 = nn.kernel(%a = %7, %b = %7) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %9 = nn.kernel(%a = %8, %b = %8) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %10 = nn.kernel(%a = %9, %b = %9) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %11 = nn.kernel(%a = %10, %b = %10) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %12 = nn.kernel(%a = %11, %b = %11) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %13 = nn.kernel(%a = %12, %b = %12) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %14 = nn.kernel(%a = %13, %b = %13) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %15 = nn.kernel(%a = %14, %b = %14) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %16 = nn.kernel(%a = %15, %b = %15) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %17 = nn.kernel(%a = %16, %b = %16) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %18 = nn.kernel(%a = %17, %b = %17) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %19 = nn.kernel(%a = %18, %b = %18) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %20 = nn.kernel(%a = %19, %b = %19) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %21 = nn.kernel(%a = %20, %b = %20) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %22 = nn.kernel(%a = %21, %b = %21) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %23 = nn.kernel(%a = %22, %b = %22) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %24 = nn.kernel(%a = %23, %b = %23) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %25 = nn.kernel(%a = %24, %b = %24) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %26 = nn.kernel(%a = %25, %b = %25) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %27 = nn.kernel(%a = %26, %b = %26) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %28 = nn.kernel(%a = %27, %b = %27) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %29 = nn.kernel(%a = %28, %b = %28) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %30 = nn.kernel(%a = %29, %b = %29) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %31 = nn.kernel(%a = %30, %b = %30) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %32 = nn.kernel(%a = %31, %b = %31) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %33 = nn.kernel(%a = %32, %b = %32) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %34 = nn.kernel(%a = %33, %b = %33) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %35 = nn.kernel(%a = %34, %b = %34) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %36 = nn.kernel(%a = %35, %b = %35) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %37 = nn.kernel(%a = %36, %b = %36) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %38 = nn.kernel(%a = %37, %b = %37) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %39 = nn.kernel(%a = %38, %b = %38) attributes {step.phase = #step.phase<prepare>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.mul %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %first = nn.kernel(%a = %x, %b = %39) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>, pp.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.add %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    %second = nn.kernel(%a = %first, %b = %39) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>, pp.stage = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.add %a, %b : tensor<4xf32>
      nn.yield %c : tensor<4xf32>
    }
    nn.accumulate gradient @w, %first {step.origin = 1 : i64, step.phase = #step.phase<backward_weight>, pp.stage = 0 : i64} : tensor<4xf32>
    return %second : tensor<4xf32>
  }
}
