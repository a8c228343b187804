// Every operation prints what it parses, in the custom and the generic form.
// RUN: pp-opt %s | pp-opt | FileCheck %s
// RUN: pp-opt %s --mlir-print-op-generic | pp-opt | FileCheck %s

ml_program.global private mutable @weight(#nn.external<"model.onnx", 1024, 160> : tensor<10x4xf32>) : tensor<10x4xf32> {nn.trained}
ml_program.global private mutable @mean(dense<0.000000e+00> : tensor<3xf32>) : tensor<3xf32>
ml_program.global private mutable @variance(dense<1.000000e+00> : tensor<3xf32>) : tensor<3xf32>

// CHECK: ml_program.global private mutable @weight(#nn.external<"model.onnx", 1024, 160> : tensor<10x4xf32>) : tensor<10x4xf32> {nn.trained}

// CHECK-LABEL: func.func @unary(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}}, %[[B:[^:]+]]: {{[^,)]+}})
func.func @unary(%x: tensor<4x8xf32>, %b: tensor<4x8xi1>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.neg %[[X]] : tensor<4x8xf32>
  %0 = nn.neg %x : tensor<4x8xf32>
  // CHECK: %[[V1:[^ :,]+]] = nn.abs %[[X]] : tensor<4x8xf32>
  %1 = nn.abs %x : tensor<4x8xf32>
  // CHECK: %[[V2:[^ :,]+]] = nn.sign %[[X]] : tensor<4x8xf32>
  %2 = nn.sign %x : tensor<4x8xf32>
  // CHECK: %[[V3:[^ :,]+]] = nn.floor %[[X]] : tensor<4x8xf32>
  %3 = nn.floor %x : tensor<4x8xf32>
  // CHECK: %[[V4:[^ :,]+]] = nn.ceil %[[X]] : tensor<4x8xf32>
  %4 = nn.ceil %x : tensor<4x8xf32>
  // CHECK: %[[V5:[^ :,]+]] = nn.exp %[[X]] : tensor<4x8xf32>
  %5 = nn.exp %x : tensor<4x8xf32>
  // CHECK: %[[V6:[^ :,]+]] = nn.log %[[X]] : tensor<4x8xf32>
  %6 = nn.log %x : tensor<4x8xf32>
  // CHECK: %[[V7:[^ :,]+]] = nn.sqrt %[[X]] : tensor<4x8xf32>
  %7 = nn.sqrt %x : tensor<4x8xf32>
  // CHECK: %[[V8:[^ :,]+]] = nn.rsqrt %[[X]] : tensor<4x8xf32>
  %8 = nn.rsqrt %x : tensor<4x8xf32>
  // CHECK: %[[V9:[^ :,]+]] = nn.sin %[[X]] : tensor<4x8xf32>
  %9 = nn.sin %x : tensor<4x8xf32>
  // CHECK: %[[V10:[^ :,]+]] = nn.cos %[[X]] : tensor<4x8xf32>
  %10 = nn.cos %x : tensor<4x8xf32>
  // CHECK: %[[V11:[^ :,]+]] = nn.tanh %[[X]] : tensor<4x8xf32>
  %11 = nn.tanh %x : tensor<4x8xf32>
  // CHECK: %[[V12:[^ :,]+]] = nn.logistic %[[X]] : tensor<4x8xf32>
  %12 = nn.logistic %x : tensor<4x8xf32>
  // CHECK: nn.softplus %[[X]] : tensor<4x8xf32>
  %softplus = nn.softplus %x : tensor<4x8xf32>
  // CHECK: %[[V13:[^ :,]+]] = nn.erf %[[X]] : tensor<4x8xf32>
  %13 = nn.erf %x : tensor<4x8xf32>
  // CHECK: %[[V14:[^ :,]+]] = nn.relu %[[X]] : tensor<4x8xf32>
  %14 = nn.relu %x : tensor<4x8xf32>
  // CHECK: %[[V15:[^ :,]+]] = nn.gelu %[[X]] : tensor<4x8xf32>
  %15 = nn.gelu %x : tensor<4x8xf32>
  // CHECK: %[[T:[^ :,]+]] = nn.gelu %[[X]] approximate : tensor<4x8xf32>
  %t = nn.gelu %x approximate : tensor<4x8xf32>
  // CHECK: %[[N:[^ :,]+]] = nn.not %[[B]] : tensor<4x8xi1>
  %n = nn.not %b : tensor<4x8xi1>
  return
}

// CHECK-LABEL: func.func @binary(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}}, %[[Y:[^:]+]]: {{[^,)]+}}, %[[B:[^:]+]]: {{[^,)]+}})
func.func @binary(%x: tensor<4xf32>, %y: tensor<4xf32>, %b: tensor<4xi1>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.add %[[X]], %[[Y]] : tensor<4xf32>
  %0 = nn.add %x, %y : tensor<4xf32>
  // CHECK: %[[V1:[^ :,]+]] = nn.sub %[[X]], %[[Y]] : tensor<4xf32>
  %1 = nn.sub %x, %y : tensor<4xf32>
  // CHECK: %[[V2:[^ :,]+]] = nn.mul %[[X]], %[[Y]] : tensor<4xf32>
  %2 = nn.mul %x, %y : tensor<4xf32>
  // CHECK: %[[V3:[^ :,]+]] = nn.div %[[X]], %[[Y]] : tensor<4xf32>
  %3 = nn.div %x, %y : tensor<4xf32>
  // CHECK: %[[V4:[^ :,]+]] = nn.pow %[[X]], %[[Y]] : tensor<4xf32>
  %4 = nn.pow %x, %y : tensor<4xf32>
  // CHECK: %[[V5:[^ :,]+]] = nn.maximum %[[X]], %[[Y]] : tensor<4xf32>
  %5 = nn.maximum %x, %y : tensor<4xf32>
  // CHECK: %[[V6:[^ :,]+]] = nn.minimum %[[X]], %[[Y]] : tensor<4xf32>
  %6 = nn.minimum %x, %y : tensor<4xf32>
  // CHECK: %[[P:[^ :,]+]] = nn.and %[[B]], %[[B]] : tensor<4xi1>
  %p = nn.and %b, %b : tensor<4xi1>
  // CHECK: %[[Q:[^ :,]+]] = nn.or %[[B]], %[[B]] : tensor<4xi1>
  %q = nn.or %b, %b : tensor<4xi1>
  // CHECK: %[[R:[^ :,]+]] = nn.xor %[[B]], %[[B]] : tensor<4xi1>
  %r = nn.xor %b, %b : tensor<4xi1>
  return
}

// CHECK-LABEL: func.func @integers(
// CHECK-SAME: %[[I:[^:]+]]: {{[^,)]+}}, %[[J:[^:]+]]: {{[^,)]+}})
func.func @integers(%i: tensor<4xi64>, %j: tensor<4xi32>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.neg %[[I]] : tensor<4xi64>
  %0 = nn.neg %i : tensor<4xi64>
  // CHECK: %[[V1:[^ :,]+]] = nn.abs %[[J]] : tensor<4xi32>
  %1 = nn.abs %j : tensor<4xi32>
  // CHECK: %[[V2:[^ :,]+]] = nn.add %[[I]], %[[I]] : tensor<4xi64>
  %2 = nn.add %i, %i : tensor<4xi64>
  // CHECK: %[[V3:[^ :,]+]] = nn.div %[[J]], %[[J]] : tensor<4xi32>
  %3 = nn.div %j, %j : tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @compare_select_cast(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}}, %[[Y:[^:]+]]: {{[^,)]+}})
