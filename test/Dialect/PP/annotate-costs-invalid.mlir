// RUN: split-file %s %t
// RUN: pp-opt %t/none.mlir --verify-diagnostics --pp-annotate-costs
// RUN: not pp-opt %t/step.mlir --pp-annotate-costs="gflops=0" 2>&1 | FileCheck %s
// RUN: not pp-opt %t/step.mlir --pp-annotate-costs="launch=-1" 2>&1 | FileCheck %s
// RUN: not pp-opt %t/step.mlir --pp-annotate-costs="microbatches=-1" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not pp-opt %t/step.mlir --pp-annotate-costs="threads=0" 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS: error: threads is 0, must be from 1 to 1024
// COUNT: error: microbatches is -1, must be 0 or more

// The errors of cost-file are in partition-invalid.mlir.
// CHECK: error: gflops and bandwidth must be positive, the others not negative

//--- none.mlir
// expected-error@+1 {{has no function with fed arguments (step.feed)}}
module {
}
//--- step.mlir
func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
  %0 = nn.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
