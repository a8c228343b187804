// RUN: not pp-opt %s --pp-group-kernels=size=0 2>&1 | FileCheck %s
// CHECK: error: the size of a group must be positive

func.func @kernel_0() {
  return
}
