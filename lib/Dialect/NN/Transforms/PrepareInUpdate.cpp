//===- PrepareInUpdate.cpp - Let the update write short parameters --------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace pp::nn {
#define GEN_PASS_DEF_PREPAREINUPDATE
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// The cast that is all that a kernel does; null if it does something else.
static CastOp getOnlyCast(KernelOp kernel) {
  auto operations = kernel.getBody().front().without_terminator();
  return llvm::hasSingleElement(operations)
             ? dyn_cast<CastOp>(*operations.begin())
             : CastOp();
}

static bool isRounding(CastOp cast) {
  auto to = dyn_cast<FloatType>(cast.getOutput().getType().getElementType());
  return cast.getInput().getType().getElementType().isF32() && to &&
         to.getWidth() == 16;
}

namespace {

struct PrepareInUpdate : nn::impl::PrepareInUpdateBase<PrepareInUpdate> {
  void runOnOperation() override {
    FailureOr<func::FuncOp> function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    llvm::StringSet<> known;
    Type element;
    for (auto kernel : function->getOps<KernelOp>()) {
      CastOp cast = getOnlyCast(kernel);
      if (step::getPhase(kernel) != Phase::Prepare || !cast ||
          !isRounding(cast))
        continue;
      auto parameter = kernel.getInputs()[0].getDefiningOp<ParameterOp>();
      Type own = cast.getOutput().getType().getElementType();
      // The function that rounds has one type.
      if (!parameter || (element && own != element) || !isHanded(kernel) ||
          !isTrained(parameter) || !known.insert(parameter.getSymbol()).second)
        continue;
      element = own;
      kernel->setAttr(step::preparedByUpdateAttrName,
                      UnitAttr::get(&getContext()));
    }
  }

  /// What P alone reads lies where P puts other things too.
  static bool isHanded(KernelOp kernel) {
    return llvm::any_of(kernel->getUsers(), [](Operation *user) {
      return !isa<KernelOp>(user) || step::getPhase(user) != Phase::Prepare;
    });
  }

  bool isTrained(ParameterOp parameter) {
    auto global = getOperation().lookupSymbol<ml_program::GlobalOp>(
        parameter.getSymbol());
    return global && global->hasAttr(trainedAttrName);
  }
};

} // namespace
