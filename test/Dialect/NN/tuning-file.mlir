// RUN: split-file %s %t
// RUN: pp-opt %t/conv.mlir --nn-choose-convolutions | FileCheck %t/conv.mlir --check-prefix=RULE
// RUN: pp-opt %t/conv.mlir --nn-choose-convolutions=tuning-file=%t/direct.json | FileCheck %t/conv.mlir --check-prefix=DIRECT
// RUN: pp-opt %t/conv.mlir --nn-choose-convolutions=tuning-file=%t/winograd.json | FileCheck %t/conv.mlir --check-prefix=RULE
// RUN: pp-opt %t/conv.mlir --nn-choose-convolutions=tuning-file=%t/small.json | FileCheck %t/conv.mlir --check-prefix=SMALL
// RUN: pp-opt %t/conv.mlir --nn-choose-convolutions="tuning-file=%t/packed.json uses=10" | FileCheck %t/conv.mlir --check-prefix=RULE
// RUN: pp-opt %t/conv.mlir --nn-choose-convolutions="tuning-file=%t/packed.json uses=1" | FileCheck %t/conv.mlir --check-prefix=DIRECT
// RUN: pp-opt %t/conv.mlir --nn-choose-convolutions=tuning-file=%t/half.json | FileCheck %t/conv.mlir --check-prefix=RULE
// RUN: pp-opt %t/conv.mlir --nn-choose-convolutions="convolutions=direct tuning-file=%t/winograd.json" | FileCheck %t/conv.mlir --check-prefix=DIRECT
// RUN: pp-opt %t/short.mlir --nn-choose-convolutions | FileCheck %t/short.mlir --check-prefix=RULE
// RUN: pp-opt %t/short.mlir --nn-choose-convolutions=tuning-file=%t/short.json | FileCheck %t/short.mlir --check-prefix=DIRECT
// RUN: pp-opt %t/layouts.mlir --nn-assign-layouts="block-size=16 tiles=0" | FileCheck %t/layouts.mlir --check-prefix=BLOCKS
// RUN: pp-opt %t/layouts.mlir --nn-assign-layouts="block-size=16 tiles=1" | FileCheck %t/layouts.mlir --check-prefix=LAST
// RUN: pp-opt %t/layouts.mlir --nn-assign-layouts="block-size=16 tiles=1 tuning-file=%t/half.json" | FileCheck %t/layouts.mlir --check-prefix=LAST
// RUN: pp-opt %t/layouts.mlir --nn-assign-layouts="block-size=16 tuning-file=%t/last.json" | FileCheck %t/layouts.mlir --check-prefix=LAST
// RUN: pp-opt %t/layouts.mlir --nn-assign-layouts="block-size=16 tuning-file=%t/plain.json" | FileCheck %t/layouts.mlir --check-prefix=PLAIN
// RUN: pp-opt %t/layouts.mlir --nn-assign-layouts="block-size=16 tuning-file=%t/plain.json bandwidth=1e-6" | FileCheck %t/layouts.mlir --check-prefix=PLAIN
// RUN: pp-opt %t/pack.mlir --nn-pack-weights | FileCheck %t/pack.mlir --check-prefix=RULE
// RUN: pp-opt %t/pack.mlir --nn-pack-weights=tuning-file=%t/pack.json | FileCheck %t/pack.mlir --check-prefix=TIMES
// RUN: pp-opt %t/pack.mlir --nn-pack-weights="tuning-file=%t/pack.json uses=2" | FileCheck %t/pack.mlir --check-prefix=TWICE
// RUN: not pp-opt %t/pack.mlir --nn-pack-weights=tuning-file=%t/mock.json 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not pp-opt %t/layouts.mlir --nn-assign-layouts=tuning-file=%t/none.json 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not pp-opt %t/layouts.mlir --nn-assign-layouts=bandwidth=0 2>&1 | FileCheck %s --check-prefix=BANDWIDTH
// TARGET: cost file '{{.*}}mock.json': its times are those of the target mock, not cpu
// NONE: cannot read cost file '{{.*}}none.json'
// BANDWIDTH: bandwidth must be positive, uses not negative

// By the rates of the options, Winograd's algorithm is faster; measured times
// overrule that where both are there.

