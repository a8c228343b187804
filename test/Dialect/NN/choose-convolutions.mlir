// RUN: pp-opt %s -split-input-file --nn-choose-convolutions | FileCheck %s
// RUN: pp-opt %s -split-input-file --nn-choose-convolutions=convolutions=direct | FileCheck %s --check-prefix=DIRECT
// RUN: pp-opt %s -split-input-file --nn-choose-convolutions=uses=0 | FileCheck %s --check-prefix=PACKED
// RUN: pp-opt %s -split-input-file --nn-choose-convolutions=convolutions=winograd2 | FileCheck %s --check-prefix=SMALL
// RUN: pp-opt %s -split-input-file --nn-choose-convolutions=convolutions=winograd4 | FileCheck %s --check-prefix=LARGE
// RUN: not pp-opt %s -split-input-file --nn-choose-convolutions=uses=-1 2>&1 | FileCheck %s --check-prefix=USES
// RUN: not pp-opt %s -split-input-file --nn-choose-convolutions=short-rate=0.5 2>&1 | FileCheck %s --check-prefix=RATE
// RUN: pp-opt %s -split-input-file -nn-choose-convolutions=short-rate=1 | FileCheck %s --check-prefix=WIDENED
// RUN: pp-opt %s -split-input-file -nn-choose-convolutions=short-rate=8 | FileCheck %s --check-prefix=MATRIX
// RUN: pp-opt %s -split-input-file --nn-choose-convolutions="tile-moves=1 library-gradients=1.5" | FileCheck %s --check-prefix=TILES
// RUN: not pp-opt %s -split-input-file --nn-choose-convolutions=tile-moves=0 2>&1 | FileCheck %s --check-prefix=MOVES
// RUN: pp-opt %s -split-input-file -nn-choose-convolutions=convolutions=winograd2_bf16 | FileCheck %s --check-prefix=FORCED
// RUN: pp-opt %s -split-input-file -nn-choose-convolutions=pair-rate=2 | FileCheck %s --check-prefix=PAIRS
// RUN: not pp-opt %s -split-input-file --nn-choose-convolutions=pair-rate=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: pp-opt %s -split-input-file -nn-choose-convolutions=library-winograd=false | FileCheck %s --check-prefix=OWN --implicit-check-not="algorithm winograd :"
// OWN-COUNT-3: algorithm winograd{{[24]}} :
// NEGATIVE: pair-rate is -1.000000e+00, must be 0 or more
// MOVES: tile-moves is 0.000000e+00, must be more than 0
// USES: uses is -1, must be 0 or more
// RATE: short-rate is 5.000000e-01, must be 1 or more

// Many tiles: the transforms of the weights are worth it.
// DIRECT-NOT: algorithm
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: algorithm winograd :
// Where tiles of our own are as fast, they are taken.
// TILES-LABEL: func.func @main
// TILES-COUNT-3: algorithm winograd4 :
func.func @main(%x: tensor<8x64x56x56xf32>, %w: tensor<64x64x3x3xf32>) -> (tensor<8x64x56x56xf32>, tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32>
  %1 = nn.conv_backward_input %0, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32>
  %2 = nn.conv_backward_weight %x, %0 strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x64x56x56xf32>, tensor<8x64x56x56xf32>) -> tensor<64x64x3x3xf32>
  return %0, %1, %2 : tensor<8x64x56x56xf32>, tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>
}

// -----

// Few tiles and many channels; another kernel, stride or group.
// CHECK-LABEL: func.func @main
// CHECK-NOT: algorithm
func.func @main(%a: tensor<1x512x7x7xf32>, %u: tensor<512x512x3x3xf32>, %x: tensor<8x64x56x56xf32>, %v: tensor<64x64x5x5xf32>, %w: tensor<64x64x3x3xf32>, %g: tensor<64x32x3x3xf32>) -> (tensor<1x512x7x7xf32>, tensor<8x64x56x56xf32>, tensor<8x64x28x28xf32>, tensor<8x64x56x56xf32>) {
  %0 = nn.conv %a, %u strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x512x7x7xf32>, tensor<512x512x3x3xf32>) -> tensor<1x512x7x7xf32>
  %1 = nn.conv %x, %v strides [1, 1] dilations [1, 1] pad [2, 2] x [2, 2] groups 1 : (tensor<8x64x56x56xf32>, tensor<64x64x5x5xf32>) -> tensor<8x64x56x56xf32>
  %2 = nn.conv %x, %w strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x28x28xf32>
  %3 = nn.conv %x, %g strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 2 : (tensor<8x64x56x56xf32>, tensor<64x32x3x3xf32>) -> tensor<8x64x56x56xf32>
  return %0, %1, %2, %3 : tensor<1x512x7x7xf32>, tensor<8x64x56x56xf32>, tensor<8x64x28x28xf32>, tensor<8x64x56x56xf32>
}

