//===- VerifyStages.cpp - What scheduling relies on -----------------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"

#include <map>

namespace pp::pipeline {
#define GEN_PASS_DEF_VERIFYSTAGES
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct VerifyStages : pipeline::impl::VerifyStagesBase<VerifyStages> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    func::FuncOp function = findStep(getOperation());
    if (!function || failed(verifyPhases(function)))
      return signalPassFailure();
    // All faults at once: who moves cuts by hand sees what else is wrong.
    bool ok = true;
    function.walk([&](StageOp stage) { ok &= succeeded(verifyFlow(stage)); });
    if (!ok)
      signalPassFailure();
  }

  /// Stages are numbered from 0 on without gaps, and each has every phase that
  /// a schedule runs, once.
  static LogicalResult verifyPhases(func::FuncOp function) {
    std::map<std::pair<int64_t, Phase>, StageOp> phases;
    bool ok = true;
    for (Operation &op : function.getBody().front().without_terminator()) {
      auto stage = dyn_cast<StageOp>(op);
      if (!stage) {
        if (!isa<StashOp, PopOp>(op) && !isView(&op)) {
          op.emitOpError("is outside of all stages; run pp-outline-stages "
                         "first");
          ok = false;
        }
        continue;
      }
      for (Operation &inner : stage.getBody().front().without_terminator())
        if (!isa<KernelOpInterface>(inner)) {
          inner.emitOpError("is not known as part of a stage");
          ok = false;
        }
      if (!phases.try_emplace({stage.getStage(), stage.getPhase()}, stage)
               .second) {
        stage.emitOpError() << "is the second of stage " << stage.getStage()
                            << " in " << nameOf(stage.getPhase());
        ok = false;
      }
    }
    int64_t stages = countStages(function);
    if (stages == 0 && !ok)
      return failure();
    if (stages == 0)
      return function.emitError("has no stages; run pp-outline-stages first");
    SmallVector<Phase> needed = {Phase::Forward};
    if (isTraining(function))
      needed.append({Phase::BackwardInput, Phase::BackwardWeight});
    for (int64_t stage = 0; stage < stages; ++stage)
      for (Phase phase : needed)
        if (!phases.contains({stage, phase})) {
          function.emitError() << "has " << stages << " stages, but stage "
                               << stage << " has no phase " << nameOf(phase);
          ok = false;
        }
    return success(ok);
  }

  /// Activations go to later stages and gradients to earlier ones; what skips
  /// stages goes through a portal.
  static LogicalResult verifyFlow(StageOp stage) {
    auto to = static_cast<int64_t>(stage.getStage());
    bool ok = true;
    for (auto [number, operand] : llvm::enumerate(stage.getInputs())) {
      auto producer = operand.getDefiningOp<StageOp>();
      if (!producer)
        continue;
      auto from = static_cast<int64_t>(producer.getStage());
      bool isPrepared = producer.getPhase() == Phase::Prepare;
      if (from == to ? !runsBefore(producer.getPhase(), stage.getPhase())
                     : isPrepared || (producer.getPhase() == Phase::Forward) !=
                                         (from < to)) {
        stage.emitOpError()
            << "reads operand " << number << " from stage " << from << " in "
            << nameOf(producer.getPhase()) << ", where no value comes from";
        ok = false;
      } else if (std::abs(from - to) > 1) {
        stage.emitOpError()
            << "reads operand " << number << " from stage " << from
            << ", which is no neighbour; run pp-insert-portals";
        ok = false;
      }
    }
    return success(ok);
  }
};

} // namespace
