// RUN: split-file %s %t
// RUN: pp-opt %t/main.mlir --split-input-file --verify-diagnostics --nn-rebatch="batch=2"
// RUN: pp-opt %t/statistics.mlir --verify-diagnostics --nn-rebatch="batch=2 microbatches=4"
// RUN: pp-opt %t/options.mlir --verify-diagnostics --nn-rebatch="batch=-1"
// RUN: pp-opt %t/options0.mlir --verify-diagnostics --nn-rebatch="batch=1 microbatches=0"

//--- options.mlir
// expected-error@+1 {{needs a batch of 0 or more and 1 or more micro-batches, got -1 and 1}}
module {
  func.func @main(%x: tensor<8x4xf32> {step.batched}) -> tensor<8x4xf32> {
    return %x : tensor<8x4xf32>
  }
}

//--- options0.mlir
// expected-error@+1 {{needs a batch of 0 or more and 1 or more micro-batches, got 1 and 0}}
module {
  func.func @main(%x: tensor<8x4xf32> {step.batched}) -> tensor<8x4xf32> {
    return %x : tensor<8x4xf32>
  }
}

//--- main.mlir
// expected-error@+1 {{has no function @main}}
module {
}

// -----

// expected-error@+1 {{needs a body of one block}}
func.func private @main(tensor<8x4xf32>)

// -----

// expected-error@+1 {{needs a body of one block}}
func.func @main(%x: tensor<8x4xf32> {step.batched}) {
  cf.br ^end
^end:
  return
}

// -----

// expected-error@+1 {{input #1 has type 'index', expected a statically shaped tensor}}
func.func @main(%x: tensor<8x4xf32> {step.batched}, %i: index) {
  return
}

// -----

// expected-error@+1 {{result #0 has type 'tensor<?xf32>', expected a statically shaped tensor}}
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> tensor<?xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = tensor.cast %0 : tensor<4xf32> to tensor<?xf32>
  return %1 : tensor<?xf32>
}

// -----

// expected-error@+1 {{has no input with a batch axis}}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

// expected-error@+1 {{input 'mask' has 4 samples on axis 0, the inputs before it have 8}}
func.func @main(%x: tensor<8x4xf32> {step.batched, step.feed = "x"}, %m: tensor<4x4xf32> {step.batched, step.feed = "mask"}) {
  return
}

// -----

