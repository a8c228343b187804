// RUN: pp-opt %s --split-input-file --verify-diagnostics --nn-rebatch="batch=2 microbatches=4 loss=loss"

// How many samples count may differ from micro-batch to micro-batch.
func.func @main(%x: tensor<8xf32> {step.batched}, %w: tensor<8xf32> {step.batched}) -> (tensor<f32> {step.fetch = "loss"}) {
  %0 = nn.reduce sum %x [0] : tensor<8xf32> -> tensor<f32>
  %1 = nn.reduce sum %w [0] : tensor<8xf32> -> tensor<f32>
  // expected-error@+1 {{'nn.div' op cannot be re-batched: is a mean over samples of which not all need to count, so that of a mini-batch is not the mean over its micro-batches; --mean-of-microbatches trains with the latter, --microbatches=1 with the former}}
  %2 = nn.div %0, %1 : tensor<f32>
  return %2 : tensor<f32>
}

// -----

func.func @main(%x: tensor<8xf32> {step.batched}) -> (tensor<f32> {step.fetch = "loss"}, tensor<8xf32> {step.fetch = "y"}) {
  %0 = nn.reduce sum %x [0] : tensor<8xf32> -> tensor<f32>
  // expected-error@+1 {{'nn.exp' op cannot be re-batched: computes with a sum over all samples, of which a micro-batch has a part, and is not linear}}
  %1 = nn.exp %0 : tensor<f32>
  // expected-error@+1 {{'nn.mul' op cannot be re-batched: computes with a sum over all samples, of which a micro-batch has a part, and is not linear}}
  %2 = nn.mul %0, %0 : tensor<f32>
  %3 = nn.broadcast %0 [] : tensor<f32> -> tensor<8xf32>
  // expected-error@+1 {{'nn.sub' op cannot be re-batched: combines samples with a sum over all of them}}
  %4 = nn.sub %x, %3 : tensor<8xf32>
  return %1, %4 : tensor<f32>, tensor<8xf32>
}

// -----

// Another output is no loss.
func.func @main(%x: tensor<8xf32> {step.batched}) -> (tensor<f32> {step.fetch = "sum"}) {
  // expected-error@+1 {{cannot be re-batched: gives a sum over all samples as a result}}
  %0 = nn.reduce sum %x [0] : tensor<8xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The largest of a mini-batch is not the sum of those of micro-batches.
func.func @main(%x: tensor<8xf32> {step.batched}) -> (tensor<f32> {step.fetch = "loss"}) {
  // expected-error@+1 {{'nn.reduce' op cannot be re-batched: reduces the axis that holds the samples}}
  %0 = nn.reduce max %x [0] : tensor<8xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// 16 samples: what divides by their number knows another one.
func.func @main(%x: tensor<16xf32> {step.batched}) -> (tensor<f32> {step.fetch = "loss"}) {
  // expected-error@+1 {{'nn.reduce' op cannot be re-batched: reduces the axis that holds the samples}}
  %0 = nn.reduce sum %x [0] : tensor<16xf32> -> tensor<f32>
  return %0 : tensor<f32>
}
