// One case for each error that a verifier of nn can give.
// RUN: pp-opt %s --verify-diagnostics --split-input-file

//===----------------------------------------------------------------------===//
// #nn.external
//===----------------------------------------------------------------------===//

// expected-error@+1 {{expects a statically shaped tensor type, got 'tensor<?xf32>'}}
ml_program.global private @w(#nn.external<"a.onnx", 0, 16> : tensor<?xf32>) : tensor<?xf32>

// -----

// expected-error@+1 {{expects a file name}}
ml_program.global private @w(#nn.external<"", 0, 16> : tensor<4xf32>) : tensor<4xf32>

// -----

// expected-error@+1 {{has 15 bytes, but 'tensor<4xf32>' takes 16}}
ml_program.global private @w(#nn.external<"a.onnx", 0, 15> : tensor<4xf32>) : tensor<4xf32>

// -----

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error@+1 {{'nn.relu' op operand #0 must be statically shaped ranked tensor of}}
  %0 = nn.relu %x : tensor<?xf32>
  return
}

// -----

func.func @unary_type(%x: tensor<4xi64>) {
  // expected-error@+1 {{'nn.exp' op operand #0 must be}}
  %0 = nn.exp %x : tensor<4xi64>
  return
}

// -----

func.func @binary_types(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  // expected-error@+1 {{requires the same type for all operands and results}}
  %0 = "nn.add"(%x, %y) : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @compare_shape(%x: tensor<4xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %0 = nn.compare lt %x, %x : tensor<4xf32> -> tensor<5xi1>
  return
}

// -----

func.func @select_types(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error@+1 {{failed to verify that all of {whenTrue, whenFalse, output} have same type}}
  %0 = "nn.select"(%c, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @cast_shape(%x: tensor<4xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %0 = nn.cast %x : tensor<4xf32> -> tensor<5xi64>
  return
}

// -----

//===----------------------------------------------------------------------===//
// dot_general
//===----------------------------------------------------------------------===//

func.func @axis_outside(%x: tensor<4x8xf32>, %y: tensor<8x5xf32>) {
  // expected-error@+1 {{'nn.dot_general' op left axis 2 is outside [0, 2)}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [2] x [0] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @axis_negative(%x: tensor<4x8xf32>, %y: tensor<8x5xf32>) {
  // expected-error@+1 {{'nn.dot_general' op right axis -1 is outside [0, 2)}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [-1] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @axis_twice(%x: tensor<4x8xf32>, %y: tensor<8x5xf32>) {
  // expected-error@+1 {{'nn.dot_general' op names left axis 1 twice}}
  %0 = nn.dot_general %x, %y batch [1] x [0] contract [1] x [1] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @batch_count(%x: tensor<4x8xf32>, %y: tensor<8x5xf32>) {
  // expected-error@+1 {{'nn.dot_general' op has 1 batch axes on the left and 0 on the right}}
  %0 = nn.dot_general %x, %y batch [0] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @contracted_size(%x: tensor<4x8xf32>, %y: tensor<8x5xf32>) {
  // expected-error@+1 {{'nn.dot_general' op contracted axes 1 and 1 have sizes 8 and 5}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [1] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @dot_result(%x: tensor<4x8xf32>, %y: tensor<8x5xf32>) {
  // expected-error@+1 {{'nn.dot_general' op computes a tensor of shape [4, 5], but its type says [5, 4]}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<5x4xf32>
  return
}

// -----

func.func @dot_elements(%x: tensor<4x8xf32>, %y: tensor<8x5xf64>) {
  // expected-error@+1 {{'nn.dot_general' op requires the same element type for all operands}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [0] : (tensor<4x8xf32>, tensor<8x5xf64>) -> tensor<4x5xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Convolutions and windows
//===----------------------------------------------------------------------===//

func.func @stride(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{'nn.conv' op needs a positive stride, dilation and kernel and padding that is not negative, all below 2^31, on spatial axis 1}}
  %0 = nn.conv %x, %w strides [1, 0] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x6x6xf32>
  return
}

// -----

func.func @windows(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{'nn.conv' op has 6 windows on spatial axis 0, but its types say 7}}
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x7x6xf32>
  return
}

// -----

func.func @no_window(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x9x3xf32>) {
  // expected-error@+1 {{'nn.conv' op has 0 windows on spatial axis 0, but its types say 1}}
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x8x8xf32>, tensor<6x3x9x3xf32>) -> tensor<2x6x1x6xf32>
  return
}

// -----

func.func @window_rank(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.max_pool' op needs tensors of rank 3, 4 or 5, got 2 and 2}}
  %0 = nn.max_pool %x kernel [] strides [] dilations [] pad [] x [] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @attribute_size(%x: tensor<2x3x8x8xf32>) {
  // expected-error@+1 {{'nn.max_pool' op has an attribute with 1 entries for 2 spatial axes}}
  %0 = nn.max_pool %x kernel [2, 2] strides [2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  return
}

// -----

func.func @samples(%x: tensor<2x3x8x8xf32>) {
  // expected-error@+1 {{'nn.avg_pool' op turns 2 samples into 1}}
  %0 = nn.avg_pool %x kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  return
}

// -----

func.func @channels(%x: tensor<2x3x4x4xf32>) {
  // expected-error@+1 {{'nn.avg_pool_backward' op turns 4 channels into 3}}
  %0 = nn.avg_pool_backward %x kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x4x4xf32>) -> tensor<2x4x8x8xf32>
  return
}

// -----

func.func @whole_window(%x: tensor<2x3x8x8xf32>) {
  // expected-error@+1 {{'nn.max_pool' op pads spatial axis 1 by a whole window}}
  %0 = nn.max_pool %x kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 2] x [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x5xf32>
  return
}

// -----

func.func @backward_type(%x: tensor<2x3x8x8xf32>, %g: tensor<2x3x4x4xf32>) {
  // expected-error@+1 {{'nn.max_pool_backward' op failed to verify that all of {input, output} have same type}}
  %0 = nn.max_pool_backward %x, %g kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x9x9xf32>
  return
}

// -----

func.func @weight_rank(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x3xf32>) {
  // expected-error@+1 {{'nn.conv' op has a weight of rank 3 for an input of rank 4}}
  %0 = nn.conv %x, %w strides [1] dilations [1] pad [0] x [0] groups 1 : (tensor<2x3x8x8xf32>, tensor<6x3x3xf32>) -> tensor<2x6x6x6xf32>
  return
}

// -----

func.func @convolution_rank(%x: tensor<2x3xf32>, %w: tensor<6x3xf32>) {
  // expected-error@+1 {{'nn.conv' op needs tensors of rank 3, 4 or 5, got 2 and 2}}
  %0 = nn.conv %x, %w strides [] dilations [] pad [] x [] groups 1 : (tensor<2x3xf32>, tensor<6x3xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @groups(%x: tensor<2x3x8x8xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{'nn.conv' op has 3 input and 6 output channels, which a weight of shape [6, 3, 3, 3] in 2 groups does not connect}}
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 2 : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x6x6xf32>
  return
}

// -----

// The same checks hold the derivatives together.
func.func @backward_input(%g: tensor<2x6x6x6xf32>, %w: tensor<6x3x3x3xf32>) {
  // expected-error@+1 {{'nn.conv_backward_input' op has 4 input and 6 output channels}}
  %0 = nn.conv_backward_input %g, %w strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x6x6x6xf32>, tensor<6x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  return
}

// -----

func.func @backward_weight(%x: tensor<2x3x8x8xf32>, %g: tensor<2x6x6x6xf32>) {
  // expected-error@+1 {{'nn.conv_backward_weight' op has 7 windows on spatial axis 0, but its types say 6}}
  %0 = nn.conv_backward_weight %x, %g strides [1, 1] dilations [1, 1] pad [0, 0] x [0, 0] groups 1 : (tensor<2x3x8x8xf32>, tensor<2x6x6x6xf32>) -> tensor<6x3x2x3xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Normalisation and losses
//===----------------------------------------------------------------------===//

func.func @softmax_rank(%x: tensor<f32>) {
  // expected-error@+1 {{'nn.softmax' op needs a tensor of rank 1 or more}}
  %0 = nn.softmax %x : tensor<f32>
  return
}

// -----

func.func @layer_norm_scale(%x: tensor<2x8xf32>, %s: tensor<4xf32>, %b: tensor<8xf32>) {
  // expected-error@+1 {{'nn.layer_norm' op needs a scale of shape [8], got [4]}}
  %0:3 = nn.layer_norm %x, %s, %b epsilon 1.0e-5 : (tensor<2x8xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm_shift(%x: tensor<2x8xf32>, %s: tensor<4xf32>, %b: tensor<8xf32>) {
  // expected-error@+1 {{'nn.layer_norm' op needs a shift of shape [8], got [4]}}
  %0:3 = nn.layer_norm %x, %b, %s epsilon 1.0e-5 : (tensor<2x8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm_mean(%x: tensor<2x8xf32>, %b: tensor<8xf32>) {
  // expected-error@+2 {{'nn.layer_norm' op inferred type(s) 'tensor<2x8xf32>', 'tensor<2xf32>', 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2x8xf32>', 'tensor<8xf32>', 'tensor<2xf32>'}}
  // expected-error@+1 {{'nn.layer_norm' op failed to infer returned types}}
  %0:3 = nn.layer_norm %x, %b, %b epsilon 1.0e-5 : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm_rstd(%x: tensor<2x8xf32>, %b: tensor<8xf32>) {
  // expected-error@+2 {{'nn.layer_norm' op inferred type(s) 'tensor<2x8xf32>', 'tensor<2xf32>', 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2x8xf32>', 'tensor<2xf32>', 'tensor<8xf32>'}}
  // expected-error@+1 {{'nn.layer_norm' op failed to infer returned types}}
  %0:3 = nn.layer_norm %x, %b, %b epsilon 1.0e-5 : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<8xf32>)
  return
}

// -----

func.func @layer_norm_gradient(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %m: tensor<2xf32>) {
  // expected-error@+1 {{'nn.layer_norm_backward' op failed to verify that all of {outputGradient, input, output} have same type}}
  %0 = nn.layer_norm_backward %s, %x, %s, %m, %m : (tensor<8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @layer_norm_backward_result(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %m: tensor<2xf32>) {
  // expected-error@+1 {{'nn.layer_norm_backward' op failed to verify that all of {outputGradient, input, output} have same type}}
  %0 = nn.layer_norm_backward %x, %x, %s, %m, %m : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func @batch_norm_rank(%x: tensor<8xf32>) {
  // expected-error@+1 {{'nn.batch_norm' op needs a tensor of rank 2 or more}}
  %0:3 = nn.batch_norm %x, %x, %x epsilon 1.0e-5 : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @batch_norm_variance(%x: tensor<2x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{'nn.batch_norm' op failed to verify that all of {scale, shift, mean, variance} have same type}}
  %0:3 = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<2xf32>)
  return
}

// -----

func.func @batch_norm_backward_rank(%x: tensor<8xf32>) {
  // expected-error@+1 {{'nn.batch_norm_backward' op needs a tensor of rank 2 or more}}
  %0:3 = nn.batch_norm_backward %x, %x, %x, %x, %x epsilon 1.0e-5 : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @channel_moments_rank(%x: tensor<8xf32>) {
  // expected-error@+1 {{'nn.channel_moments' op needs a tensor of rank 2 or more in the layout plain}}
  %0:2 = nn.channel_moments %x : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @channel_moments_channels(%x: tensor<2x3x8xf32>) {
  // expected-error@+1 {{'nn.channel_moments' op needs a mean of shape [3], got [8]}}
  %0:2 = nn.channel_moments %x : (tensor<2x3x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @channel_sums_channels(%x: tensor<2x3x8xf32>, %m: tensor<3xf32>) {
  // expected-error@+1 {{'nn.channel_sums' op needs a mean of shape [8], got [3]}}
  %0:2 = nn.channel_sums %x, %x, %m layout channels_last : (tensor<2x3x8xf32>, tensor<2x3x8xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @channel_sums_types(%x: tensor<2x3x8xf32>, %g: tensor<2x3x8xbf16>, %m: tensor<3xf32>) {
  // expected-error@+1 {{'nn.channel_sums' op failed to verify that all of {gradient, input} have same type}}
  %0:2 = nn.channel_sums %g, %x, %m : (tensor<2x3x8xbf16>, tensor<2x3x8xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @scale_gradient(%x: tensor<2x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{'nn.batch_norm_backward' op failed to verify that all of {mean, variance, scale, scaleGradient, shiftGradient} have same type}}
  %0:3 = nn.batch_norm_backward %x, %x, %s, %s, %s epsilon 1.0e-5 : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<8xf32>)
  return
}

// -----

func.func @shift_gradient(%x: tensor<2x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{'nn.batch_norm_backward' op failed to verify that all of {mean, variance, scale, scaleGradient, shiftGradient} have same type}}
  %0:3 = nn.batch_norm_backward %x, %x, %s, %s, %s epsilon 1.0e-5 : (tensor<2x8xf32>, tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<2xf32>)
  return
}

// -----

func.func @loss_elements(%x: tensor<4x10xf32>, %l: tensor<4xi64>) {
  // expected-error@+2 {{'nn.softmax_cross_entropy' op inferred type(s) 'tensor<f32>', 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<f64>', 'tensor<4xf32>'}}
  // expected-error@+1 {{'nn.softmax_cross_entropy' op failed to infer returned types}}
  %0:2 = nn.softmax_cross_entropy %x, %l : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f64>, tensor<4xf32>)
  return
}

// -----

func.func @labels(%x: tensor<4x10xf32>, %l: tensor<5xi64>) {
  // expected-error@+1 {{'nn.softmax_cross_entropy' op needs a label tensor of shape [4], got [5]}}
  %0:2 = nn.softmax_cross_entropy %x, %l : (tensor<4x10xf32>, tensor<5xi64>) -> (tensor<f32>, tensor<4xf32>)
  return
}

// -----

func.func @loss(%x: tensor<4x10xf32>, %l: tensor<4xi64>) {
  // expected-error@+2 {{'nn.softmax_cross_entropy' op inferred type(s) 'tensor<f32>', 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<1xf32>', 'tensor<4xf32>'}}
  // expected-error@+1 {{'nn.softmax_cross_entropy' op failed to infer returned types}}
  %0:2 = nn.softmax_cross_entropy %x, %l : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<1xf32>, tensor<4xf32>)
  return
}

// -----

func.func @normalizer(%x: tensor<4x10xf32>, %l: tensor<4xi64>) {
  // expected-error@+2 {{'nn.softmax_cross_entropy' op inferred type(s) 'tensor<f32>', 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<f32>', 'tensor<10xf32>'}}
  // expected-error@+1 {{'nn.softmax_cross_entropy' op failed to infer returned types}}
  %0:2 = nn.softmax_cross_entropy %x, %l : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<10xf32>)
  return
}

// -----

func.func @loss_gradient(%x: tensor<4x10xf32>, %l: tensor<4xi64>, %n: tensor<4xf32>) {
  // expected-error@+1 {{'nn.softmax_cross_entropy_backward' op needs a loss gradient of shape [], got [4]}}
  %0 = nn.softmax_cross_entropy_backward %x, %l, %n, %n : (tensor<4x10xf32>, tensor<4xi64>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x10xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Moving elements
//===----------------------------------------------------------------------===//

func.func @iota_axis() {
  // expected-error@+1 {{'nn.iota' op 'axis' 1 is outside [0, 1)}}
  %0 = nn.iota 1 : tensor<4xi64>
  return
}

// -----

func.func @uniform_counter(%c: tensor<3xi32>) {
  // expected-error@+1 {{'nn.uniform' op 'counter' must have 5 elements, got 'tensor<3xi32>'}}
  %0 = nn.uniform %c stream 0 : tensor<3xi32> -> tensor<4xf32>
  return
}

// -----

func.func @uniform_stream(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.uniform' op 'stream' -1 is outside [0, 2^32)}}
  %0 = nn.uniform %c stream -1 : tensor<5xi32> -> tensor<4xf32>
  return
}

// -----

func.func @uniform_samples(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.uniform' op 'samples' must be an axis and two positive factors}}
  %0 = nn.uniform %c stream 0 samples [0, 1] : tensor<5xi32> -> tensor<4xf32>
  return
}

// -----

func.func @uniform_axis(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.uniform' op 'axis' 1 is outside [0, 1)}}
  %0 = nn.uniform %c stream 0 samples [1, 1, 1] : tensor<5xi32> -> tensor<4xf32>
  return
}

// -----

func.func @uniform_factors(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.uniform' op axis 0 of size 8 is not made of 3 x samples x 1}}
  %0 = nn.uniform %c stream 0 samples [0, 3, 1] : tensor<5xi32> -> tensor<8xf32>
  return
}

// -----

func.func @uniform_layout_without_samples(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.uniform' op needs its samples on axis 0 in a layout}}
  %0 = nn.uniform %c stream 0 layout channels_last : tensor<5xi32> -> tensor<2x4x4x8xf32>
  return
}

// -----

func.func @uniform_layout_of_another_shape(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.uniform' op is no tensor in the layout blocked16: 'tensor<2x4x4x8xf32>'}}
  %0 = nn.uniform %c stream 0 samples [0, 1, 1] layout blocked16 : tensor<5xi32> -> tensor<2x4x4x8xf32>
  return
}

// -----

func.func @uniform_elements(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.uniform' op draws 4294967296 numbers for a sample, at most 2^32 - 1 are possible}}
  %0 = nn.uniform %c stream 0 samples [0, 1, 1] : tensor<5xi32> -> tensor<2x65536x65536xf32>
  return
}

// -----

func.func @reshape_elements(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.reshape' op turns 4 elements into 5}}
  %0 = nn.reshape %x : tensor<4xf32> -> tensor<5xf32>
  return
}

// -----

func.func @reshape_type(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.reshape' op turns elements of type 'f32' into 'i32'}}
  %0 = nn.reshape %x : tensor<4xf32> -> tensor<4xi32>
  return
}

// -----

func.func @permutation_size(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.transpose' op 'permutation' has 1 entries for a tensor of rank 2}}
  // expected-error@+1 {{'nn.transpose' op failed to infer returned types}}
  %0 = nn.transpose %x [0] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @permutation(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.transpose' op 'permutation' must name each axis once}}
  // expected-error@+1 {{'nn.transpose' op failed to infer returned types}}
  %0 = nn.transpose %x [1, 1] : tensor<4x8xf32> -> tensor<8x8xf32>
  return
}

// -----

func.func @transpose_shape(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.transpose' op inferred type(s) 'tensor<8x4xf32>' are incompatible with return type(s) of operation 'tensor<4x8xf32>'}}
  // expected-error@+1 {{'nn.transpose' op failed to infer returned types}}
  %0 = nn.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @broadcast_order(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.broadcast' op 'axes' must increase and lie in [0, 2), got 0 after 1}}
  %0 = nn.broadcast %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @broadcast_size(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.broadcast' op axis 0 has size 4, but axis 1 of the result has 8}}
  %0 = nn.broadcast %x [1] : tensor<4xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_limit(%x: tensor<4xf32>) {
  // expected-error@+2 {{'nn.slice' op takes [1, 5) with stride 1 of axis 0, which has size 4}}
  // expected-error@+1 {{'nn.slice' op failed to infer returned types}}
  %0 = nn.slice %x starts [1] limits [5] strides [1] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @slice_stride(%x: tensor<4xf32>) {
  // expected-error@+2 {{'nn.slice' op takes [0, 4) with stride 0 of axis 0, which has size 4}}
  // expected-error@+1 {{'nn.slice' op failed to infer returned types}}
  %0 = nn.slice %x starts [0] limits [4] strides [0] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @slice_starts(%x: tensor<4xf32>) {
  // expected-error@+2 {{'nn.slice' op 'starts' has 2 entries for a tensor of rank 1}}
  // expected-error@+1 {{'nn.slice' op failed to infer returned types}}
  %0 = nn.slice %x starts [0, 0] limits [4] strides [1] : tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

func.func @slice_shape(%x: tensor<4xf32>) {
  // expected-error@+2 {{'nn.slice' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
  // expected-error@+1 {{'nn.slice' op failed to infer returned types}}
  %0 = nn.slice %x starts [0] limits [4] strides [2] : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @pad_negative(%x: tensor<4xf32>) {
  // expected-error@+2 {{'nn.pad' op pads axis 0 by a negative amount}}
  // expected-error@+1 {{'nn.pad' op failed to infer returned types}}
  %0 = nn.pad %x low [0] high [-1] interior [0] : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @pad_shape(%x: tensor<4xf32>) {
  // expected-error@+2 {{'nn.pad' op inferred type(s) 'tensor<8xf32>' are incompatible with return type(s) of operation 'tensor<9xf32>'}}
  // expected-error@+1 {{'nn.pad' op failed to infer returned types}}
  %0 = nn.pad %x low [1] high [0] interior [1] : tensor<4xf32> -> tensor<9xf32>
  return
}

// -----

func.func @concat_nothing() {
  // expected-error@+2 {{'nn.concat' op joins no tensors}}
  // expected-error@+1 {{'nn.concat' op failed to infer returned types}}
  %0 = nn.concat axis 0 : () -> tensor<0xf32>
  return
}

// -----

func.func @concat_axis(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.concat' op 'axis' 2 is outside [0, 2)}}
  // expected-error@+1 {{'nn.concat' op failed to infer returned types}}
  %0 = nn.concat %x, %x axis 2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @concat_operand(%x: tensor<4x8xf32>, %y: tensor<4x9xf32>) {
  // expected-error@+2 {{'nn.concat' op operand #1 has shape [4, 9], which differs from the first's, [4, 8], on another axis than 0}}
  // expected-error@+1 {{'nn.concat' op failed to infer returned types}}
  %0 = nn.concat %x, %y axis 0 : (tensor<4x8xf32>, tensor<4x9xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @concat_shape(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.concat' op inferred type(s) 'tensor<8x8xf32>' are incompatible with return type(s) of operation 'tensor<9x8xf32>'}}
  // expected-error@+1 {{'nn.concat' op failed to infer returned types}}
  %0 = nn.concat %x, %x axis 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<9x8xf32>
  return
}

// -----

func.func @gather_axis(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error@+2 {{'nn.gather' op 'axis' -1 is outside [0, 2)}}
  // expected-error@+1 {{'nn.gather' op failed to infer returned types}}
  %0 = nn.gather %x[%i] axis -1 : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @gather_shape(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error@+2 {{'nn.gather' op inferred type(s) 'tensor<2x8xf32>' are incompatible with return type(s) of operation 'tensor<4x2xf32>'}}
  // expected-error@+1 {{'nn.gather' op failed to infer returned types}}
  %0 = nn.gather %x[%i] axis 0 : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @gather_shared(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>) {
  // expected-error@+2 {{'nn.gather' op 'shared' 2 is outside [0, 1]}}
  // expected-error@+1 {{'nn.gather' op failed to infer returned types}}
  %0 = nn.gather %x[%i] axis 1 shared 2 : (tensor<4x8xf32>, tensor<4x2xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @gather_other_axes(%x: tensor<4x8xf32>, %i: tensor<3x2xi64>) {
  // expected-error@+2 {{'nn.gather' op has indices of shape [3, 2], which do not share 1 axes with [4, 8]}}
  // expected-error@+1 {{'nn.gather' op failed to infer returned types}}
  %0 = nn.gather %x[%i] axis 1 shared 1 : (tensor<4x8xf32>, tensor<3x2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @scatter_result(%x: tensor<4x8xf32>, %i: tensor<2xi64>, %u: tensor<2x8xf32>) {
  // expected-error@+1 {{'nn.scatter' op failed to verify that all of {input, output} have same type}}
  %0 = nn.scatter %u into %x at [%i] axis 0 : (tensor<4x8xf32>, tensor<2xi64>, tensor<2x8xf32>) -> tensor<5x8xf32>
  return
}

// -----

func.func @scatter_updates(%x: tensor<4x8xf32>, %i: tensor<2xi64>, %u: tensor<3x8xf32>) {
  // expected-error@+1 {{'nn.scatter' op needs updates of shape [2, 8], got [3, 8]}}
  %0 = nn.scatter %u into %x at [%i] axis 0 : (tensor<4x8xf32>, tensor<2xi64>, tensor<3x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @scatter_truth(%x: tensor<4x8xi1>, %i: tensor<2xi64>, %u: tensor<2x8xi1>) {
  // expected-error@+1 {{'nn.scatter' op combines truth values, which are no numbers}}
  %0 = nn.scatter %u into %x at [%i] axis 0 combine max : (tensor<4x8xi1>, tensor<2xi64>, tensor<2x8xi1>) -> tensor<4x8xi1>
  return
}

// -----

func.func @cumsum_axis(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.cumsum' op 'axis' 2 is outside [0, 2)}}
  %0 = nn.cumsum %x axis 2 : tensor<4x8xf32>
  return
}

// -----

func.func @top_k_of_scalar(%x: tensor<f32>) {
  // expected-error@+1 {{'nn.top_k' op orders a scalar}}
  %0 = nn.top_k %x : tensor<f32> -> tensor<i64>
  return
}

// -----

func.func @top_k_of_more(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{'nn.top_k' op computes a tensor of shape [4, 8], but its type says [4, 9]}}
  %0 = nn.top_k %x : tensor<4x8xf32> -> tensor<4x9xi64>
  return
}

// -----

func.func @scatter_shape(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{'nn.scatter_add' op needs updates of shape [2, 8], got [4, 8]}}
  %0 = nn.scatter_add %x at [%i] axis 0 : (tensor<2xi64>, tensor<4x8xf32>) -> tensor<10x8xf32>
  return
}

// -----

func.func @reduce_axes(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.reduce' op 'axes' must increase and lie in [0, 2), got 1 after 1}}
  // expected-error@+1 {{'nn.reduce' op failed to infer returned types}}
  %0 = nn.reduce sum %x [1, 1] : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @reduce_shape(%x: tensor<4x8xf32>) {
  // expected-error@+2 {{'nn.reduce' op inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<8xf32>'}}
  // expected-error@+1 {{'nn.reduce' op failed to infer returned types}}
  %0 = nn.reduce sum %x [1] : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

func.func @no_global() {
  // expected-error@+1 {{'nn.parameter' op names @w, which is not an ml_program.global}}
  %0 = nn.parameter @w : tensor<4xf32>
  return
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @parameter_type() {
  // expected-error@+1 {{'nn.parameter' op has type 'tensor<5xf32>', but @w has 'tensor<4xf32>'}}
  %0 = nn.parameter @w : tensor<5xf32>
  return
}

// -----

ml_program.global private @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @constant_global(%g: tensor<4xf32>) {
  // expected-error@+1 {{'nn.accumulate' op changes @w, which is not mutable}}
  nn.accumulate gradient @w, %g : tensor<4xf32>
  return
}

// -----

ml_program.global private mutable @mean(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @commit_symbol() {
  // expected-error@+1 {{'nn.commit_statistics' op names @variance, which is not an ml_program.global}}
  nn.commit_statistics @mean, @variance momentum 0.1 microbatches 1 elements 4
  return
}

// -----

ml_program.global private mutable @mean(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @commit_microbatches() {
  // expected-error@+1 {{attribute 'microbatches' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  nn.commit_statistics @mean, @mean momentum 0.1 microbatches 0 elements 4
  return
}

// -----

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

func.func @kernel_arguments(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.kernel' op has block arguments of other types than its operands}}
  "nn.kernel"(%x) ({
  ^bb0(%a: tensor<5xf32>):
    nn.yield
  }) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @kernel_yield(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.kernel' op yields values of other types than its results}}
  %0 = nn.kernel(%a = %x) : (tensor<4xf32>) -> tensor<5xf32> {
    %1 = nn.relu %a : tensor<4xf32>
    nn.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @kernel_foreign(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.kernel' op contains 'arith.constant', which is not known as part of a kernel}}
  %0 = nn.kernel(%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    %1 = arith.constant 1 : i32
    nn.yield %a : tensor<4xf32>
  }
  return
}

// -----

ml_program.global private @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @kernel_state() {
  // expected-error@+1 {{'nn.kernel' op contains 'nn.parameter', which touches state}}
  %0 = nn.kernel() : () -> tensor<4xf32> {
    %1 = nn.parameter @w : tensor<4xf32>
    nn.yield %1 : tensor<4xf32>
  }
  return
}

// -----

func.func @kernel_mixed(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{'nn.kernel' op mixes a library operation with other operations}}
  %0 = nn.kernel(%a = %x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
    %1 = nn.dot_general %a, %a batch [] x [] contract [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = nn.relu %1 : tensor<4x4xf32>
    nn.yield %2 : tensor<4x4xf32>
  }
  return
}

// -----

// The library takes the factors first.
func.func @kernel_epilogue_order(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) {
  // expected-error@+1 {{'nn.kernel' op mixes a library operation with other operations}}
  %0 = nn.kernel(%a = %b, %c = %x, %d = %w) : (tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> {
    %1 = nn.dot_general %c, %d batch [] x [] contract [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = nn.broadcast %a [1] : tensor<4xf32> -> tensor<4x4xf32>
    %3 = nn.add %1, %2 : tensor<4x4xf32>
    nn.yield %3 : tensor<4x4xf32>
  }
  return
}

// -----

func.func @yield_parent(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.yield' op expects parent op 'nn.kernel'}}
  nn.yield %x : tensor<4xf32>
}

// -----

func.func @dot_types(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) {
  // expected-error @+1 {{'nn.dot_general' op turns factors of type 'f32' into a result of type 'bf16'}}
  %0 = nn.dot_general %x, %y batch [] x [] contract [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xbf16>
  return
}

// -----

func.func @short_arithmetic(%x: tensor<2xbf16>) {
  // expected-error @+1 {{operand #0 must be statically shaped ranked tensor of 32-bit float or 64-bit float values, but got 'tensor<2xbf16>'}}
  %0 = nn.exp %x : tensor<2xbf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

func.func @attention_rank(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<6x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op needs a value of rank 4, got 3}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<6x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_axes(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op has axes [0, 1, 1, 3] of the key, expected the numbers 0 to 3 in some order}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 1, 3], %v [0, 1, 2, 3] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_axes_count(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op has axes [0, 1, 2] of the query, expected the numbers 0 to 3 in some order}}
  %0:2 = nn.attention %q [0, 1, 2], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_scale(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op needs a finite scale}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 0x7FF0000000000000  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_key(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x9xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op needs the batch x head x row x column of the key to be [2, 3, 7, 8], got [2, 3, 7, 9]}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x9xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_value(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op needs the batch x head x row x column of the value to be [2, 3, 7, 7], got [2, 3, 4, 7]}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 3, 2] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_output(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op needs the batch x head x row x column of the output to be [2, 3, 5, 4], got [2, 3, 5, 8]}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_mask_rows(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>, %m: tensor<2x3x4x7xf32>) {
  // expected-error@+1 {{'nn.attention' op needs a mask of shape [2, 3, 5, 7], or with 1 for any of the first three, got [2, 3, 4, 7]}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] mask %m scale 1.0 output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>, tensor<2x3x4x7xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_mask_columns(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>, %m: tensor<2x3x5x1xf32>) {
  // expected-error@+1 {{'nn.attention' op needs a mask of shape [2, 3, 5, 7], or with 1 for any of the first three, got [2, 3, 5, 1]}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] mask %m scale 1.0 output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>, tensor<2x3x5x1xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_mask_rank(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>, %m: tensor<3x5x7xf32>) {
  // expected-error@+1 {{'nn.attention' op needs a mask of shape [2, 3, 5, 7], or with 1 for any of the first three, got [3, 5, 7]}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] mask %m scale 1.0 output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>, tensor<3x5x7xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_zeroed(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op is zeroed without a mask}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] zeroed scale 1.0 output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_causal(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op is causal with 5 rows of the query and 7 of the key}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 1.0 causal output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_types(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xbf16>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op needs one element type, got 'f32' and 'bf16'}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xbf16>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_logsumexp(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{'nn.attention' op needs a logsumexp of shape [2, 3, 5], got [2, 3, 7]}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf32>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x7xf32>)
  return
}

// -----

func.func @attention_wide(%q: tensor<2x3x5x8xf64>, %k: tensor<2x3x7x8xf32>, %v: tensor<2x3x7x4xf32>) {
  // expected-error@+1 {{must be statically shaped ranked tensor of 32-bit float or bfloat16 type or 16-bit float values, but got 'tensor<2x3x5x8xf64>'}}
  %0:2 = nn.attention %q [0, 1, 2, 3], %k [0, 1, 2, 3], %v [0, 1, 2, 3] scale 1.0  output [0, 1, 2, 3] : (tensor<2x3x5x8xf64>, tensor<2x3x7x8xf32>, tensor<2x3x7x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5xf32>)
  return
}

// -----

func.func @attention_gradient(%q: tensor<2x3x5x8xf32>, %l: tensor<2x3x5xf32>, %g: tensor<2x3x5x8xbf16>) {
  // expected-error@+1 {{'nn.attention_backward' op has a gradient of the output of type 'tensor<2x3x5x8xbf16>' for one of type 'tensor<2x3x5x8xf32>'}}
  %0:3 = nn.attention_backward %q [0, 1, 2, 3], %q [0, 1, 2, 3], %q [0, 1, 2, 3], %q [0, 1, 2, 3], %l, %g scale 1.0 : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5xf32>, tensor<2x3x5x8xbf16>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>)
  return
}

// -----

func.func @attention_result(%q: tensor<2x3x5x8xf32>, %l: tensor<2x3x5xf32>) {
  // expected-error@+1 {{'nn.attention_backward' op has a gradient of the key of type 'tensor<2x3x8x5xf32>' for one of type 'tensor<2x3x5x8xf32>'}}
  %0:3 = nn.attention_backward %q [0, 1, 2, 3], %q [0, 1, 2, 3], %q [0, 1, 2, 3], %q [0, 1, 2, 3], %l, %q scale 1.0 : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>, tensor<2x3x5xf32>, tensor<2x3x5x8xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x8x5xf32>, tensor<2x3x5x8xf32>)
  return
}

// -----

func.func @unknown_attribute(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an unknown attribute 'nn.trainde'}}
  %0 = nn.relu %x {nn.trainde} : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{'ml_program.global' op has an attribute 'nn.reason' that is not a string}}
ml_program.global private @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32> {nn.reason = 1}

// -----

func.func @unknown_step_attribute(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an unknown attribute 'step.stage'}}
  %0 = nn.relu %x {step.stage = 1} : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{'func.func' op has an attribute 'step.range' on an argument that is not an array of pairs of numbers}}
func.func @range(%x: tensor<4xi64> {step.range = array<i64: 0>}) {
  return
}

// -----

// expected-error@+1 {{'func.func' op has an attribute 'step.samples' on a result that is not [axis, outer, inner]}}
func.func @samples(%x: tensor<4xf32>) -> (tensor<4xf32> {step.samples = array<i64: 0, 0, 1>}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+2 {{scalar "lr" of kind 'value' needs a number}}
// expected-error@+1 {{failed to parse Step_OptimizerAttr parameter 'scalars'}}
func.func @scalar() attributes {step.optimizer = #step.optimizer<"sgd", states = [], scalars = [#step.scalar<"lr", value>]>} {
  return
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @kernel_statistics(%x: tensor<4xf32>) {
  nn.kernel(%a = %x) : (tensor<4xf32>) -> () {
    %0 = nn.exp %a : tensor<4xf32>
    // expected-error@+1 {{'nn.accumulate' op adds to statistics, which no kernel does}}
    nn.accumulate statistics @w, %0 : tensor<4xf32>
    nn.yield
  }
  return
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @kernel_accumulation(%x: tensor<4xf32>) {
  nn.kernel(%a = %x) : (tensor<4xf32>) -> () {
    // expected-error@+1 {{'nn.accumulate' op adds what is not a sum, a product or elementwise, or what something else reads too}}
    nn.accumulate gradient @w, %a : tensor<4xf32>
    nn.yield
  }
  return
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<4xf32>) : tensor<4xf32>
func.func @kernel_accumulates_twice(%x: tensor<4xf32>) {
  nn.kernel(%a = %x) : (tensor<4xf32>) -> () {
    %0 = nn.exp %a : tensor<4xf32>
    %1 = nn.neg %a : tensor<4xf32>
    // expected-error@+1 {{'nn.accumulate' op adds to @w, as another operation of the kernel does}}
    nn.accumulate gradient @w, %0 : tensor<4xf32>
    nn.accumulate gradient @w, %1 : tensor<4xf32>
    nn.yield
  }
  return
}

// -----

// expected-error@+1 {{has 64 bytes, too few for 'tensor<8x4xf32>'}}
func.func private @packed_bytes(tensor<8x4xf32, #nn.packed<"matmul a=2x8 b=8x4 c=2x4", 64>>)

// -----

// expected-error@+1 {{expects the descriptor of a product or a convolution, got "pack a=2x8"}}
func.func private @packed_descriptor(tensor<8x4xf32, #nn.packed<"pack a=2x8", 128>>)

// -----

func.func @packed_for_another(%x: tensor<2x8xf32>, %w: tensor<8x4xf32, #nn.packed<"matmul a=4x8 b=8x4 c=4x4", 128>>) {
  // expected-error@+1 {{'nn.dot_general' op is 'matmul a=2x8 b=8x4 c=2x4 as=8x1 bs=4x1 cs=4x1', but its right factor is packed for "matmul a=4x8 b=8x4 c=4x4"}}
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<2x8xf32>, tensor<8x4xf32, #nn.packed<"matmul a=4x8 b=8x4 c=4x4", 128>>) -> tensor<2x4xf32>
  return
}

// -----

func.func @packed_left(%x: tensor<2x8xf32, #nn.packed<"matmul a=2x8 b=8x4 c=2x4", 128>>, %w: tensor<8x4xf32>) {
  // expected-error@+1 {{'nn.dot_general' op has a packed tensor that is not its right factor}}
  %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] : (tensor<2x8xf32, #nn.packed<"matmul a=2x8 b=8x4 c=2x4", 128>>, tensor<8x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @pack_shape(%w: tensor<8x4xf32>) {
  // expected-error@+1 {{'nn.pack' op packs a 'tensor<8x4xf32>' as a 'tensor<4x8xf32, #nn.packed<"matmul a=2x8 b=8x4 c=2x4", 128>>'}}
  %0 = nn.pack %w : tensor<8x4xf32> -> tensor<4x8xf32, #nn.packed<"matmul a=2x8 b=8x4 c=2x4", 128>>
  return
}

// -----

func.func @pack_plain(%w: tensor<8x4xf32>) {
  // expected-error@+1 {{'nn.pack' op needs a row-major operand and a packed result}}
  %0 = nn.pack %w : tensor<8x4xf32> -> tensor<8x4xf32>
  return
}

// -----

func.func @packed_elsewhere(%w: tensor<8x4xf32, #nn.packed<"matmul a=2x8 b=8x4 c=2x4", 128>>) {
  %0 = nn.kernel(%a = %w) : (tensor<8x4xf32, #nn.packed<"matmul a=2x8 b=8x4 c=2x4", 128>>) -> tensor<8x4xbf16> {
    // expected-error@+1 {{'nn.cast' op reads a packed tensor, which only products and convolutions do}}
    %1 = nn.cast %a : tensor<8x4xf32, #nn.packed<"matmul a=2x8 b=8x4 c=2x4", 128>> -> tensor<8x4xbf16>
    nn.yield %1 : tensor<8x4xbf16>
  }
  return
}

// -----

func.func @batch_norm_types(%x: tensor<2x8xf16>, %s: tensor<8xf32>) {
  // expected-error@+1 {{'nn.batch_norm' op needs one type for all its tensors, or bf16 for images and f32 for channels}}
  %0:3 = nn.batch_norm %x, %s, %s epsilon 1.0e-5 : (tensor<2x8xf16>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8xf16>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @bitcast_widths(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.bitcast' op reads 'f32' as 'i64', which has another number of bits}}
  %0 = nn.bitcast %x : tensor<4xf32> -> tensor<4xi64>
  return
}

// -----

func.func @present_rows_counter(%c: tensor<4xi32>) {
  // expected-error@+1 {{'nn.present_rows' op 'counter' must have 5 elements, got 'tensor<4xi32>'}}
  %0 = nn.present_rows %c samples 2 rows 1 : tensor<4xi32> -> tensor<i32>
  return
}

// -----

func.func @present_rows_samples(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.present_rows' op needs positive numbers of samples and rows}}
  %0 = nn.present_rows %c samples 0 rows 1 : tensor<5xi32> -> tensor<i32>
  return
}

// -----

func.func @present_rows_result(%c: tensor<5xi32>) {
  // expected-error@+1 {{'nn.present_rows' op gives one number, not 'tensor<1xi32>'}}
  %0 = nn.present_rows %c samples 2 rows 1 : tensor<5xi32> -> tensor<1xi32>
  return
}

// -----

func.func @batch_norm_rows(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %r: tensor<2xi32>) {
  // expected-error@+1 {{'nn.batch_norm' op needs a number of rows of shape [], got [2]}}
  %0:3 = nn.batch_norm %x, %s, %s rows %r epsilon 1.0e-5 : (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<2xi32>) -> (tensor<2x8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @channel_moments_rows(%x: tensor<2x8xf32>, %r: tensor<2xi32>) {
  // expected-error@+1 {{'nn.channel_moments' op needs a number of rows of shape [], got [2]}}
  %0:2 = nn.channel_moments %x rows %r : (tensor<2x8xf32>, tensor<2xi32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @ctc_loss_labels(%p: tensor<2x5x4xf32>, %l: tensor<3x3xi64>) {
  // expected-error@+1 {{'nn.ctc_loss' op needs samples x frames x classes and samples x labels, got [2, 5, 4] and [3, 3]}}
  %0:2 = nn.ctc_loss %p, %l blank 0 : (tensor<2x5x4xf32>, tensor<3x3xi64>) -> (tensor<2xf32>, tensor<2x5x7xf32>)
  return
}

// -----

func.func @ctc_loss_blank(%p: tensor<2x5x4xf32>, %l: tensor<2x3xi64>) {
  // expected-error@+1 {{'nn.ctc_loss' op has 4 classes, and 4 as the blank one}}
  %0:2 = nn.ctc_loss %p, %l blank 4 : (tensor<2x5x4xf32>, tensor<2x3xi64>) -> (tensor<2xf32>, tensor<2x5x7xf32>)
  return
}

// -----

func.func @ctc_loss_alphas(%p: tensor<2x5x4xf32>, %l: tensor<2x3xi64>) {
  // expected-error@+1 {{'nn.ctc_loss' op needs a tensor of alphas of shape [2, 5, 7], got [2, 5, 3]}}
  %0:2 = nn.ctc_loss %p, %l blank 0 : (tensor<2x5x4xf32>, tensor<2x3xi64>) -> (tensor<2xf32>, tensor<2x5x3xf32>)
  return
}

// -----

ml_program.global private mutable @w(dense<0.0> : tensor<6x3xf32>) : tensor<6x3xf32>
func.func @kernel_scatters_between(%g: tensor<4x3xf32>, %i: tensor<4xi64>) {
  nn.kernel(%a = %g, %b = %i) : (tensor<4x3xf32>, tensor<4xi64>) -> () {
    %0 = nn.exp %a : tensor<4x3xf32>
    %1 = nn.scatter_add %0 at [%b] axis 0 : (tensor<4xi64>, tensor<4x3xf32>) -> tensor<6x3xf32>
    // expected-error@+1 {{adds what is not a sum, a product or elementwise}}
    nn.accumulate gradient @w, %1 : tensor<6x3xf32>
    nn.yield
  }
  return
}

// -----

func.func @integer_panels(%x: tensor<8x30xui8>, %w: tensor<1x8x64x4xi8>) {
  // expected-error@+1 {{'nn.integer_product' op needs panels of shape [2, 8, 64, 4], not [1, 8, 64, 4]}}
  %0 = nn.integer_product %x, %w : (tensor<8x30xui8>, tensor<1x8x64x4xi8>) -> tensor<8x100xi32>
  return
}

// -----

func.func @integer_rows(%x: tensor<8x30xui8>, %w: tensor<2x8x64x4xi8>) {
  // expected-error@+1 {{'nn.integer_product' op computes a row for each row of [8, 30], but its type says [7, 100]}}
  %0 = nn.integer_product %x, %w : (tensor<8x30xui8>, tensor<2x8x64x4xi8>) -> tensor<7x100xi32>
  return
}

// -----

func.func @block_columns(%a: tensor<8x60xf32>, %b: tensor<100x1x16xui8>, %s: tensor<100x1xf32>) {
  // expected-error@+1 {{'nn.block_product' op takes no blocks of shape [100, 1, 16] for 100 columns of 60 numbers}}
  %0 = nn.block_product %a, %b, %s : (tensor<8x60xf32>, tensor<100x1x16xui8>, tensor<100x1xf32>) -> tensor<8x100xf32>
  return
}

// -----

func.func @block_scales(%a: tensor<8x60xf32>, %b: tensor<100x2x16xui8>, %s: tensor<100x1xf32>) {
  // expected-error@+1 {{'nn.block_product' op needs scales of shape [100, 2]}}
  %0 = nn.block_product %a, %b, %s : (tensor<8x60xf32>, tensor<100x2x16xui8>, tensor<100x1xf32>) -> tensor<8x100xf32>
  return
}

// -----

func.func @block_zeros(%a: tensor<8x60xf32>, %b: tensor<100x2x16xui8>, %s: tensor<100x2xf32>, %z: tensor<100x2xui8>) {
  // expected-error@+1 {{'nn.block_product' op needs zero points of shape [100, 1]}}
  %0 = nn.block_product %a, %b, %s, %z : (tensor<8x60xf32>, tensor<100x2x16xui8>, tensor<100x2xf32>, tensor<100x2xui8>) -> tensor<8x100xf32>
  return
}