func.func @main(%x: tensor<8x4xf32> {step.batched}) {
  // expected-error@+1 {{'tensor.empty' op is not known to the re-batching of models}}
  %0 = tensor.empty() : tensor<4xf32>
  return
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<8x4xf32>) : tensor<8x4xf32> {nn.trained}
func.func @main(%x: tensor<8x4xf32> {step.batched}) -> tensor<8x4xf32> {
  %w = nn.parameter @w : tensor<8x4xf32>
  // expected-error@+1 {{'nn.add' op combines samples with operand #1, which is the same for all 8 samples but cannot be made for another number}}
  %0 = nn.add %x, %w : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// All errors are reported at once.
ml_program.global private @p(dense<0.0> : tensor<4x8xf32>) : tensor<4x8xf32>
func.func @main(%x: tensor<8x4xf32> {step.batched}) {
  %p = nn.parameter @p : tensor<4x8xf32>
  // expected-error@+1 {{'nn.reduce' op cannot be re-batched: reduces the axis that holds the samples}}
  %0 = nn.reduce sum %x [0] : tensor<8x4xf32> -> tensor<4xf32>
  // expected-error@+1 {{'nn.slice' op cannot be re-batched: takes a part of the axis that holds the samples}}
  %1 = nn.slice %x starts [1, 0] limits [8, 4] strides [1, 1] : tensor<8x4xf32> -> tensor<7x4xf32>
  // expected-error@+1 {{'nn.pad' op cannot be re-batched: pads the axis that holds the samples}}
  %2 = nn.pad %x low [1, 0] high [0, 0] interior [0, 0] : tensor<8x4xf32> -> tensor<9x4xf32>
  %square = nn.dot_general %x, %p batch [] x [] contract [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %turned = nn.transpose %square [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  // expected-error@+1 {{'nn.concat' op cannot be re-batched: joins samples with what is the same for all of them, or lies elsewhere}}
  %3 = nn.concat %square, %turned axis 0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  // expected-error@+1 {{'nn.reshape' op cannot be re-batched: splits the 8 samples of its operand over several axes}}
  %4 = nn.reshape %x : tensor<8x4xf32> -> tensor<2x16xf32>
  %5 = nn.transpose %x [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  // expected-error@+1 {{'nn.softmax' op cannot be re-batched: normalises along the axis that holds the samples}}
  %6 = nn.softmax %5 : tensor<4x8xf32>
  // expected-error@+1 {{'nn.dot_general' op cannot be re-batched: sums over the axis that holds the samples}}
  %7 = nn.dot_general %x, %x batch [] x [] contract [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  // expected-error@+1 {{'nn.dot_general' op cannot be re-batched: multiplies every sample with every other}}
  %8 = nn.dot_general %x, %x batch [] x [] contract [1] x [1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @main(%x: tensor<8x4xf32> {step.batched}, %i: tensor<8xi64> {step.batched}) {
  // expected-error@+1 {{'nn.gather' op cannot be re-batched: picks from samples by an index that differs from sample to sample}}
  %0 = nn.gather %x[%i] axis 1 : (tensor<8x4xf32>, tensor<8xi64>) -> tensor<8x8xf32>
  %1 = nn.constant dense<[0, 1]> : tensor<2xi64>
  // expected-error@+1 {{'nn.gather' op cannot be re-batched: picks along the axis that holds the samples}}
  %2 = nn.gather %x[%1] axis 0 : (tensor<8x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  // expected-error@+1 {{'nn.scatter_add' op cannot be re-batched: adds up samples}}
  %3 = nn.scatter_add %x at [%i] axis 0 : (tensor<8xi64>, tensor<8x4xf32>) -> tensor<5x4xf32>
  return
}

// -----

func.func @main(%x: tensor<8x4xf32> {step.batched}, %i: tensor<8xi64> {step.batched}, %w: tensor<8x3xi64>, %u: tensor<3x4xf32>) {
  // expected-error@+1 {{'nn.gather' op cannot be re-batched: picks from samples by an index of other samples}}
  %0 = nn.gather %x[%w] axis 1 shared 1 : (tensor<8x4xf32>, tensor<8x3xi64>) -> tensor<8x3xf32>
  // expected-error@+1 {{'nn.scatter' op cannot be re-batched: puts slices along the axis that holds the samples}}
  %1 = nn.scatter %x into %x at [%i] axis 0 : (tensor<8x4xf32>, tensor<8xi64>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = nn.constant dense<[0, 1, 2]> : tensor<3xi64>
  // expected-error@+1 {{'nn.scatter' op cannot be re-batched: puts samples into a tensor that is the same for all of them, or the other way around}}
  %3 = nn.scatter %u into %x at [%2] axis 0 : (tensor<8x4xf32>, tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x4xf32>
  %4 = nn.constant dense<0.0> : tensor<8x8xf32>
  // expected-error@+1 {{'nn.scatter' op cannot be re-batched: has updates or indices with other samples}}
  %5 = nn.scatter %4 into %x at [%i] axis 1 : (tensor<8x4xf32>, tensor<8xi64>, tensor<8x8xf32>) -> tensor<8x4xf32>
  // expected-error@+1 {{'nn.cumsum' op cannot be re-batched: sums along the axis that holds the samples}}
  %6 = nn.cumsum %x axis 0 : tensor<8x4xf32>
  // expected-error@+1 {{'nn.top_k' op cannot be re-batched: orders along the axis that holds the samples}}
  %7 = nn.top_k %i : tensor<8xi64> -> tensor<2xi64>
  return
}

// -----

func.func @main(%x: tensor<8x8xf32> {step.batched}) {
  %0 = nn.transpose %x [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32>
  // expected-error@+1 {{'nn.add' op cannot be re-batched: operand #1 has its samples on another axis than the operands before it}}
  %1 = nn.add %x, %0 : tensor<8x8xf32>
  return
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<8x4x4xf32>) : tensor<8x4x4xf32> {nn.trained}
func.func @main(%x: tensor<8x4x4xf32> {step.batched}) {
  %w = nn.parameter @w : tensor<8x4x4xf32>
  // expected-error@+1 {{'nn.dot_general' op cannot be re-batched: runs along the samples of only one operand}}
  %0 = nn.dot_general %x, %w batch [0] x [0] contract [2] x [1] : (tensor<8x4x4xf32>, tensor<8x4x4xf32>) -> tensor<8x4x4xf32>
  return
}

// -----

func.func @main(%x: tensor<8x3x8x8xf32> {step.batched}) {
  %w = nn.constant dense<0.0> : tensor<6x8x3x3xf32>
  %0 = nn.transpose %x [1, 0, 2, 3] : tensor<8x3x8x8xf32> -> tensor<3x8x8x8xf32>
  // expected-error@+1 {{'nn.conv' op cannot be re-batched: has its samples on axis 1 instead of axis 0}}
  %1 = nn.conv %0, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<3x8x8x8xf32>, tensor<6x8x3x3xf32>) -> tensor<3x6x6x6xf32>
  // expected-error@+1 {{'nn.conv' op cannot be re-batched: has a weight that differs from sample to sample}}
  %2 = nn.conv %x, %x strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<8x3x8x8xf32>, tensor<8x3x8x8xf32>) -> tensor<8x8x1x1xf32>
  // expected-error@+1 {{'nn.conv_backward_weight' op cannot be re-batched: sums over the samples}}
  %3 = nn.conv_backward_weight %x, %2 strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<8x3x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<8x3x8x8xf32>
  return
}

// -----

func.func @main(%x: tensor<8x8xf32> {step.batched}, %s: tensor<8xf32> {step.batched}) {
  // expected-error@+1 {{'nn.layer_norm' op cannot be re-batched: has a scale that differs from sample to sample}}
  %0:3 = nn.layer_norm %x, %s, %s epsilon 1.0e-5 : (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @main(%x: tensor<8x10xf32> {step.batched}) {
  %l = nn.constant dense<1> : tensor<8xi64>
  // expected-error@+1 {{'nn.softmax_cross_entropy' op cannot be re-batched: has labels and logits with different samples}}
  %0:2 = nn.softmax_cross_entropy %x, %l : (tensor<8x10xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<8xf32>)
  return
}

// -----

ml_program.global private mutable @s(dense<0.0> : tensor<8xf32>) : tensor<8xf32>
func.func @main(%x: tensor<8xf32> {step.batched}) {
  // expected-error@+1 {{'nn.accumulate' op cannot be re-batched: adds a value per sample to a state}}
  nn.accumulate gradient @s, %x : tensor<8xf32>
  return
}

// -----

func.func @main(%x: tensor<8x0xf32> {step.batched}) -> tensor<0x8xf32> {
  // expected-error@+1 {{'nn.reshape' op cannot be re-batched: has no elements}}
  %0 = nn.reshape %x : tensor<8x0xf32> -> tensor<0x8xf32>
  return %0 : tensor<0x8xf32>
}

// -----

func.func @main(%x: tensor<8x5x3x4xf32> {step.batched}) {
  // expected-error@+1 {{'nn.attention' op cannot be re-batched: mixes the rows that hold the samples}}
  %0:2 = nn.attention %x [1, 2, 0, 3], %x [1, 2, 0, 3], %x [1, 2, 0, 3] scale 1.0 output [0, 1, 2, 3] : (tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>) -> (tensor<5x3x8x4xf32>, tensor<5x3x8xf32>)
  return
}

// -----

func.func @main(%x: tensor<8x5x3x4xf32> {step.batched}) {
  %c = nn.constant dense<1.0> : tensor<8x5x3x4xf32>
  // expected-error@+1 {{'nn.attention' op cannot be re-batched: has a query, a key and a value with different samples}}
  %0:2 = nn.attention %x [0, 1, 2, 3], %c [0, 1, 2, 3], %x [0, 1, 2, 3] scale 1.0 output [0, 1, 2, 3] : (tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>) -> (tensor<8x5x3x4xf32>, tensor<8x5x3xf32>)
  return
}

// -----

func.func @main(%x: tensor<8x5x3x4xf32> {step.batched}, %m: tensor<8x1x3x3xf32> {step.batched}) {
  %c = nn.constant dense<1.0> : tensor<8x5x3x4xf32>
  // expected-error@+1 {{'nn.attention' op cannot be re-batched: has a mask of other samples than the query}}
  %0:2 = nn.attention %c [0, 1, 2, 3], %c [0, 1, 2, 3], %c [0, 1, 2, 3] mask %m scale 1.0 output [0, 1, 2, 3] : (tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x5x3x4xf32>, tensor<8x1x3x3xf32>) -> (tensor<8x5x3x4xf32>, tensor<8x5x3xf32>)
  return
}

// -----

// Numbers of samples are good for picking from them alone.
func.func @main(%x: tensor<8x4xf32> {step.batched}, %i: tensor<8xi64> {step.batched}) -> (tensor<8xi64>, tensor<8xi64>) {
  %rows = nn.iota 0 : tensor<8xi64>
  // expected-error@+1 {{cannot be re-batched: gives the numbers of samples as a result}}
  %0 = nn.add %rows, %i : tensor<8xi64>
  // expected-error@+1 {{'nn.mul' op cannot be re-batched: computes with the numbers of samples}}
  %1 = nn.mul %rows, %i : tensor<8xi64>
  return %0, %1 : tensor<8xi64>, tensor<8xi64>
}

// -----

// Indices that count other steps than the samples are apart mix samples.
func.func @main(%x: tensor<8x4xf32> {step.batched}, %i: tensor<8xi64> {step.batched}) -> tensor<8xf32> {
  %flat = nn.reshape %x : tensor<8x4xf32> -> tensor<32xf32>
  %starts = nn.constant dense<[0, 3, 6, 9, 12, 15, 18, 21]> : tensor<8xi64>
  %places = nn.add %starts, %i : tensor<8xi64>
  // expected-error@+1 {{'nn.gather' op cannot be re-batched: computes with the numbers of samples}}
  %0 = nn.gather %flat[%places] axis 0 : (tensor<32xf32>, tensor<8xi64>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Samples that are taken one by one must all be taken, each in the same way.
func.func @main(%x: tensor<4x3xf32> {step.batched}) -> tensor<1x3xf32> {
  %0 = nn.slice %x starts [0, 0] limits [1, 3] strides [1, 1] : tensor<4x3xf32> -> tensor<1x3xf32>
  // expected-error@+1 {{cannot be re-batched: gives a part of one sample as a result}}
  %1 = nn.slice %x starts [1, 0] limits [2, 3] strides [1, 1] : tensor<4x3xf32> -> tensor<1x3xf32>
  %2 = nn.exp %1 : tensor<1x3xf32>
  %3 = nn.slice %x starts [2, 0] limits [3, 3] strides [1, 1] : tensor<4x3xf32> -> tensor<1x3xf32>
  %4 = nn.slice %x starts [3, 0] limits [4, 3] strides [1, 1] : tensor<4x3xf32> -> tensor<1x3xf32>
  // One in another way.
  // expected-error@+1 {{'nn.concat' op cannot be re-batched: combines a part of one sample with others}}
  %5 = nn.concat %0, %2, %3, %4 axis 0 : (tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  // In another order.
  // expected-error@+1 {{'nn.concat' op cannot be re-batched: combines a part of one sample with others}}
  %6 = nn.concat %0, %1, %4, %3 axis 0 : (tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  // expected-error@+1 {{'nn.add' op cannot be re-batched: combines a part of one sample with others}}
  %7 = nn.add %0, %1 : tensor<1x3xf32>
  return %1 : tensor<1x3xf32>
}

// -----

func.func @main(%x: tensor<8x3xui8> {step.batched, step.feed = "x"}) -> tensor<3x100xi32> {
  %w = nn.constant dense<1> : tensor<2x2x64x4xi8>
  %turned = nn.transpose %x [1, 0] : tensor<8x3xui8> -> tensor<3x8xui8>
  // expected-error@+1 {{'nn.integer_product' op cannot be re-batched: sums over the axis that holds the samples}}
  %0 = nn.integer_product %turned, %w : (tensor<3x8xui8>, tensor<2x2x64x4xi8>) -> tensor<3x100xi32>
  return %0 : tensor<3x100xi32>
}

//--- statistics.mlir
// Each of several micro-batches moves running statistics by its number.
ml_program.global private mutable @m(dense<0.0> : tensor<3xf32>) : tensor<3xf32>
ml_program.global private mutable @v(dense<1.0> : tensor<3xf32>) : tensor<3xf32>
// expected-error@+1 {{input 'random_counter' has the name of an input that random numbers and statistics take; rename that of the model}}
func.func @main(%x: tensor<8x3x4x4xf32> {step.batched, step.feed = "random_counter"}) -> tensor<8x3x4x4xf32> {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  %y, %mean, %variance = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : (tensor<8x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<8x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  nn.accumulate statistics @m, %mean : tensor<3xf32>
  nn.accumulate statistics @v, %variance : tensor<3xf32>
  nn.commit_statistics @m, @v momentum 0.1 microbatches 1 elements 128 each
  return %y : tensor<8x3x4x4xf32>
}
