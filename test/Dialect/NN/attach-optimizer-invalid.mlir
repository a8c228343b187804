// RUN: split-file %s %t
// RUN: pp-opt %t/twice.mlir --verify-diagnostics --nn-attach-optimizer
// RUN: not pp-opt %t/twice.mlir --nn-attach-optimizer="optimizer=lbfgs" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: pp-opt %t/scale.mlir --verify-diagnostics --nn-attach-optimizer="loss-scale=0"

// UNKNOWN: for the --optimizer option: 'lbfgs': expected sgd, adamw

//--- twice.mlir
// expected-error@+1 {{has an optimizer already}}
module {
  func.func private @optimizer()
}

//--- scale.mlir
// expected-error@+1 {{unknown loss scale '0'; known: none, dynamic, positive numbers}}
module {
}
