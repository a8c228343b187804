// RUN: pp-opt %s --nn-lower-kernels | FileCheck %s

// Channels side by side are lanes: 64 and 32 of them at a time, then 8.
// CHECK-LABEL: func.func @kernel_0(%{{.*}}: memref<2x5x104xf32>
// CHECK: scf.for %{{.*}} = %{{.*}} to %c1{{.*}} {
// CHECK: vector.load {{.*}} vector<64xf32>
// CHECK: } {pp.rows}
// CHECK: vector.load {{.*}} vector<32xf32>
// CHECK: } {pp.rows}
// CHECK: vector.load {{.*}} vector<8xf32>
// CHECK: } {pp.rows}
// CHECK-NOT: pp.rows

// Elements side by side are lanes: four sums of 16, one of 16, one number.
// CHECK-LABEL: func.func @kernel_1(%{{.*}}: memref<2x3x83xbf16>
// CHECK-COUNT-8: vector.load {{.*}} vector<16xbf16>
// CHECK: vector.extract_strided_slice {{.*}} : vector<16xf32> to vector<8xf32>
// CHECK: vector.load {{.*}} vector<16xbf16>
// CHECK: memref.load {{.*}} memref<498xbf16>
// CHECK: arith.extf
module {
  func.func @main(%x: tensor<2x5x104xf32> {step.feed = "x"}, %y: tensor<2x3x83xbf16> {step.feed = "y"}, %m: tensor<3xf32> {step.feed = "m"}) -> (tensor<104xf32>, tensor<104xf32>, tensor<3xf32>, tensor<3xf32>) {
    %0:2 = nn.kernel(%a = %x) : (tensor<2x5x104xf32>) -> (tensor<104xf32>, tensor<104xf32>) {
      %1:2 = nn.channel_moments %a layout channels_last : (tensor<2x5x104xf32>) -> (tensor<104xf32>, tensor<104xf32>)
      nn.yield %1#0, %1#1 : tensor<104xf32>, tensor<104xf32>
    }
    %2:2 = nn.kernel(%a = %y, %b = %m) : (tensor<2x3x83xbf16>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
      %1:2 = nn.channel_sums %a, %a, %b : (tensor<2x3x83xbf16>, tensor<2x3x83xbf16>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
      nn.yield %1#0, %1#1 : tensor<3xf32>, tensor<3xf32>
    }
    return %0#0, %0#1, %2#0, %2#1 : tensor<104xf32>, tensor<104xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