func.func @compare_select_cast(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.compare eq %[[X]], %[[Y]] : tensor<4xf32> -> tensor<4xi1>
  %0 = nn.compare eq %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[V1:[^ :,]+]] = nn.compare ne %[[X]], %[[Y]] : tensor<4xf32> -> tensor<4xi1>
  %1 = nn.compare ne %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[V2:[^ :,]+]] = nn.compare lt %[[X]], %[[Y]] : tensor<4xf32> -> tensor<4xi1>
  %2 = nn.compare lt %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[V3:[^ :,]+]] = nn.compare le %[[X]], %[[Y]] : tensor<4xf32> -> tensor<4xi1>
  %3 = nn.compare le %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[V4:[^ :,]+]] = nn.compare gt %[[X]], %[[Y]] : tensor<4xf32> -> tensor<4xi1>
  %4 = nn.compare gt %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[V5:[^ :,]+]] = nn.compare ge %[[X]], %[[Y]] : tensor<4xf32> -> tensor<4xi1>
  %5 = nn.compare ge %x, %y : tensor<4xf32> -> tensor<4xi1>
  // CHECK: %[[S:[^ :,]+]] = nn.select %[[V0]], %[[X]], %[[Y]] : tensor<4xi1>, tensor<4xf32>
  %s = nn.select %0, %x, %y : tensor<4xi1>, tensor<4xf32>
  // CHECK: %[[C:[^ :,]+]] = nn.cast %[[X]] : tensor<4xf32> -> tensor<4xi64>
  %c = nn.cast %x : tensor<4xf32> -> tensor<4xi64>
  return
}

