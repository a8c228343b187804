// RUN: pp-opt %s --nn-pack-weights=mode=always | FileCheck %s
// RUN: pp-opt %s --nn-pack-weights | FileCheck %s --check-prefix=AUTO
// RUN: pp-opt %s --nn-pack-weights=uses=1 | FileCheck %s --check-prefix=NEVER --implicit-check-not=#nn.pack
// RUN: pp-opt %s --nn-pack-weights=mode=never | FileCheck %s --check-prefix=NEVER --implicit-check-not=#nn.pack
// RUN: not pp-opt %s --nn-pack-weights=uses=-1 2>&1 | FileCheck %s --check-prefix=USES

// Forward and backward products have copies of their own; a prepared value is
// packed as a parameter is.
// CHECK: %[[W:.+]] = nn.parameter @w
// CHECK: %[[P:.+]] = nn.pack %[[W]] {step.phase = #step.phase<prepare>} : tensor<128x96xf32> -> tensor<128x96xf32, #nn.packed<"matmul a=64x128 b=128x96 c=64x96 as=128x1 bs=96x1 cs=96x1", [[BYTES:[0-9]+]]>>
// CHECK: nn.dot_general %arg0, %[[P]]
// CHECK: %[[Q:.+]] = nn.pack %[[W]] {{.*}}"matmul a=64x96 b=96x128 c=64x128 as=96x1 bs=1x96 cs=128x1"
// CHECK: nn.dot_general %{{.+}}, %[[Q]]
// CHECK: %[[V:.+]] = nn.cast {{.*}}#step.phase<prepare>
// CHECK: %[[R:.+]] = nn.pack %[[V]] {{.*}} types=bf16xbf16xbf16
// CHECK: nn.dot_general %{{.+}}, %[[R]]

// A parameter that two forward operations read may be borrowed, and a product
// of two activations has no weight.
// CHECK-NOT: = nn.pack
// CHECK: return

// Small weights stay in the cache.
// AUTO: nn.pack {{.*}}tensor<128x96xf32>
// AUTO: nn.pack {{.*}}tensor<128x96xf32>
// AUTO-NOT: = nn.pack
// NEVER: nn.dot_general
// USES: uses is -1, must be 0 or more
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<128x96xf32>) : tensor<128x96xf32>
  ml_program.global private mutable @v(dense<0.5> : tensor<64x64xf32>) : tensor<64x64xf32>
  ml_program.global private mutable @table(dense<0.5> : tensor<512x64xf32>) : tensor<512x64xf32>
  func.func @main(%x: tensor<64x128xf32> {step.feed = "x"}, %z: tensor<64x64xbf16> {step.feed = "z"}, %i: tensor<64xi64> {step.feed = "i"}) -> (tensor<64x128xf32>, tensor<64x64xbf16>, tensor<64x512xf32>, tensor<64x64xbf16>) {
    %w = nn.parameter @w : tensor<128x96xf32>
    %y = nn.dot_general %x, %w batch [] x [] contract [1] x [0] {step.phase = #step.phase<forward>} : (tensor<64x128xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
    %d = nn.dot_general %y, %w batch [] x [] contract [1] x [1] {step.phase = #step.phase<backward_input>} : (tensor<64x96xf32>, tensor<128x96xf32>) -> tensor<64x128xf32>
    %v = nn.parameter @v : tensor<64x64xf32>
    %v16 = nn.cast %v {step.phase = #step.phase<prepare>} : tensor<64x64xf32> -> tensor<64x64xbf16>
    %u = nn.dot_general %z, %v16 batch [] x [] contract [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %table = nn.parameter @table : tensor<512x64xf32>
    %t = nn.gather %table[%i] axis 0 : (tensor<512x64xf32>, tensor<64xi64>) -> tensor<64x64xf32>
    %l = nn.dot_general %t, %table batch [] x [] contract [1] x [1] : (tensor<64x64xf32>, tensor<512x64xf32>) -> tensor<64x512xf32>
    %s = nn.dot_general %u, %z batch [] x [] contract [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    return %d, %u, %l, %s : tensor<64x128xf32>, tensor<64x64xbf16>, tensor<64x512xf32>, tensor<64x64xbf16>
  }
}
