// What optimizers with trust ratios become on a GPU: two launches that measure a parameter, and its update.
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=lamb" --nn-lower-kernels --pp-make-launches --canonicalize | FileCheck %s --check-prefixes=CHECK,LAMB
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=lars momentum=0.9" --nn-lower-kernels --pp-make-launches --canonicalize | FileCheck %s --check-prefixes=CHECK,LARS
// RUN: sed s/f32/f64/g %s | pp-opt --nn-attach-optimizer="optimizer=lamb" --nn-lower-kernels --pp-make-launches | FileCheck %s --check-prefix=DOUBLE

// CHECK: pp.optimizer_launch = "launch name=optimizer elements=4096x0x256 blocks=256x256x256 tensors=4"
module {
  ml_program.global private mutable @w(dense<0.5> : tensor<4xf32>) : tensor<4xf32> {nn.trained}
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    %0 = nn.relu %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// The squares of parameters and of what is measured, in f64; the parameter is not changed.
// CHECK-LABEL: gpu.func @optimizer_0(
// CHECK-SAME: %[[P:[a-z0-9]+]]: memref<1099511627776xf32> {llvm.noalias}, %[[G:[a-z0-9]+]]: memref<1099511627776xf32> {llvm.noalias}, %[[S:[a-z0-9]+]]: memref<1099511627776xf32> {llvm.noalias}, %{{.*}}, %[[SUMS:[a-z0-9]+]]: memref<1099511627776xf64> {llvm.noalias}
// CHECK: arith.minui
// CHECK: scf.for
// CHECK: memref.load %[[P]]
// CHECK-NOT: memref.store {{.*}}, %[[P]]
// CHECK: memref.store {{.*}}, %[[S]]
// CHECK: arith.addf {{.*}} : f64
// CHECK: arith.addf {{.*}} : f64
// CHECK: gpu.barrier
// CHECK: memref.store {{.*}}, %[[SUMS]]
// CHECK: memref.store {{.*}}, %[[SUMS]]

// One block makes the ratio.
// CHECK-LABEL: gpu.func @optimizer_1(
// CHECK-SAME: %[[SCALARS:[a-z0-9]+]]: memref<{{[0-9]+}}xf32> {llvm.noalias}, %[[SUMS:[a-z0-9]+]]: memref<1099511627776xf64>
// CHECK: scf.for
// CHECK: memref.load %[[SUMS]]
// CHECK: memref.load %[[SUMS]]
// CHECK: math.sqrt {{.*}} : f64
// CHECK: math.sqrt {{.*}} : f64
// LARS: memref.load %[[SCALARS]]
// LARS: memref.load %[[SCALARS]]
// LAMB-NOT: memref.load %[[SCALARS]]
// CHECK: arith.divf {{.*}} : f64
// CHECK: arith.truncf
// LAMB: memref.store {{.*}}, %[[SCALARS]][%c4]
// LARS: memref.store {{.*}}, %[[SCALARS]][%c4]

// CHECK-LABEL: gpu.func @optimizer_2(
// CHECK: memref.load
// CHECK: memref.store

// DOUBLE-LABEL: gpu.func @optimizer_0(
// DOUBLE-NOT: arith.extf
// DOUBLE-LABEL: gpu.func @optimizer_1(
// DOUBLE-NOT: arith.truncf
// DOUBLE: memref.store {{.*}} : memref<{{[0-9]+}}xf64>
