//===- GroupKernels.cpp - Kernels in modules that are lowered side by side ===//

#include "pp/Conversion/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

namespace pp {
#define GEN_PASS_DEF_GROUPKERNELS
#define GEN_PASS_DEF_UNGROUPKERNELS
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;

namespace {

/// A function, and what it refers to.
struct Kernel {
  func::FuncOp function;
  llvm::SetVector<Operation *> symbols;

  /// Whether it can move: declarations can be in several modules.
  bool isAlone() const {
    return llvm::all_of(symbols, [](Operation *symbol) {
      auto declaration = dyn_cast_if_present<FunctionOpInterface>(symbol);
      return declaration && declaration.isExternal();
    });
  }
};

struct GroupKernels : pp::impl::GroupKernelsBase<GroupKernels> {
  using GroupKernelsBase::GroupKernelsBase;

  /// The functions that can move, and the rest.
  void classify(SmallVectorImpl<Kernel> &kernels,
                SmallVectorImpl<Operation *> &rest) {
    SymbolTable symbols(getOperation());
    llvm::DenseSet<Operation *> called;
    for (Operation &op : *getOperation().getBody()) {
      Kernel kernel{dyn_cast<func::FuncOp>(op), {}};
      if (auto uses = SymbolTable::getSymbolUses(&op))
        for (SymbolTable::SymbolUse use : *uses)
          kernel.symbols.insert(
              symbols.lookup(use.getSymbolRef().getRootReference()));
      called.insert_range(kernel.symbols);
      bool hasBody = kernel.function && !kernel.function.isExternal();
      if (hasBody && kernel.isAlone())
        kernels.push_back(std::move(kernel));
      else
        rest.push_back(&op);
    }
    llvm::erase_if(kernels, [&](Kernel &kernel) {
      if (!called.contains(kernel.function))
        return false;
      rest.push_back(kernel.function);
      return true;
    });
  }

  void runOnOperation() override {
    ModuleOp code = getOperation();
    if (size < 1) {
      code.emitError("the size of a group must be positive");
      return signalPassFailure();
    }
    SmallVector<Kernel> kernels;
    SmallVector<Operation *> rest;
    classify(kernels, rest);
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(code.getBody());
    for (size_t begin = 0; begin < kernels.size(); begin += size) {
      auto group = ModuleOp::create(builder, code.getLoc());
      llvm::DenseSet<Operation *> declared;
      for (Kernel &kernel :
           MutableArrayRef(kernels).slice(begin).take_front(size)) {
        for (Operation *declaration : kernel.symbols)
          if (declared.insert(declaration).second)
            group.push_back(declaration->clone());
        kernel.function->remove();
        group.push_back(kernel.function);
      }
    }
    auto last = ModuleOp::create(builder, code.getLoc());
    for (Operation *op : rest) {
      op->remove();
      last.push_back(op);
    }
  }
};

struct UngroupKernels : pp::impl::UngroupKernelsBase<UngroupKernels> {
  void runOnOperation() override {
    llvm::DenseSet<StringRef> names;
    for (auto group :
         llvm::make_early_inc_range(getOperation().getOps<ModuleOp>())) {
      if (group.getSymName())
        continue;
      for (Operation &op : llvm::make_early_inc_range(*group.getBody())) {
        auto symbol = dyn_cast<SymbolOpInterface>(op);
        bool isKnown = symbol && !names.insert(symbol.getName()).second;
        // Several groups declare it.
        if (!isKnown)
          op.moveBefore(group);
      }
      group.erase();
    }
  }
};

} // namespace