// -----

// Few tiles: small ones, whose weights take less, or large ones where they are
// transformed once for all uses. The gradient of the weight has a slower direct
// algorithm.
// CHECK-LABEL: func.func @main
// CHECK: nn.conv %{{.*}} algorithm winograd2
// CHECK: nn.conv_backward_input %{{.*}} algorithm winograd2
// CHECK: nn.conv_backward_weight %{{.*}} algorithm winograd4 :
// PACKED-LABEL: func.func @main
// PACKED-LABEL: func.func @main
// PACKED-LABEL: func.func @main
// PACKED: nn.conv %{{.*}} algorithm winograd4
// PACKED: nn.conv_backward_input %{{.*}} algorithm winograd4
// PACKED: nn.conv_backward_weight %{{.*}} algorithm winograd4 :
// SMALL-LABEL: func.func @main
// SMALL-COUNT-3: algorithm winograd2
// SMALL-NOT: algorithm
// SMALL-LABEL: func.func @main
// SMALL: nn.conv %{{.*}} algorithm winograd2
// SMALL-NOT: algorithm
// SMALL-LABEL: func.func @main
// LARGE-LABEL: func.func @main
// LARGE-COUNT-3: algorithm winograd4
// LARGE-NOT: algorithm
// LARGE-LABEL: func.func @main
// LARGE: nn.conv %{{.*}} algorithm winograd4
// LARGE-NOT: algorithm
// LARGE-LABEL: func.func @main
func.func @main(%x: tensor<2x256x14x14xf32>, %w: tensor<256x256x3x3xf32>) -> (tensor<2x256x14x14xf32>, tensor<2x256x14x14xf32>, tensor<256x256x3x3xf32>) {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x256x14x14xf32>, tensor<256x256x3x3xf32>) -> tensor<2x256x14x14xf32>
  %1 = nn.conv_backward_input %0, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x256x14x14xf32>, tensor<256x256x3x3xf32>) -> tensor<2x256x14x14xf32>
  %2 = nn.conv_backward_weight %x, %0 strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x256x14x14xf32>, tensor<2x256x14x14xf32>) -> tensor<256x256x3x3xf32>
  return %0, %1, %2 : tensor<2x256x14x14xf32>, tensor<2x256x14x14xf32>, tensor<256x256x3x3xf32>
}

// -----

// Fewer: where the weights are transformed once for all uses.
// CHECK-LABEL: func.func @main
// CHECK-NOT: algorithm
// PACKED-LABEL: func.func @main
// PACKED: nn.conv %{{.*}} algorithm winograd2
// PACKED: nn.conv_backward_input %{{.*}} algorithm winograd2
// PACKED: nn.conv_backward_weight
// PACKED-NOT: algorithm
func.func @main(%x: tensor<1x512x7x7xf32>, %w: tensor<512x512x3x3xf32>) -> (tensor<1x512x7x7xf32>, tensor<1x512x7x7xf32>, tensor<512x512x3x3xf32>) {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x512x7x7xf32>, tensor<512x512x3x3xf32>) -> tensor<1x512x7x7xf32>
  %1 = nn.conv_backward_input %0, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x512x7x7xf32>, tensor<512x512x3x3xf32>) -> tensor<1x512x7x7xf32>
  %2 = nn.conv_backward_weight %x, %0 strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x512x7x7xf32>, tensor<1x512x7x7xf32>) -> tensor<512x512x3x3xf32>
  return %0, %1, %2 : tensor<1x512x7x7xf32>, tensor<1x512x7x7xf32>, tensor<512x512x3x3xf32>
}

// -----

