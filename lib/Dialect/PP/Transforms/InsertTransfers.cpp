//===- InsertTransfers.cpp - Insert sends and receives --------------------===//

#include "ScheduleIO.h"
#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Planner/Schedule/Replicas.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Planner/Schedule/Transfers.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_INSERTTRANSFERS
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

/// Makes the channels of a step and names them where values leave and arrive.
class ChannelBuilder {
public:
  ChannelBuilder(ModuleOp module, func::FuncOp step, ScheduleOp schedule)
      : symbols(module), step(step), schedule(schedule),
        crossings(findCrossings(step)), planned(toChannels(crossings)) {}

  /// The planner's view: channel i becomes the i-th `pp.channel`.
  const std::vector<planner::Channel> &channels() const { return planned; }

  void run() {
    for (size_t index = 0; index < crossings.size(); ++index)
      create(crossings[index], planned[index].name);
    findFetches();
    step.walk([&](StageOp stage) { setEnds(stage); });
  }

private:
  static ChannelKind kindOf(Crossing &crossing) {
    bool forward = crossing.producer.getPhase() == Phase::Forward;
    if (crossing.isPortal)
      return forward ? ChannelKind::Portal : ChannelKind::GradientPortal;
    return forward ? ChannelKind::Next : ChannelKind::Gradient;
  }

  void create(Crossing &crossing, const std::string &name) {
    OpBuilder builder(schedule);
    auto channel = ChannelOp::create(
        builder, crossing.producer.getLoc(), "c" + std::to_string(made++),
        kindOf(crossing), crossing.producer.getStage(),
        crossing.producer.getPhase(), crossing.to, crossing.toPhase,
        crossing.lastReader, name, /*release=*/nullptr,
        /*sendOffset=*/nullptr, /*sendSlots=*/nullptr,
        /*receiveOffset=*/nullptr, /*receiveSlots=*/nullptr,
        cast<RankedTensorType>(crossing.value().getType()));
    auto end = EndAttr::get(FlatSymbolRefAttr::get(symbols.insert(channel)));
    targets[crossing.value()].push_back(end);
    sources[{crossing.value(), crossing.to}] = end;
  }

  void findFetches() {
    bool training = isTraining(step);
    Operation *terminator = step.getBody().front().getTerminator();
    for (auto [number, returned] : llvm::enumerate(terminator->getOperands())) {
      auto name =
          step.getResultAttrOfType<StringAttr>(number, step::fetchAttrName);
      bool isLoss = training && name && name.getValue() == "loss";
      targets[lookThroughViews(returned)].push_back(EndAttr::get(
          step.getContext(), isLoss ? EndKind::Loss : EndKind::Fetch,
          isLoss ? 0 : number));
    }
    step.walk([&](StashOp stash) {
      stashed[stash.getPortalAttr()] = stash.getValue();
    });
  }

  EndAttr sourceOf(Value operand, StageOp stage) {
    MLIRContext *context = step.getContext();
    if (auto argument = dyn_cast<BlockArgument>(operand)) {
      if (step::getRole(step, argument.getArgNumber()) == step::Role::LossScale)
        return EndAttr::get(context, EndKind::LossScale);
      return EndAttr::get(context, EndKind::Feed, argument.getArgNumber());
    }
    if (auto pop = operand.getDefiningOp<PopOp>())
      operand = stashed.lookup(pop.getPortalAttr());
    auto source =
        sources.find({operand, static_cast<int64_t>(stage.getStage())});
    if (source != sources.end())
      return source->second;
    auto producer = operand.getDefiningOp<StageOp>();
    bool isPrepared = producer && producer.getPhase() == Phase::Prepare;
    return EndAttr::get(context,
                        isPrepared ? EndKind::Prepared : EndKind::Residual);
  }

  void setEnds(StageOp stage) {
    Builder builder(step.getContext());
    SmallVector<Attribute> ends, lists;
    for (Value operand : stage.getInputs())
      ends.push_back(sourceOf(operand, stage));
    for (Value result : stage.getOutputs())
      lists.push_back(builder.getArrayAttr(targets.lookup(result)));
    stage.setSourcesAttr(builder.getArrayAttr(ends));
    stage.setTargetsAttr(builder.getArrayAttr(lists));
  }

  SymbolTable symbols;
  func::FuncOp step;
  ScheduleOp schedule;
  SmallVector<Crossing> crossings;
  std::vector<planner::Channel> planned;
  size_t made = 0;
  DenseMap<Value, SmallVector<Attribute>> targets;
  DenseMap<std::pair<Value, int64_t>, EndAttr> sources;
  DenseMap<Attribute, Value> stashed;
};

struct InsertTransfers : pipeline::impl::InsertTransfersBase<InsertTransfers> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp step = findStep(module);
    ScheduleOp op = step ? findSchedule(module) : ScheduleOp();
    if (!op)
      return signalPassFailure();
    if (!module.getOps<ChannelOp>().empty()) {
      op.emitOpError("has transfers already");
      return signalPassFailure();
    }
    if (failed(checkStageReplicas(op, step)))
      return signalPassFailure();
    ChannelBuilder builder(module, step, op);
    if (op.getVersions())
      return insertRolling(op, builder);
    planner::Schedule planned = toPlanner(op, ChannelTable(module));
    auto result =
        planned.replicas.empty()
            ? planner::insertTransfers(planned, builder.channels())
            : planner::insertTransfers(
                  planned,
                  planner::replicateChannels(planned, builder.channels()));
    if (!result) {
      op.emitOpError() << "cannot get its transfers: " << result.error();
      return signalPassFailure();
    }
    builder.run();
    auto ranks = toRanks(op.getLoc(), *result, ChannelTable(module));
    if (failed(ranks))
      return signalPassFailure();
    op.setRanksAttr(*ranks);
  }

  /// Without a flush.
  void insertRolling(ScheduleOp op, ChannelBuilder &builder) {
    ModuleOp module = getOperation();
    std::vector<planner::Schedule> workers =
        toWorkers(op, ChannelTable(module));
    for (planner::Schedule &worker : workers) {
      auto result = planner::insertRollingTransfers(
          worker, worker.replicas.empty()
                      ? builder.channels()
                      : planner::replicateChannels(worker, builder.channels()));
      if (!result) {
        op.emitOpError() << "cannot get its transfers: " << result.error();
        return signalPassFailure();
      }
      worker = *result;
    }
    builder.run();
    auto ranks = toRanks(op.getLoc(), workers, ChannelTable(module));
    if (failed(ranks))
      return signalPassFailure();
    op.setRanksAttr(*ranks);
  }
};

} // namespace
