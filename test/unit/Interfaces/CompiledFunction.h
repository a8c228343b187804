//===- CompiledFunction.h - Runs a function of the nn dialect ---*- C++ -*-===//

#ifndef PP_TEST_UNIT_INTERFACES_COMPILEDFUNCTION_H
#define PP_TEST_UNIT_INTERFACES_COMPILEDFUNCTION_H

#include "cpu/LibraryKernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include <memory>
#include <vector>

namespace pp {

/// The kernels of a module's @main, as the compiler makes them for processors,
/// in memory of this process. Elements are float, double, 64-bit integers or
/// booleans, and seen as double from outside.
class CompiledFunction {
public:
  using Numbers = std::vector<double>;

  /// Forms and compiles the kernels of `module`, which this changes.
  static llvm::Expected<CompiledFunction> create(mlir::ModuleOp module);

  /// Computes the results of @main.
  std::vector<Numbers> run(llvm::ArrayRef<Numbers> arguments);

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  using Kernel = void (*)(void **);
  /// A generated kernel, or else one of the library.
  struct Step {
    Kernel kernel;
    std::unique_ptr<runtime::LibraryKernel> library;
    void *scratchpad;
    std::vector<void *> tensors;
  };

  void *allocate(size_t bytes);
  llvm::Error compile(mlir::ModuleOp code);
  llvm::Error plan(mlir::func::FuncOp function);
  llvm::Error planKernel(mlir::Operation *op);
  void *&bufferOf(mlir::Value value);

  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<std::unique_ptr<void, Free>> memory;
  llvm::DenseMap<mlir::Value, void *> buffers;
  std::vector<Step> steps;
  std::vector<mlir::Value> arguments, results;
};

} // namespace pp

#endif // PP_TEST_UNIT_INTERFACES_COMPILEDFUNCTION_H