// In bf16, tiles of our own, unless the processor is much faster in bf16. The
// library's algorithm where it computes bf16 in f32.
// CHECK-LABEL: func.func @main
// CHECK: nn.conv %{{.*}} algorithm winograd4
// CHECK: nn.conv_backward_weight {{.*}} algorithm winograd4
// PACKED-LABEL: func.func @main
// MATRIX-LABEL: func.func @main
// MATRIX-LABEL: func.func @main
// MATRIX-LABEL: func.func @main
// MATRIX-LABEL: func.func @main
// MATRIX-LABEL: func.func @main
// MATRIX-NOT: algorithm
// WIDENED-LABEL: func.func @main
// WIDENED-LABEL: func.func @main
// WIDENED-LABEL: func.func @main
// WIDENED-LABEL: func.func @main
// WIDENED-LABEL: func.func @main
// WIDENED: nn.conv {{.*}} algorithm winograd4
// WIDENED: nn.conv_backward_weight {{.*}} algorithm winograd
func.func @main(%y: tensor<8x64x56x56xbf16>, %s: tensor<64x64x3x3xbf16>) -> (tensor<8x64x56x56xbf16>, tensor<64x64x3x3xf32>) {
  %0 = nn.conv %y, %s strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x64x56x56xbf16>, tensor<64x64x3x3xbf16>) -> tensor<8x64x56x56xbf16>
  %1 = nn.conv_backward_weight %y, %0 strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x64x56x56xbf16>, tensor<8x64x56x56xbf16>) -> tensor<64x64x3x3xf32>
  return %0, %1 : tensor<8x64x56x56xbf16>, tensor<64x64x3x3xf32>
}

// -----

// The gradient of a weight in tiles, where the library has no fast algorithm.
// CHECK-LABEL: func.func @main
// CHECK: nn.conv_backward_weight {{.*}} algorithm winograd4
// MATRIX-LABEL: func.func @main
// MATRIX-NOT: algorithm
func.func @main(%y: tensor<8x128x28x28xbf16>, %g: tensor<8x128x28x28xbf16>) -> tensor<128x128x3x3xf32> {
  %0 = nn.conv_backward_weight %y, %g strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x128x28x28xbf16>, tensor<8x128x28x28xbf16>) -> tensor<128x128x3x3xf32>
  return %0 : tensor<128x128x3x3xf32>
}

// -----

// Gradients in pairs of bf16, where the processor multiplies such, but no
// values; a single small image is not worth its windows.
// PAIRS-LABEL: func.func @main(%arg0: tensor<8x256x14x14xbf16>
// PAIRS: nn.conv %
// PAIRS-NOT: winograd2_bf16
// PAIRS: nn.conv_backward_input {{.*}} algorithm winograd2_bf16
// PAIRS: nn.conv_backward_weight {{.*}} algorithm winograd2_bf16
// PAIRS: nn.conv_backward_weight
// PAIRS-NOT: algorithm
// FORCED-LABEL: func.func @main(%arg0: tensor<8x256x14x14xbf16>
// FORCED-COUNT-4: algorithm winograd2_bf16
// CHECK-LABEL: func.func @main(%arg0: tensor<8x256x14x14xbf16>
// CHECK-NOT: winograd2_bf16
func.func @main(%x: tensor<8x256x14x14xbf16>, %w: tensor<256x256x3x3xbf16>, %a: tensor<1x512x7x7xbf16>) -> (tensor<8x256x14x14xbf16>, tensor<8x256x14x14xbf16>, tensor<256x256x3x3xf32>, tensor<512x512x3x3xf32>) {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x256x14x14xbf16>, tensor<256x256x3x3xbf16>) -> tensor<8x256x14x14xbf16>
  %1 = nn.conv_backward_input %0, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x256x14x14xbf16>, tensor<256x256x3x3xbf16>) -> tensor<8x256x14x14xbf16>
  %2 = nn.conv_backward_weight %x, %0 strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x256x14x14xbf16>, tensor<8x256x14x14xbf16>) -> tensor<256x256x3x3xf32>
  %3 = nn.conv_backward_weight %a, %a strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<1x512x7x7xbf16>, tensor<1x512x7x7xbf16>) -> tensor<512x512x3x3xf32>
  return %0, %1, %2, %3 : tensor<8x256x14x14xbf16>, tensor<8x256x14x14xbf16>, tensor<256x256x3x3xf32>, tensor<512x512x3x3xf32>
}

// -----

// Sums of whole numbers, which no transform may round.
// CHECK-LABEL: func.func @main
// CHECK-NOT: algorithm
// SMALL-LABEL: func.func @main(%arg0: tensor<8x32x56x56xf32>
// SMALL-NOT: algorithm
// LARGE-LABEL: func.func @main(%arg0: tensor<8x32x56x56xf32>
// LARGE-NOT: algorithm
func.func @main(%x: tensor<8x32x56x56xf32>, %w: tensor<64x32x3x3xf32>) -> tensor<8x64x56x56xf32> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 {nn.exact} : (tensor<8x32x56x56xf32>, tensor<64x32x3x3xf32>) -> tensor<8x64x56x56xf32>
  return %0 : tensor<8x64x56x56xf32>
}
