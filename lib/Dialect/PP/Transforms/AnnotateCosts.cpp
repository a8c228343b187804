//===- AnnotateCosts.cpp - Predict the time of every kernel ---------------===//

#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Interfaces/CostFile.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pprt/pprt.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_ANNOTATECOSTS
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct AnnotateCosts : pipeline::impl::AnnotateCostsBase<AnnotateCosts> {
  using AnnotateCostsBase::AnnotateCostsBase;

  void runOnOperation() override {
    func::FuncOp step = findStep(getOperation());
    if (!step || failed(checkOptions()) || failed(readCostFile()))
      return signalPassFailure();
    Builder builder(&getContext());
    bool ok = true;
    for (Operation &op : step.getBody().front().without_terminator()) {
      if (!isKernel(&op))
        continue;
      auto cost = dyn_cast<CostOpInterface>(op);
      if (!cost) {
        op.emitOpError("is a kernel of unknown cost");
        ok = false;
        continue;
      }
      uint64_t flops = cost.getFlops(), read = cost.getBytesRead(),
               written = cost.getBytesWritten();
      double arithmetic =
          static_cast<double>(cost.getEffectiveFlops()) / (gflops * 1e9);
      double bytes = static_cast<double>(read + written);
      double rate = bytes <= cacheBytes * 1e6
                        ? std::max<double>(bandwidth, cacheBandwidth)
                        : bandwidth;
      double memory = bytes / (rate * 1e9);
      double seconds =
          launch + std::max(arithmetic, memory) / static_cast<double>(threads);
      if (auto known = measured.findKernel(
              threads, cast<KernelOpInterface>(op).getCostKey(),
              alone ? CostFile::Others::Idle : CostFile::Others::Busy))
        seconds = *known;
      // It is a part of the update's time.
      if (op.hasAttr(step::preparedByUpdateAttrName))
        seconds = 0;
      if (microbatches > 0 && onlyAddsToGradients(&op))
        seconds *= static_cast<double>(microbatches - 1) /
                   static_cast<double>(microbatches);
      op.setAttr(costAttrName,
                 CostAttr::get(&getContext(), flops, read, written,
                               builder.getF64FloatAttr(seconds)));
    }
    if (!ok)
      signalPassFailure();
  }

  /// What the first micro-batch of a step leaves out.
  static bool onlyAddsToGradients(Operation *op) {
    auto kernel = cast<KernelOpInterface>(op);
    SmallVector<StateReference> states = kernel.getUpdatedStates();
    return op->getNumResults() == 0 && !states.empty() &&
           kernel.getFirstDescriptor().empty() &&
           llvm::all_of(states, [](const StateReference &state) {
             return state.kind == StateKind::Gradient;
           });
  }

  LogicalResult checkOptions() {
    if (microbatches < 0)
      return getOperation().emitError()
             << "microbatches is " << microbatches.getValue()
             << ", must be 0 or more";
    if (threads < 1 || threads > PP_MOST_THREADS)
      return getOperation().emitError()
             << "threads is " << threads.getValue() << ", must be from 1 to "
             << PP_MOST_THREADS;
    if (!(gflops > 0) || !(bandwidth > 0) || !(launch >= 0) ||
        !(cacheBandwidth >= 0) || !(cacheBytes >= 0))
      return getOperation().emitError(
          "gflops and bandwidth must be positive, the others not negative");
    return success();
  }

  LogicalResult readCostFile() {
    if (costFile.empty())
      return success();
    auto file = CostFile::read(costFile, getTarget(getOperation()).str());
    if (!file)
      return getOperation().emitError() << llvm::toString(file.takeError());
    measured = std::move(*file);
    return success();
  }

  CostFile measured;
};

} // namespace
