// RUN: split-file %s %t
// RUN: pp-opt %t/twice.mlir --verify-diagnostics --nn-attach-optimizer
// RUN: pp-opt %t/unknown.mlir --verify-diagnostics --nn-attach-optimizer="optimizer=lbfgs"
// RUN: pp-opt %t/scale.mlir --verify-diagnostics --nn-attach-optimizer="loss-scale=0"

//--- twice.mlir
// expected-error@+1 {{has an optimizer already}}
module {
  func.func private @optimizer()
}

//--- unknown.mlir
// expected-error@+1 {{unknown optimizer 'lbfgs'; known: sgd, adamw}}
module {
}

//--- scale.mlir
// expected-error@+1 {{unknown loss scale '0'; known: none, dynamic, positive numbers}}
module {
}