// CHECK-LABEL: func.func @moves(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}}, %[[BIAS:[^:]+]]: {{[^,)]+}}, %[[I:[^:]+]]: {{[^,)]+}})
func.func @moves(%x: tensor<4x8xf32>, %bias: tensor<8xf32>, %i: tensor<2x3xi64>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.iota 1 : tensor<2x4xi64>
  %0 = nn.iota 1 : tensor<2x4xi64>
  // CHECK: %[[COUNTER:[^ :,]+]] = nn.constant
  %counter = nn.constant dense<0> : tensor<5xi32>
  // CHECK: nn.uniform %[[COUNTER]] stream 0 : tensor<5xi32> -> tensor<4xf32>
  %u = nn.uniform %counter stream 0 : tensor<5xi32> -> tensor<4xf32>
  // CHECK: nn.uniform %[[COUNTER]] stream 1 seed 7 samples [0, 3, 4] : tensor<5xi32> -> tensor<24x8xf32>
  %v = nn.uniform %counter stream 1 seed 7 samples [0, 3, 4] : tensor<5xi32> -> tensor<24x8xf32>
  // CHECK: nn.uniform %[[COUNTER]] stream 2 samples [0, 1, 1] layout {{ ?}}blocked16 : tensor<5xi32> -> tensor<2x3x5x16xf32>
  %w = nn.uniform %counter stream 2 samples [0, 1, 1] layout blocked16 : tensor<5xi32> -> tensor<2x3x5x16xf32>
  // CHECK: %[[V1:[^ :,]+]] = nn.reshape %[[X]] : tensor<4x8xf32> -> tensor<2x16xf32>
  %1 = nn.reshape %x : tensor<4x8xf32> -> tensor<2x16xf32>
  // CHECK: %[[V2:[^ :,]+]] = nn.transpose %[[X]] [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %2 = nn.transpose %x [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  // CHECK: %[[V3:[^ :,]+]] = nn.broadcast %[[BIAS]] [1] : tensor<8xf32> -> tensor<4x8xf32>
  %3 = nn.broadcast %bias [1] : tensor<8xf32> -> tensor<4x8xf32>
  // CHECK: %[[V4:[^ :,]+]] = nn.slice %[[X]] starts [0, 1] limits [4, 8] strides [1, 2] : tensor<4x8xf32> -> tensor<4x4xf32>
  %4 = nn.slice %x starts [0, 1] limits [4, 8] strides [1, 2] : tensor<4x8xf32> -> tensor<4x4xf32>
  // CHECK: %[[V5:[^ :,]+]] = nn.pad %[[X]] low [0, 1] high [1, 0] interior [0, 2] : tensor<4x8xf32> -> tensor<5x23xf32>
  %5 = nn.pad %x low [0, 1] high [1, 0] interior [0, 2] : tensor<4x8xf32> -> tensor<5x23xf32>
  // CHECK: %[[V6:[^ :,]+]] = nn.pad %[[X]] low [0, 1] high [0, 1] interior [0, 0] {value = 1.000000e+00 : f64} : tensor<4x8xf32> -> tensor<4x10xf32>
  %6 = nn.pad %x low [0, 1] high [0, 1] interior [0, 0] {value = 1.000000e+00 : f64} : tensor<4x8xf32> -> tensor<4x10xf32>
  // CHECK: %[[V7:[^ :,]+]] = nn.concat %[[X]], %[[V3]] axis 1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  %7 = nn.concat %x, %3 axis 1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  // CHECK: %[[V8:[^ :,]+]] = nn.gather %[[X]][%[[I]]] axis 0 : (tensor<4x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  %8 = nn.gather %x[%i] axis 0 : (tensor<4x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  // CHECK: nn.gather %[[X]][%[[I]]] axis 0 untrained 3 : (tensor<4x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  %untrained = nn.gather %x[%i] axis 0 untrained 3 : (tensor<4x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  // CHECK: %[[V9:[^ :,]+]] = nn.scatter_add %[[V8]] at[%[[I]]] axis 0 : (tensor<2x3xi64>, tensor<2x3x8xf32>) -> tensor<4x8xf32>
  %9 = nn.scatter_add %8 at [%i] axis 0 : (tensor<2x3xi64>, tensor<2x3x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[V10:[^ :,]+]] = nn.reduce sum %[[X]] [0, 1] : tensor<4x8xf32> -> tensor<f32>
  %10 = nn.reduce sum %x [0, 1] : tensor<4x8xf32> -> tensor<f32>
  // CHECK: %[[V11:[^ :,]+]] = nn.reduce max %[[X]] [1] : tensor<4x8xf32> -> tensor<4xf32>
  %11 = nn.reduce max %x [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: %[[V12:[^ :,]+]] = nn.reduce min %[[X]] [] : tensor<4x8xf32> -> tensor<4x8xf32>
  %12 = nn.reduce min %x [] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @block_product(
// CHECK-SAME: %[[A:[^ :,]+]]: tensor<8x60xf32>, %[[B:[^ :,]+]]: tensor<100x2x16xui8>, %[[S:[^ :,]+]]: tensor<100x2xf32>, %[[Z:[^ :,]+]]: tensor<100x1xui8>
func.func @block_product(%a: tensor<8x60xf32>, %b: tensor<100x2x16xui8>, %s: tensor<100x2xf32>, %z: tensor<100x1xui8>) -> (tensor<8x100xf32>, tensor<8x100xf32>) {
  // CHECK: nn.block_product %[[A]], %[[B]], %[[S]] : (tensor<8x60xf32>, tensor<100x2x16xui8>, tensor<100x2xf32>) -> tensor<8x100xf32>
  %0 = nn.block_product %a, %b, %s : (tensor<8x60xf32>, tensor<100x2x16xui8>, tensor<100x2xf32>) -> tensor<8x100xf32>
  // CHECK: nn.block_product %[[A]], %[[B]], %[[S]], %[[Z]] :
  %1 = nn.block_product %a, %b, %s, %z : (tensor<8x60xf32>, tensor<100x2x16xui8>, tensor<100x2xf32>, tensor<100x1xui8>) -> tensor<8x100xf32>
  return %0, %1 : tensor<8x100xf32>, tensor<8x100xf32>
}

// CHECK-LABEL: func.func @integer_product(
// CHECK-SAME: %[[A:[^ :,]+]]: tensor<8x30xui8>, %[[B:[^ :,]+]]: tensor<2x8x64x4xi8>
func.func @integer_product(%a: tensor<8x30xui8>, %b: tensor<2x8x64x4xi8>) -> tensor<8x100xi32> {
  // CHECK: nn.integer_product %[[A]], %[[B]] : (tensor<8x30xui8>, tensor<2x8x64x4xi8>) -> tensor<8x100xi32>
  %0 = nn.integer_product %a, %b : (tensor<8x30xui8>, tensor<2x8x64x4xi8>) -> tensor<8x100xi32>
  return %0 : tensor<8x100xi32>
}

// CHECK-LABEL: func.func @contractions(
// CHECK-SAME: %[[A:[^:]+]]: {{[^,)]+}}, %[[B:[^:]+]]: {{[^,)]+}}, %[[X:[^:]+]]: {{[^,)]+}}, %[[W:[^:]+]]: {{[^,)]+}})
func.func @contractions(%a: tensor<2x4x8xf32>, %b: tensor<2x5x8xf32>, %x: tensor<2x3x8x8xf32>, %w: tensor<6x3x3x3xf32>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.dot_general %[[A]], %[[B]] batch [0] x [0] contract [2] x [2] : (tensor<2x4x8xf32>, tensor<2x5x8xf32>) -> tensor<2x4x5xf32>
  %0 = nn.dot_general %a, %b batch [0] x [0] contract [2] x [2] : (tensor<2x4x8xf32>, tensor<2x5x8xf32>) -> tensor<2x4x5xf32>
  // CHECK: %[[V1:[^ :,]+]] = nn.conv %[[X]], %[[W]] strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x4x4xf32>
  %1 = nn.conv %x, %w strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x4x4xf32>
  // CHECK: %[[V2:[^ :,]+]] = nn.conv_backward_input %[[V1]], %[[W]] strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x6x4x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x3x8x8xf32>
  %2 = nn.conv_backward_input %1, %w strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x6x4x4xf32>, tensor<6x3x3x3xf32>) -> tensor<2x3x8x8xf32>
  // CHECK: %[[V3:[^ :,]+]] = nn.conv_backward_weight %[[X]], %[[V1]] strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x3x8x8xf32>, tensor<2x6x4x4xf32>) -> tensor<6x3x3x3xf32>
  %3 = nn.conv_backward_weight %x, %1 strides [2, 2] dilations [1, 1] pad [1, 1] x [1, 1] groups 1 : (tensor<2x3x8x8xf32>, tensor<2x6x4x4xf32>) -> tensor<6x3x3x3xf32>
  return
}

// CHECK-LABEL: func.func @convolutions_of_other_ranks(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}}, %[[W:[^:]+]]: {{[^,)]+}}, %[[V:[^:]+]]: {{[^,)]+}}, %[[U:[^:]+]]: {{[^,)]+}})
func.func @convolutions_of_other_ranks(%x: tensor<1x4x9xf32>, %w: tensor<4x2x3xf32>, %v: tensor<1x1x4x4x4xf32>, %u: tensor<2x1x1x2x3xf32>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.conv %[[X]], %[[W]] strides [1] dilations [2] pad [2] x [2] groups 2 : (tensor<1x4x9xf32>, tensor<4x2x3xf32>) -> tensor<1x4x9xf32>
  %0 = nn.conv %x, %w strides [1] dilations [2] pad [2] x [2] groups 2 : (tensor<1x4x9xf32>, tensor<4x2x3xf32>) -> tensor<1x4x9xf32>
  // CHECK: %[[V1:[^ :,]+]] = nn.conv %[[V]], %[[U]] strides [1, 1, 1] dilations [1, 1, 1] pad [0, 0, 0] x [0, 1, 2] groups 1 : (tensor<1x1x4x4x4xf32>, tensor<2x1x1x2x3xf32>) -> tensor<1x2x4x4x4xf32>
  %1 = nn.conv %v, %u strides [1, 1, 1] dilations [1, 1, 1] pad [0, 0, 0] x [0, 1, 2] groups 1 : (tensor<1x1x4x4x4xf32>, tensor<2x1x1x2x3xf32>) -> tensor<1x2x4x4x4xf32>
  return
}

// CHECK-LABEL: func.func @windows(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}})
func.func @windows(%x: tensor<2x3x8x8xf32>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.max_pool %[[X]] kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  %0 = nn.max_pool %x kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  // CHECK: %[[V1:[^ :,]+]] = nn.max_pool_backward %[[X]], %[[V0]] kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  %1 = nn.max_pool_backward %x, %0 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  // CHECK: %[[V2:[^ :,]+]] = nn.avg_pool %[[X]] kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = nn.avg_pool %x kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  // CHECK: %[[V3:[^ :,]+]] = nn.avg_pool %[[X]] kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] include_pad : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  %3 = nn.avg_pool %x kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] include_pad : (tensor<2x3x8x8xf32>) -> tensor<2x3x4x4xf32>
  // CHECK: %[[V4:[^ :,]+]] = nn.avg_pool_backward %[[V2]] kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  %4 = nn.avg_pool_backward %2 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] : (tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  // CHECK: %[[V5:[^ :,]+]] = nn.avg_pool_backward %[[V2]] kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] include_pad : (tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  %5 = nn.avg_pool_backward %2 kernel [2, 2] strides [2, 2] dilations [1, 1] pad [0, 0] x [0, 0] include_pad : (tensor<2x3x4x4xf32>) -> tensor<2x3x8x8xf32>
  return
}

// CHECK-LABEL: func.func @normalizations(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}}, %[[S:[^:]+]]: {{[^,)]+}}, %[[I:[^:]+]]: {{[^,)]+}}, %[[C:[^:]+]]: {{[^,)]+}})
func.func @normalizations(%x: tensor<2x4x8xf32>, %s: tensor<8xf32>, %i: tensor<2x3x4x4xf32>, %c: tensor<3xf32>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.softmax %[[X]] : tensor<2x4x8xf32>
  %0 = nn.softmax %x : tensor<2x4x8xf32>
  // CHECK: nn.softmax %[[X]] zeroed : tensor<2x4x8xf32>
  %zeroed = nn.softmax %x zeroed : tensor<2x4x8xf32>
  // CHECK: %[[V1:[^ :,]+]] = nn.log_softmax %[[X]] : tensor<2x4x8xf32>
  %1 = nn.log_softmax %x : tensor<2x4x8xf32>
  // CHECK: %[[O:[^ :,]+]], %[[M:[^ :,]+]], %[[R:[^ :,]+]] = nn.layer_norm %[[X]], %[[S]], %[[S]] epsilon 1.000000e-05 : (tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %o, %m, %r = nn.layer_norm %x, %s, %s epsilon 1.000000e-05 : (tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  // CHECK: %[[V3:[^ :,]+]] = nn.layer_norm_backward %[[O]], %[[X]], %[[S]], %[[M]], %[[R]] : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4x8xf32>
  %3 = nn.layer_norm_backward %o, %x, %s, %m, %r : (tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<8xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4x8xf32>
  // CHECK: %[[N:[^ :,]+]], %[[E:[^ :,]+]], %[[V:[^ :,]+]] = nn.batch_norm %[[I]], %[[C]], %[[C]] epsilon 1.000000e-05 : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  %n, %e, %v = nn.batch_norm %i, %c, %c epsilon 1.000000e-05 : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: %[[P:[^ :,]+]], %[[Q:[^ :,]+]], %[[T:[^ :,]+]] = nn.batch_norm_backward %[[I]], %[[N]], %[[E]], %[[V]], %[[C]] epsilon 1.000000e-05 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  %p, %q, %t = nn.batch_norm_backward %i, %n, %e, %v, %c epsilon 1.000000e-05 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: %[[CM:[^ :,]+]], %[[CV:[^ :,]+]] = nn.channel_moments %[[I]] layout channels_last : (tensor<2x3x4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %cm, %cv = nn.channel_moments %i layout channels_last : (tensor<2x3x4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK: %{{[^ :,]+}}, %{{[^ :,]+}} = nn.channel_sums %[[N]], %[[I]], %[[E]] : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  %cs, %cw = nn.channel_sums %n, %i, %e : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// CHECK-LABEL: func.func @losses(
// CHECK-SAME: %[[X:[^:]+]]: {{[^,)]+}}, %[[L:[^:]+]]: {{[^,)]+}})
func.func @losses(%x: tensor<4x10xf32>, %l: tensor<4xi64>) {
  // CHECK: %[[E:[^ :,]+]], %[[N:[^ :,]+]] = nn.softmax_cross_entropy %[[X]], %[[L]] : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  %e, %n = nn.softmax_cross_entropy %x, %l : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<4xf32>)
  // CHECK: %[[V1:[^ :,]+]] = nn.softmax_cross_entropy_backward %[[X]], %[[L]], %[[N]], %[[E]] : (tensor<4x10xf32>, tensor<4xi64>, tensor<4xf32>, tensor<f32>) -> tensor<4x10xf32>
  %1 = nn.softmax_cross_entropy_backward %x, %l, %n, %e : (tensor<4x10xf32>, tensor<4xi64>, tensor<4xf32>, tensor<f32>) -> tensor<4x10xf32>
  return
}

// CHECK-LABEL: func.func @constants(
func.func @constants() {
  // CHECK: %[[V0:[^ :,]+]] = nn.constant dense<1.000000e+00> : tensor<4xf32>
  %0 = nn.constant dense<1.000000e+00> : tensor<4xf32>
  // CHECK: %[[V1:[^ :,]+]] = nn.constant dense<[true, false]> : tensor<2xi1>
  %1 = nn.constant dense<[true, false]> : tensor<2xi1>
  // CHECK: %[[V2:[^ :,]+]] = nn.constant dense<7> : tensor<ui8>
  %2 = nn.constant dense<7> : tensor<ui8>
  return
}

// CHECK-LABEL: func.func @attention(
// CHECK-SAME: %[[Q:[^:]+]]: {{[^,)]+}}, %[[K:[^:]+]]: {{[^,)]+}}, %[[V:[^:]+]]: {{[^,)]+}}, %[[G:[^:]+]]: {{[^,)]+}})
func.func @attention(%q: tensor<2x5x3x8xbf16>, %k: tensor<2x3x5x8xbf16>, %v: tensor<2x3x4x5xbf16>, %g: tensor<2x5x3x4xbf16>) {
  // CHECK: %[[O:[^ :,]+]], %[[L:[^ :,]+]] = nn.attention %[[Q]] [0, 2, 1, 3], %[[K]] [0, 1, 2, 3], %[[V]] [0, 1, 3, 2] scale 1.250000e-01 causal output [0, 2, 1, 3] : (tensor<2x5x3x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x4x5xbf16>) -> (tensor<2x5x3x4xbf16>, tensor<2x3x5xf32>)
  %o, %l = nn.attention %q [0, 2, 1, 3], %k [0, 1, 2, 3], %v [0, 1, 3, 2] scale 0.125 causal output [0, 2, 1, 3] : (tensor<2x5x3x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x4x5xbf16>) -> (tensor<2x5x3x4xbf16>, tensor<2x3x5xf32>)
  // CHECK: nn.attention_backward %[[Q]] [0, 2, 1, 3], %[[K]] [0, 1, 2, 3], %[[V]] [0, 1, 3, 2], %[[O]] [0, 2, 1, 3], %[[L]], %[[G]] scale 1.250000e-01 causal :
  %dq, %dk, %dv = nn.attention_backward %q [0, 2, 1, 3], %k [0, 1, 2, 3], %v [0, 1, 3, 2], %o [0, 2, 1, 3], %l, %g scale 0.125 causal : (tensor<2x5x3x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x4x5xbf16>, tensor<2x5x3x4xbf16>, tensor<2x3x5xf32>, tensor<2x5x3x4xbf16>) -> (tensor<2x5x3x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x4x5xbf16>)
  // CHECK: nn.attention %{{.+}} scale 1.000000e+00 output [0, 1, 2, 3] :
  %o1, %l1 = nn.attention %k [0, 1, 2, 3], %k [0, 1, 2, 3], %k [0, 1, 2, 3] scale 1.0 output [0, 1, 2, 3] : (tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>) -> (tensor<2x3x5x8xbf16>, tensor<2x3x5xf32>)
  %m = nn.constant dense<0.0> : tensor<2x1x5x5xf32>
  // CHECK: %[[O2:[^ :,]+]], %[[L2:[^ :,]+]] = nn.attention %[[K]] [0, 1, 2, 3], %[[K]] [0, 1, 2, 3], %[[K]] [0, 1, 2, 3] mask %[[M:[^ ]+]] zeroed scale 1.000000e+00 output [0, 1, 2, 3] : (tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x1x5x5xf32>) ->
  %o2, %l2 = nn.attention %k [0, 1, 2, 3], %k [0, 1, 2, 3], %k [0, 1, 2, 3] mask %m zeroed scale 1.0 output [0, 1, 2, 3] : (tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x1x5x5xf32>) -> (tensor<2x3x5x8xbf16>, tensor<2x3x5xf32>)
  // CHECK: nn.attention_backward {{.*}}, %[[L2]], %[[O2]] mask %[[M]] scale 1.000000e+00 :
  %dq2, %dk2, %dv2 = nn.attention_backward %k [0, 1, 2, 3], %k [0, 1, 2, 3], %k [0, 1, 2, 3], %o2 [0, 1, 2, 3], %l2, %o2 mask %m scale 1.0 : (tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x5xf32>, tensor<2x3x5x8xbf16>, tensor<2x1x5x5xf32>) -> (tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>, tensor<2x3x5x8xbf16>)
  return
}

// CHECK-LABEL: func.func @state(
// CHECK-SAME: %[[G:[^:]+]]: {{[^,)]+}}, %[[S:[^:]+]]: {{[^,)]+}})
func.func @state(%g: tensor<10x4xf32>, %s: tensor<3xf32>) {
  // CHECK: %[[V0:[^ :,]+]] = nn.parameter @weight : tensor<10x4xf32>
  %0 = nn.parameter @weight : tensor<10x4xf32>
  // CHECK: nn.accumulate gradient @weight, %[[G]] : tensor<10x4xf32>
  nn.accumulate gradient @weight, %g : tensor<10x4xf32>
  // CHECK: nn.accumulate statistics @mean, %[[S]] : tensor<3xf32>
  nn.accumulate statistics @mean, %s : tensor<3xf32>
  // CHECK: nn.commit_statistics @mean, @variance momentum 1.000000e-01 microbatches 4 elements 32
  nn.commit_statistics @mean, @variance momentum 1.000000e-01 microbatches 4 elements 32
  return
}

// CHECK-LABEL: func.func @kernel(
// CHECK-SAME: %[[X:.+]]: tensor<4x8xf32>, %[[B:.+]]: tensor<8xf32>)
func.func @kernel(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK: %[[Y:.+]]:2 = nn.kernel(%[[A0:.+]] = %[[X]], %[[A1:.+]] = %[[B]]) attributes {note = "two results"} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %y:2 = nn.kernel(%a0 = %x, %a1 = %b) attributes {note = "two results"}
      : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    // CHECK-NEXT: %[[W:.+]] = nn.broadcast %[[A1]] [1]
    %0 = nn.broadcast %a1 [1] : tensor<8xf32> -> tensor<4x8xf32>
    // CHECK-NEXT: %[[S:.+]] = nn.add %[[A0]], %[[W]]
    %1 = nn.add %a0, %0 : tensor<4x8xf32>
    // CHECK-NEXT: nn.yield %[[S]], %[[W]] : tensor<4x8xf32>, tensor<4x8xf32>
    nn.yield %1, %0 : tensor<4x8xf32>, tensor<4x8xf32>
  }
  // CHECK: nn.kernel() : () -> tensor<2xf32> {
  %z = nn.kernel() : () -> tensor<2xf32> {
    %0 = nn.constant dense<1.0> : tensor<2xf32>
    nn.yield %0 : tensor<2xf32>
  }
  return %y#0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @indexed
func.func @indexed(%x: tensor<4x8x3xf32>, %i: tensor<4x2xi64>, %j: tensor<4xi64>) {
  // CHECK: %[[G:.*]] = nn.gather %{{.*}}[%{{.*}}] axis 1 shared 1 : (tensor<4x8x3xf32>, tensor<4x2xi64>) -> tensor<4x2x3xf32>
  %0 = nn.gather %x[%i] axis 1 shared 1 : (tensor<4x8x3xf32>, tensor<4x2xi64>) -> tensor<4x2x3xf32>
  // CHECK: nn.gather %{{.*}}[%{{.*}}] axis 2 shared 1 : (tensor<4x8x3xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %1 = nn.gather %x[%j] axis 2 shared 1 : (tensor<4x8x3xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  // CHECK: nn.scatter_add %[[G]] at[%{{.*}}] axis 1 shared 1 : (tensor<4x2xi64>, tensor<4x2x3xf32>) -> tensor<4x8x3xf32>
  %2 = nn.scatter_add %0 at [%i] axis 1 shared 1 : (tensor<4x2xi64>, tensor<4x2x3xf32>) -> tensor<4x8x3xf32>
  // CHECK: nn.scatter %[[G]] into %{{.*}} at[%{{.*}}] axis 1 shared 1 : (tensor<4x8x3xf32>, tensor<4x2xi64>, tensor<4x2x3xf32>) -> tensor<4x8x3xf32>
  %3 = nn.scatter %0 into %x at [%i] axis 1 shared 1 : (tensor<4x8x3xf32>, tensor<4x2xi64>, tensor<4x2x3xf32>) -> tensor<4x8x3xf32>
  // CHECK: nn.scatter %[[G]] into %{{.*}} at[%{{.*}}] axis 1 shared 1 combine max : (tensor<4x8x3xf32>, tensor<4x2xi64>, tensor<4x2x3xf32>) -> tensor<4x8x3xf32>
  %combined = nn.scatter %0 into %x at [%i] axis 1 shared 1 combine max : (tensor<4x8x3xf32>, tensor<4x2xi64>, tensor<4x2x3xf32>) -> tensor<4x8x3xf32>
  // CHECK: nn.cumsum %{{.*}} axis 1 : tensor<4x8x3xf32>
  %4 = nn.cumsum %x axis 1 : tensor<4x8x3xf32>
  // CHECK: nn.cumsum %{{.*}} axis 0 exclusive reverse : tensor<4x2xi64>
  %5 = nn.cumsum %i axis 0 exclusive reverse : tensor<4x2xi64>
  // CHECK: nn.top_k %{{.*}} : tensor<4x8x3xf32> -> tensor<4x8x2xi64>
  %6 = nn.top_k %x : tensor<4x8x3xf32> -> tensor<4x8x2xi64>
  // CHECK: nn.top_k %{{.*}} smallest : tensor<4x2xi64> -> tensor<4x1xi64>
  %7 = nn.top_k %i smallest : tensor<4x2xi64> -> tensor<4x1xi64>
  // CHECK: nn.reduce product %{{.*}} [1] : tensor<4x2xi64> -> tensor<4xi64>
  %8 = nn.reduce product %i [1] : tensor<4x2xi64> -> tensor<4xi64>
  return
}

// CHECK-LABEL: func.func @functions
func.func @functions(%x: tensor<4xf32>, %i: tensor<4xi32>) {
  // CHECK: nn.round %{{.*}} : tensor<4xf32>
  %0 = nn.round %x : tensor<4xf32>
  // CHECK: nn.expm1 %{{.*}} : tensor<4xf32>
  %1 = nn.expm1 %x : tensor<4xf32>
  // CHECK: nn.log1p %{{.*}} : tensor<4xf32>
  %2 = nn.log1p %x : tensor<4xf32>
  // CHECK: nn.atan %{{.*}} : tensor<4xf32>
  %3 = nn.atan %x : tensor<4xf32>
  // CHECK: nn.rem %{{.*}}, %{{.*}} : tensor<4xi32>
  %4 = nn.rem %i, %i : tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @bits(
func.func @bits(%x: tensor<4xf32>) {
  // CHECK: nn.stop_gradient %{{.*}} : tensor<4xf32>
  %stopped = nn.stop_gradient %x : tensor<4xf32>
  // CHECK: nn.bitcast %{{.*}} : tensor<4xf32> -> tensor<4xi32>
  %0 = nn.bitcast %x : tensor<4xf32> -> tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[COUNTER:[^:]+]]: tensor<5xi32>
func.func @rows(%counter: tensor<5xi32>, %x: tensor<2x4x4x3xf32>, %i: tensor<2x3x4x4xf32>, %c: tensor<3xf32>) {
  // CHECK: %[[ROWS:.+]] = nn.present_rows %[[COUNTER]] samples 2 rows 1 : tensor<5xi32> -> tensor<i32>
  %rows = nn.present_rows %counter samples 2 rows 1 : tensor<5xi32> -> tensor<i32>
  // CHECK: nn.batch_norm %{{.+}} rows %[[ROWS]] epsilon 1.000000e-05 layout channels_last : (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>) -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %n:3 = nn.batch_norm %x, %c, %c rows %rows epsilon 1.000000e-05 layout channels_last : (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>) -> (tensor<2x4x4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: nn.batch_norm_backward %{{.+}} rows %[[ROWS]] epsilon
  %b:3 = nn.batch_norm_backward %i, %i, %c, %c, %c rows %rows epsilon 1.000000e-05 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<i32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  // CHECK: nn.channel_moments %{{.+}} rows %[[ROWS]] :
  %m, %v = nn.channel_moments %i rows %rows : (tensor<2x3x4x4xf32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xf32>)
  // CHECK: nn.channel_sums %{{.+}} rows %[[ROWS]] :
  %s, %w = nn.channel_sums %i, %i, %c rows %rows : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// CHECK-LABEL: func.func @sequences(
func.func @sequences(%p: tensor<2x5x4xf32>, %l: tensor<2x3xi64>, %f: tensor<2xi64>) {
  // CHECK: %[[L:.+]], %[[A:.+]] = nn.ctc_loss %{{.+}}, %{{.+}} frames %{{.+}} blank 0 : (tensor<2x5x4xf32>, tensor<2x3xi64>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2x5x7xf32>)
  %loss, %alphas = nn.ctc_loss %p, %l frames %f blank 0 : (tensor<2x5x4xf32>, tensor<2x3xi64>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2x5x7xf32>)
  // CHECK: nn.ctc_loss_backward %{{.+}}, %{{.+}}, %[[L]], %[[A]], %[[L]] blank 3 :
  %g = nn.ctc_loss_backward %p, %l, %loss, %alphas, %loss blank 3 : (tensor<2x5x4xf32>, tensor<2x3xi64>, tensor<2xf32>, tensor<2x5x7xf32>, tensor<2xf32>) -> tensor<2x5x4xf32>
  return
}