//--- conv.mlir
// RULE: algorithm winograd
// SMALL: algorithm winograd2
// DIRECT-LABEL: @main
// DIRECT-NOT: algorithm
func.func @main(%x: tensor<8x64x56x56xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32>
  return %0 : tensor<8x64x56x56xf32>
}
//--- short.mlir
// RULE: algorithm winograd4
// DIRECT-LABEL: @main
// DIRECT-NOT: algorithm
func.func @main(%x: tensor<8x64x56x56xbf16>, %w: tensor<64x64x3x3xbf16>) -> tensor<8x64x56x56xbf16> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x64x56x56xbf16>, tensor<64x64x3x3xbf16>) -> tensor<8x64x56x56xbf16>
  return %0 : tensor<8x64x56x56xbf16>
}
//--- short.json
{"version": 1, "kernels": {
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=bf16xbf16xbf16": 1e-3,
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=bf16xbf16xbf16 layout=blocked16 algorithm=winograd2": 2e-3}}
//--- direct.json
{"version": 1, "kernels": {
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 layout=channels_last": 1e-3,
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0": 3e-3,
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 layout=blocked16 algorithm=winograd": 2e-3}}
//--- small.json
{"version": 1, "kernels": {
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0": 3e-3,
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 layout=blocked16 algorithm=winograd": 2e-3,
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 layout=channels_last algorithm=winograd2": 1e-3}}
//--- winograd.json
{"version": 1, "kernels": {
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 layout=channels_last": 3e-3,
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 layout=blocked16 algorithm=winograd": 2e-3}}
//--- packed.json
{"version": 1, "kernels": {
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0": 3e-3,
 "pack_conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 layout=blocked16 algorithm=winograd packed=589824": 5e-3,
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 layout=blocked16 algorithm=winograd packed=589824": 2e-3}}
//--- half.json
{"version": 1, "kernels": {
 "conv_forward src=8x64x56x56 weights=64x64x3x3 dst=8x64x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0": 1e-9}}
//--- layouts.mlir
// With blocks, channels last and plain measured, the least sum wins; what is
// not measured counts by its bytes. Times of other kernels change nothing.
// BLOCKS: nn.conv {{.*}}layout blocked16
// LAST: nn.conv {{.*}}layout channels_last
// PLAIN-LABEL: @main
// PLAIN-NOT: layout
func.func @main(%x: tensor<8x16x56x56xbf16>, %w: tensor<16x16x3x3xbf16>) -> tensor<8x16x56x56xbf16> {
  %0 = nn.conv %x, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x16x56x56xbf16>, tensor<16x16x3x3xbf16>) -> tensor<8x16x56x56xbf16>
  %1 = nn.conv %0, %w strides [1, 1] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<8x16x56x56xbf16>, tensor<16x16x3x3xbf16>) -> tensor<8x16x56x56xbf16>
  return %1 : tensor<8x16x56x56xbf16>
}
//--- last.json
{"version": 1, "kernels": {
 "conv_forward src=8x16x56x56 weights=16x16x3x3 dst=8x16x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=bf16xbf16xbf16": 9e-2,
 "conv_forward src=8x16x56x56 weights=16x16x3x3 dst=8x16x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=bf16xbf16xbf16 layout=channels_last": 1e-3,
 "conv_forward src=8x16x56x56 weights=16x16x3x3 dst=8x16x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=bf16xbf16xbf16 layout=blocked16": 2e-3}}
//--- plain.json
{"version": 1, "kernels": {
 "conv_forward src=8x16x56x56 weights=16x16x3x3 dst=8x16x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=bf16xbf16xbf16": 1e-3,
 "conv_forward src=8x16x56x56 weights=16x16x3x3 dst=8x16x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=bf16xbf16xbf16 layout=channels_last": 2e-3,
 "conv_forward src=8x16x56x56 weights=16x16x3x3 dst=8x16x56x56 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=bf16xbf16xbf16 layout=blocked16": 3e-3}}
//--- pack.mlir
// The rule packs the larger weight; by its times, it is the smaller one that
// gains, and not so if it is read only twice.
// RULE-NOT: nn.pack %{{.*}}tensor<64x64xf32>
// RULE: nn.pack %{{.*}}tensor<128x96xf32>
// TIMES-NOT: nn.pack %{{.*}}tensor<128x96xf32>
// TIMES: nn.pack %{{.*}}tensor<64x64xf32>
// TWICE-LABEL: @main
// TWICE-NOT: nn.pack
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<128x96xf32>) : tensor<128x96xf32>
  ml_program.global private mutable @v(dense<0.5> : tensor<64x64xf32>) : tensor<64x64xf32>
  func.func @main(%x: tensor<64x128xf32>, %y: tensor<64x64xf32>) -> (tensor<64x96xf32>, tensor<64x64xf32>) {
    %w = nn.parameter @w {step.phase = #step.phase<forward>} : tensor<128x96xf32>
    %v = nn.parameter @v {step.phase = #step.phase<forward>} : tensor<64x64xf32>
    %0 = nn.dot_general %x, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x128xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
    %1 = nn.dot_general %y, %v batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %0, %1 : tensor<64x96xf32>, tensor<64x64xf32>
  }
}
//--- pack.json
{"version": 1, "kernels": {
 "matmul a=64x128 b=128x96 c=64x96 as=128x1 bs=96x1 cs=96x1": 1e-6,
 "matmul a=64x128 b=128x96 c=64x96 as=128x1 bs=96x1 cs=96x1 packed=49152": 2e-6,
 "pack_matmul a=64x128 b=128x96 c=64x96 as=128x1 bs=96x1 cs=96x1 packed=49152": 1e-6,
 "matmul a=64x64 b=64x64 c=64x64 as=64x1 bs=64x1 cs=64x1": 2e-6,
 "matmul a=64x64 b=64x64 c=64x64 as=64x1 bs=64x1 cs=64x1 packed=16384": 1e-6,
 "pack_matmul a=64x64 b=64x64 c=64x64 as=64x1 bs=64x1 cs=64x1 packed=16384": 8e-6}}
//--- mock.json
{"version": 1, "target": "mock", "kernels": {}}
