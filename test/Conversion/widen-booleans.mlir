// RUN: pp-opt %s --pp-widen-booleans | FileCheck %s

// CHECK-LABEL: @booleans
// CHECK: %[[X:.+]] = llvm.load %arg0 : !llvm.ptr -> i8
// CHECK: %[[ZERO:.+]] = llvm.mlir.constant(0 : i8)
// CHECK: %[[B:.+]] = llvm.icmp "ne" %[[X]], %[[ZERO]]
// CHECK: %[[N:.+]] = llvm.xor %[[B]], %{{.+}} : i1
// CHECK: %[[WIDE:.+]] = llvm.zext %[[N]] : i1 to i8
// CHECK: llvm.store %[[WIDE]], %arg1 : i8
llvm.func @booleans(%arg0: !llvm.ptr, %arg1: !llvm.ptr) {
  %true = llvm.mlir.constant(true) : i1
  %0 = llvm.load %arg0 : !llvm.ptr -> i1
  %1 = llvm.xor %0, %true : i1
  llvm.store %1, %arg1 : i1, !llvm.ptr
  llvm.return
}

// CHECK-LABEL: @others
// CHECK: %[[X:.+]] = llvm.load %arg0 : !llvm.ptr -> i32
// CHECK-NEXT: llvm.store %[[X]], %arg1 : i32
llvm.func @others(%arg0: !llvm.ptr, %arg1: !llvm.ptr) {
  %0 = llvm.load %arg0 : !llvm.ptr -> i32
  llvm.store %0, %arg1 : i32, !llvm.ptr
  llvm.return
}
