// RUN: pp-opt %s --nn-assign-layouts="block-size=16 tiles=0" | FileCheck %s --check-prefix=BLOCK
// RUN: pp-opt %s --nn-assign-layouts="block-size=16 tiles=1" | FileCheck %s --check-prefix=LAST

// The library multiplies tiles of channels last, and is faster on blocks where
// the processor has no tiles.
// BLOCK-COUNT-2: layout blocked16
// LAST-COUNT-2: layout channels_last
func.func @main(%x: tensor<8x32x16x16xbf16>, %w: tensor<32x32x3x3xbf16>) -> tensor<8x32x16x16xbf16> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x32x16x16xbf16>, tensor<32x32x3x3xbf16>) -> tensor<8x32x16x16xbf16>
  %1 = nn.conv %0, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x32x16x16xbf16>, tensor<32x32x3x3xbf16>) -> tensor<8x32x16x16xbf16>
  return %1 : tensor<8x32x16x16xbf16>
}
