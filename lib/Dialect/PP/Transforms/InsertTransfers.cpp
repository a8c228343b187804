//===- InsertTransfers.cpp - Insert sends and receives --------------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Planner/Schedule/Transfers.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_INSERTTRANSFERS
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct InsertTransfers : pipeline::impl::InsertTransfersBase<InsertTransfers> {
  void runOnOperation() override {
    func::FuncOp step = findStep(getOperation());
    ScheduleOp op = step ? findSchedule(getOperation()) : ScheduleOp();
    if (!op)
      return signalPassFailure();
    SmallVector<Crossing> crossings = findCrossings(step);
    std::vector<planner::Channel> channels = toChannels(crossings);
    auto schedule = readSchedule(op, {});
    if (failed(schedule))
      return signalPassFailure();
    auto result = planner::insertTransfers(*schedule, channels);
    if (!result) {
      op.emitOpError() << "cannot get its transfers: " << result.error();
      return signalPassFailure();
    }
    OpBuilder builder(op);
    SymbolTable symbols(getOperation());
    for (auto [index, crossing] : llvm::enumerate(crossings)) {
      auto channel = ChannelOp::create(
          builder, crossing.producer.getLoc(),
          "channel" + std::to_string(index), getKind(crossing),
          crossing.producer.getStage(), crossing.producer.getPhase(),
          crossing.result, crossing.to, crossing.toPhase, "",
          ArrayRef<int64_t>(), ArrayRef<int64_t>(), crossing.value().getType());
      channel->setAttr("value", builder.getStringAttr(channels[index].name));
    }
    op.setRanksAttr(writeRanks(&getContext(), *result));
  }
};

} // namespace
