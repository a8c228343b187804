// RUN: split-file %s %t
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="label-smoothing=0.25" | FileCheck %t/logits.mlir --check-prefix=SMOOTH
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="class-weights=1,2,0.5,0,1,1,1,1,1,3" | FileCheck %t/logits.mlir --check-prefix=WEIGHED
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="class-weights=1,2,0.5,0,1,1,1,1,1,3 ignore-index=2" | FileCheck %t/logits.mlir --check-prefix=CLASS
// RUN: not pp-opt %t/logits.mlir --nn-attach-loss="class-weights=1,2" 2>&1 | FileCheck %t/logits.mlir --check-prefix=FEW
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="loss=soft_cross_entropy" | FileCheck %t/logits.mlir --check-prefix=SOFT
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="loss=bce_with_logits" | FileCheck %t/logits.mlir --check-prefix=BCE
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="loss=l1" | FileCheck %t/logits.mlir --check-prefix=L1
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="loss=huber delta=0.5" | FileCheck %t/logits.mlir --check-prefix=HUBER
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="loss=kl" | FileCheck %t/logits.mlir --check-prefix=KL
// RUN: pp-opt %t/logits.mlir --nn-attach-loss="loss=cosine" | FileCheck %t/logits.mlir --check-prefix=COSINE
// RUN: pp-opt %t/frames.mlir --nn-attach-loss="loss=ctc ctc-blank=3" | FileCheck %t/frames.mlir
// RUN: pp-opt %t/frames.mlir --nn-attach-loss="loss=ctc ctc-target-length=2 ctc-frames" | FileCheck %t/frames.mlir --check-prefix=FRAMES
// RUN: not pp-opt %t/frames.mlir --nn-attach-loss="loss=ctc ctc-blank=4" 2>&1 | FileCheck %t/frames.mlir --check-prefix=BLANK
// RUN: not pp-opt %t/vector.mlir --nn-attach-loss="loss=ctc" 2>&1 | FileCheck %t/vector.mlir --check-prefix=CTC
// RUN: pp-opt %t/own.mlir --nn-attach-loss="loss=output output=loss microbatches=2" | FileCheck %t/own.mlir
// RUN: pp-opt %t/own.mlir --nn-attach-loss="loss=output output=each microbatches=2" | FileCheck %t/own.mlir --check-prefix=EACH
// RUN: not pp-opt %t/vector.mlir --nn-attach-loss="loss=kl" 2>&1 | FileCheck %t/vector.mlir

// (1 - s) * entropy - s / K * the logarithms of all classes, in rows that count.
//--- logits.mlir
// SMOOTH: nn.softmax_cross_entropy
// SMOOTH: %[[COUNTS:.+]] = nn.compare ne
// SMOOTH: %[[F:.+]] = nn.cast %[[COUNTS]]
// SMOOTH: nn.log_softmax
// SMOOTH: nn.mul %{{.+}}, %[[F]]
// SMOOTH: nn.constant dense<-2.500000e-02>
// SMOOTH: nn.constant dense<7.500000e-01>

// The logarithms times what their classes count, where the label is.
// WEIGHED: step.class_weights = array<f64: 1.000000e+00, 2.000000e+00, 5.000000e-01, 0.000000e+00
// WEIGHED: %[[LOG:.+]] = nn.log_softmax
// WEIGHED: %[[TERMS:.+]] = nn.mul %[[LOG]]
// WEIGHED: %[[IS:.+]] = nn.compare eq
// WEIGHED: nn.select %[[IS]], %[[TERMS]]
// Of what is ignored no label is the class.
// CLASS: nn.constant dense<[0, 1, -1, 3, 4, 5, 6, 7, 8, 9]>
// FEW: there are 2 class weights, but axis 1 of the output has 10 classes

// A mean over rows: the weight of the targets, times the classes in one.
// SOFT: step.feed = "target", step.role = #step.role<target>
// SOFT-SAME: step.feed = "sample_mask"
// SOFT-SAME: step.feed = "loss_weight"
// SOFT: nn.log_softmax
// SOFT: nn.constant dense<1.000000e+01>

// BCE: nn.abs
// BCE: nn.exp
// BCE: nn.log1p
// BCE: nn.relu

// L1: %[[D:.+]] = nn.sub
// L1-NEXT: %[[A:.+]] = nn.abs %[[D]]
// L1-NEXT: nn.broadcast
// L1-NEXT: nn.mul %[[A]]
// L1-NEXT: nn.reduce sum

// HUBER: nn.compare lt
// HUBER: nn.select

// Divided by the samples: times 20 elements over 2 samples.
// KL: nn.compare le
// KL: nn.select
// KL: nn.log
// KL: nn.constant dense<1.000000e+01>

// COSINE: nn.constant dense<{{9.99999996E-13|1.000000e-12}}>
// COSINE: nn.sqrt
// COSINE: nn.div
func.func @main(%x: tensor<2x10xf32> {step.feed = "x", step.batched}) -> (tensor<2x10xf32> {step.fetch = "y", step.batched}) {
  return %x : tensor<2x10xf32>
}

// The mean over micro-batches, and over the elements of each.
//--- own.mlir
// CHECK-LABEL: func.func @main(
// CHECK-SAME: step.whole_batches = "
// CHECK: %[[C:.+]] = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK: %[[L:.+]] = nn.mul %{{.+}}, %[[C]]
// CHECK: return %[[L]]
// EACH: %[[S:.+]] = nn.reduce sum %{{.+}} [0] : tensor<2xf32> -> tensor<f32>
// EACH: nn.constant dense<2.500000e-01> : tensor<f32>
func.func @main(%l: tensor<f32>, %e: tensor<2xf32>) -> (tensor<f32> {step.fetch = "loss"}, tensor<2xf32> {step.fetch = "each"}) {
  return %l, %e : tensor<f32>, tensor<2xf32>
}

// The loss of a sample is divided by its labels, whatever number they are filled up to.
//--- frames.mlir
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[T:[^:]+]]: tensor<2x3xi64> {step.batched, step.feed = "target", step.range = array<i64: -2147483648, 3>, step.role = #step.role<target>}
// CHECK: %[[P:.+]] = nn.log_softmax
// CHECK: %[[L:.+]], %{{.+}} = nn.ctc_loss %[[P]], %[[T]] blank 3 : (tensor<2x5x4xf32>, tensor<2x3xi64>) -> (tensor<2xf32>, tensor<2x5x7xf32>)
// CHECK: nn.compare ge %[[T]],
// CHECK: %[[N:.+]] = nn.maximum
// CHECK: nn.div %[[L]], %[[N]]
// CHECK: nn.constant dense<3.000000e+00>
// FRAMES: %[[F:[^:]+]]: tensor<2xi64> {step.batched, step.feed = "frames", step.range = array<i64: 0, 5>, step.role = #step.role<input>}
// FRAMES: nn.ctc_loss %{{.+}} frames %[[F]] blank 0 : (tensor<2x5x4xf32>, tensor<2x2xi64>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2x5x5xf32>)
// BLANK: error: the output has 4 classes, so the blank one is none of 0 to 3: 4
func.func @main(%x: tensor<2x5x4xf32> {step.feed = "x", step.batched}) -> (tensor<2x5x4xf32> {step.fetch = "y", step.batched}) {
  return %x : tensor<2x5x4xf32>
}

//--- vector.mlir
// CTC: error: ctc needs an output of samples x frames x classes, got 'tensor<4xf32>'; --batch-axis says where an output has its samples
// CHECK: error: this loss needs an output of rank 2 or more, got 'tensor<4xf32>'
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
