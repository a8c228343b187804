//===- Passes.td - Lowering to code ----------------------------*- tablegen -*-===//

#ifndef PP_CONVERSION_PASSES_TD
#define PP_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerKernels : Pass<"nn-lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Make a function for each generated kernel";
  let description = [{
    Adds a nested module `@code` with one function per distinct generated kernel
    (kernels that do the same share one): memrefs in, memrefs out, linalg on
    memrefs inside. The kernel gets an attribute `pp.callee`. Library kernels stay
    as they are.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
  let options = [
    Option<"lanes", "lanes", "unsigned", "1",
           "Numbers of a vector; 1: for the threads of a GPU. Rows with "
           "exponentials that do not fill vectors are copied into memory that "
           "does; sums along an axis are sums of vectors if what is behind it "
           "fills them">];
}

def MakeLaunches : Pass<"pp-make-launches", "::mlir::ModuleOp"> {
  let summary = "Make GPU kernels of the functions of generated kernels";
  let description = [{
    Each loop nest of a function in `@code` becomes a `gpu.func` of the module
    `@device`, and the function goes away. An operation that called it gets
    `pp.launch`, the descriptor of the launches (docs/plan-format.md), and
    `pp.launch_scratchpad`, the bytes that go from one launch to the next. The
    optimizer becomes one kernel over a whole arena.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def ConvertDevice : Pass<"pp-convert-device", "::mlir::gpu::GPUModuleOp"> {
  let summary = "Convert kernels of a GPU to the LLVM and NVVM dialects";
  let description = [{
    Memrefs become bare pointers. No function of CUDA's libdevice is called, so
    a GPU's code can be made without a toolkit.
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def TileTransposes : Pass<"pp-tile-transposes"> {
  let summary = "Transpose squares in registers";
  let description = [{
    For processors. A loop nest that only brings elements into another order of
    axes reads or writes one element of each line of the cache at a time, and
    comes back for the next one when the line has left. Of matrices that have at
    least 8 rows and columns, squares of 8 x 8 are read, transposed and written
    as vectors instead, in tiles of 16 x 16 where there are as many:

    ```
                                 scf.for %turn ... {pp.rows}
    linalg.generic                 scf.for %column_tile ...
      (i, j) -> (j, i)     =>        scf.for %row_tile ...
      (i, j) -> (i, j)                 8 x vector.load : vector<8xf32>
                                       vector.shuffle ...
                                       8 x vector.store
    ```

    Axes that lie behind each other on both sides count as one.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def SplitKernels : Pass<"pp-split-kernels", "::mlir::ModuleOp"> {
  let summary = "Let several threads run a generated kernel together";
  let description = [{
    Runs on `@code`. The function of a kernel that is worth it gets three
    arguments: that of `pp_join_parts`, the number of the thread, and how many
    there are. Of each loop nest, the threads share the iterations of a loop that
    has nothing to do with each other, so every number is computed as by one
    thread; a nest without such a loop is run by the first thread. Between two
    nests the threads wait for each other.

    ```
    linalg.generic ...              affine.for %i = %begin to %end {
      ["parallel", "reduction"]  =>   affine.for %j = 0 to 768 { ... } }
    linalg.generic ...              call @pp_join_parts(%team)
      ["reduction"]                 scf.if %is_first { linalg.generic ... }
    ```

    A kernel is split whatever the number of threads: one body of code computes
    the same bits for each.
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect"];
}

def GroupKernels : Pass<"pp-group-kernels", "::mlir::ModuleOp"> {
  let summary = "Put kernels into modules that are lowered side by side";
  let description = [{
    Runs on `@code`. A pass on a module has one thread; passes on the modules in
    it have as many as the machine. Functions that refer to declarations alone
    are moved into modules of `size` with copies of these; all else is in a last
    one. These modules have no names. `pp-ungroup-kernels` takes the functions
    out again.

    ```
    func.func private @join(!llvm.ptr)     module {
    func.func @kernel_0(...) {               func.func private @join(!llvm.ptr)
      call @join(%team) ...           =>     func.func @kernel_0(...) { ... }
    func.func @kernel_1(...) { ... }         func.func @kernel_1(...) { ... }
                                           }
                                           module {
                                             func.func private @join(!llvm.ptr)
                                           }
    ```
  }];
  let options = [
    Option<"size", "size", "unsigned", "32", "Functions of a group, at least 1">];
}

def UngroupKernels : Pass<"pp-ungroup-kernels", "::mlir::ModuleOp"> {
  let summary = "Take kernels out of their groups";
  let description = [{
    Undoes `pp-group-kernels`. Of what several groups declare, one declaration
    is left.
  }];
}

def WidenBooleans : Pass<"pp-widen-booleans"> {
  let summary = "Read and write booleans as bytes";
  let description = [{
    A boolean takes a byte of memory, 0 or 1. LLVM makes no vector code of loops
    that read or write an `i1`:

    ```
    %b = llvm.load %p : !llvm.ptr -> i1     %x = llvm.load %p : !llvm.ptr -> i8
                                            %b = llvm.icmp "ne" %x, %zero : i8
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def LowerToMock : Pass<"pp-lower-to-mock", "::mlir::ModuleOp"> {
  let summary = "Turn kernels of a GPU into functions of one thread on the host";
  let description = [{
    For the target `mock`, which runs what `cuda` runs without a GPU. Each
    `gpu.func` of `@device` becomes a function in `@code`, and `@device` goes
    away. The function runs one thread: it takes the kernel's arguments, the
    memory that the block shares, the number of the block and that of the
    thread. Barriers and shuffles become calls of the runtime, which switches to
    the block's other threads:

    ```
    gpu.barrier                      pp_mock_barrier(place)
    gpu.shuffle xor %x, %mask, 32    pp_mock_shuffle(%x, %mask, place)
    memref.load %x[%i]               unless %i is inside: pp_mock_fault
    ```

    `place` numbers the barriers and shuffles of a kernel, so that the runtime
    sees whether threads wait at different ones. Accesses outside of a memref,
    which become accesses of its first element, and vectors that do not start at
    multiples of their size are reported. The attribute `pp.mock_kernel`
    holds what the runtime has to know: the bytes of shared memory and whether
    threads wait for each other.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::pp::pipeline::PPDialect"];
}

def ApproximateMath : Pass<"pp-approximate-math"> {
  let summary = "Replace transcendental functions by polynomials";
  let description = [{
    Polynomials run in vector lanes; calls of libm do not. Errors are a few units
    in the last place.

    A division by a constant becomes two products and two sums where these give
    the rounded quotient, of all but numbers near the smallest.
  }];
  let dependentDialects = ["::mlir::vector::VectorDialect"];
}

def LowerStages : Pass<"pp-lower-stages", "::mlir::ModuleOp"> {
  let summary = "Make a function for each phase of each stage";
  let description = [{
    Adds to `@code` an `llvm.func` per `pp.stage` that calls the kernels, in order,
    on constant offsets of the stage's memory areas (runtime/include/pprt/pprt.h
    has the signature), and the optimizer's loop over an arena. Expects
    `@code` in the LLVM dialect and buffers from `pp-plan-memory`.

    With `mark-kernels`, kernels are numbered from 0 on in their attribute
    `pp.mark`, and a phase calls `pp_mark_kernel(i64)` with the number before each
    kernel, and with -1 after the last: whoever defines that function can take
    the time of each kernel where it runs.
  }];
  let options = [
    Option<"markKernels", "mark-kernels", "bool", "false",
      "Call pp_mark_kernel around each kernel">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // PP_CONVERSION_PASSES_TD
