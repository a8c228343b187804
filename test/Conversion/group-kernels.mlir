// RUN: pp-opt %s --pass-pipeline='builtin.module(pp-group-kernels{size=2})' | FileCheck %s
// RUN: pp-opt %s --pass-pipeline='builtin.module(pp-group-kernels{size=2},pp-ungroup-kernels)' \
// RUN:   | FileCheck %s --check-prefix=BACK

// Kernels that need declarations alone, two in a module.
// CHECK:      module {
// CHECK-NEXT:   module {
// CHECK-NEXT:     func.func private @join(!llvm.ptr)
// CHECK-NEXT:     func.func @kernel_0
// CHECK:          func.func @kernel_1
// CHECK-NEXT:       call @join
// CHECK-NEXT:       return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT:   module {
// CHECK-NEXT:     func.func @kernel_2
// CHECK-NEXT:       return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// The rest: what kernels call, and who calls it.
// CHECK-NEXT:   module {
// CHECK-NEXT:     func.func private @join(!llvm.ptr)
// CHECK-NEXT:     func.func @calls_helper
// CHECK:          func.func @helper
// CHECK-NEXT:       return
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: }

// BACK:         module {
// BACK-NEXT:      func.func private @join(!llvm.ptr)
// BACK-NEXT:      func.func @kernel_0
// BACK:           func.func @kernel_1
// BACK:           func.func @kernel_2
// BACK:           func.func @calls_helper
// BACK:           func.func @helper
// BACK-NOT:       @join(!llvm.ptr)
// BACK-NOT:       module

func.func private @join(!llvm.ptr)

func.func @kernel_0(%team: !llvm.ptr) {
  func.call @join(%team) : (!llvm.ptr) -> ()
  func.call @join(%team) : (!llvm.ptr) -> ()
  return
}

func.func @helper() {
  return
}

func.func @kernel_1(%team: !llvm.ptr) {
  func.call @join(%team) : (!llvm.ptr) -> ()
  return
}

func.func @calls_helper() {
  func.call @helper() : () -> ()
  return
}

func.func @kernel_2() {
  return
}
