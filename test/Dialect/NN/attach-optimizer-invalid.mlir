// RUN: split-file %s %t
// RUN: pp-opt %t/twice.mlir --verify-diagnostics --nn-attach-optimizer
// RUN: pp-opt %t/unknown.mlir --verify-diagnostics --nn-attach-optimizer="optimizer=lbfgs"

//--- twice.mlir
// expected-error@+1 {{has an optimizer already}}
module {
  func.func private @optimizer()
}

//--- unknown.mlir
// expected-error@+1 {{unknown optimizer 'lbfgs'; known: sgd, adamw}}
module {
}
