// RUN: split-file %s %t
// RUN: pp-opt %t/default.mlir --split-input-file --verify-diagnostics --nn-attach-loss
// RUN: pp-opt %t/microbatches.mlir --verify-diagnostics --nn-attach-loss="microbatches=0"
// RUN: not pp-opt %t/axis.mlir --nn-attach-loss="loss=hinge" 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: pp-opt %t/output.mlir --verify-diagnostics --nn-attach-loss="output=c"
// RUN: pp-opt %t/axis.mlir --verify-diagnostics --nn-attach-loss="class-axis=2"
// RUN: pp-opt %t/axis0.mlir --verify-diagnostics --nn-attach-loss="class-axis=0"

// LOSS: for the --loss option: 'hinge': expected cross_entropy, mse

//--- default.mlir
// expected-error@+1 {{has no function @main}}
module {
}

// -----

// expected-error@+1 {{cross entropy needs two classes or more, but axis 1 of the output has size 1}}
func.func @main(%x: tensor<2x1xf32>) -> tensor<2x1xf32> {
  return %x : tensor<2x1xf32>
}

// -----

// expected-error@+1 {{has an input 'target', which is what the loss calls an input of its own; rename that of the model}}
func.func @main(%x: tensor<2x4xf32> {step.feed = "target"}) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}

// -----

// expected-error@+1 {{has no output to attach a loss to}}
func.func @main(%x: tensor<2x4xf32>) {
  return
}

// -----

// expected-error@+1 {{output to attach a loss to has type 'tensor<2x4xi64>', expected 'f32' elements, as of the parameters}}
func.func @main(%x: tensor<2x4xi64>) -> tensor<2x4xi64> {
  return %x : tensor<2x4xi64>
}

// -----

// Nothing of f64 is trained here.
// expected-error@+1 {{output to attach a loss to has type 'tensor<2x4xf64>', expected 'f32' elements, as of the parameters}}
func.func @main(%x: tensor<2x4xf64>) -> tensor<2x4xf64> {
  return %x : tensor<2x4xf64>
}

// -----

ml_program.global private mutable @a(dense<0.0> : tensor<4xf32>) : tensor<4xf32> {nn.trained}
// expected-error@+1 {{'b' of f64 and 'a' of f32 are both trained, but the parameters that are trained have to be of one type; convert the model, or leave out those of one type with --freeze}}
ml_program.global private mutable @b(dense<0.0> : tensor<4xf64>) : tensor<4xf64> {nn.trained}
func.func @main(%x: tensor<2x4xf64>) -> tensor<2x4xf64> {
  return %x : tensor<2x4xf64>
}

// -----

// expected-error@+1 {{cross entropy needs an output of rank 2 or more, got 'tensor<4xf32>'}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{cannot attach a loss to an output without elements: 'tensor<2x0x4xf32>'}}
func.func @main(%x: tensor<2x0x4xf32>) -> tensor<2x0x4xf32> {
  return %x : tensor<2x0x4xf32>
}

//--- microbatches.mlir
// expected-error@+1 {{needs 1 or more micro-batches, got 0}}
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}

//--- output.mlir
// expected-error@+1 {{has no output 'c'; outputs: a, b}}
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32> {step.fetch = "a"}, tensor<2x4xf32> {step.fetch = "b"}) {
  return %x, %x : tensor<2x4xf32>, tensor<2x4xf32>
}

//--- axis.mlir
// expected-error@+1 {{class axis 2 is outside [1, 2)}}
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}

//--- axis0.mlir
// expected-error@+1 {{class axis 0 is outside [1, 2)}}
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}
