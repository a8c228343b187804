//===- VerifySchedule.cpp - Prove that a schedule is right ----------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Verify.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct VerifySchedule : pipeline::impl::VerifyScheduleBase<VerifySchedule> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    func::FuncOp step = findStep(getOperation());
    ScheduleOp op = step ? findSchedule(getOperation()) : ScheduleOp();
    if (!op)
      return signalPassFailure();
    // Channels that the step no longer has, or new ones, would leave a value
    // unsent.
    SmallVector<Crossing> crossings = findCrossings(step);
    auto channels = llvm::to_vector(getOperation().getOps<ChannelOp>());
    if (crossings.size() != channels.size()) {
      op.emitOpError() << "has " << channels.size() << " channels, but "
                       << crossings.size() << " values cross between stages";
      return signalPassFailure();
    }
    for (auto [crossing, channel] : llvm::zip(crossings, channels))
      if (crossing.producer.getStage() != channel.getFrom() ||
          crossing.producer.getPhase() != channel.getFromPhase() ||
          crossing.result != channel.getResult() ||
          crossing.to != static_cast<int64_t>(channel.getTo()) ||
          crossing.toPhase != channel.getToPhase()) {
        channel.emitOpError()
            << "'" << channel.getSymName()
            << "' does not connect what the step connects here";
        return signalPassFailure();
      }
    auto schedule = readSchedule(op, toChannels(crossings));
    if (failed(schedule))
      return signalPassFailure();
    if (schedule->stages != countStages(step)) {
      op.emitOpError() << "schedules " << schedule->stages << " stages, but "
                       << "the step has " << countStages(step);
      return signalPassFailure();
    }
    std::vector<std::string> faults = planner::verifySchedule(*schedule);
    // A fault of one copy is one of all, and its text is shorter.
    if (faults.empty() && op.getReplicas() > 1) {
      auto all = planner::replicatePipeline(
          *schedule,
          static_cast<int>(std::min<uint64_t>(op.getReplicas(), INT_MAX)));
      faults = all ? planner::verifySchedule(*all)
                   : std::vector<std::string>{all.error()};
    }
    for (const std::string &fault : faults)
      op.emitOpError() << "is wrong: " << fault;
    if (!faults.empty())
      signalPassFailure();
  }
};

} // namespace
