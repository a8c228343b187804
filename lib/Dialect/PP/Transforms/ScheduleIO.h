//===- ScheduleIO.h - Schedules between IR and planner ----------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_PP_TRANSFORMS_SCHEDULEIO_H
#define PP_LIB_DIALECT_PP_TRANSFORMS_SCHEDULEIO_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Planner/PipelinePlan.h"

namespace pp::pipeline {

/// A value that crosses from one stage to another, as the outlined step shows
/// it. Once it has a `pp.channel`, that says the same.
struct Crossing {
  StageOp producer;
  unsigned result;
  int64_t to;
  Phase toPhase;
  Phase lastReader;
  bool isPortal;

  mlir::Value value() { return producer.getOutputs()[result]; }
};

/// All crossings of an outlined step, in the order of their first reader.
llvm::SmallVector<Crossing> findCrossings(mlir::func::FuncOp step);

/// The planner's view of the crossings: channel i is crossing i.
std::vector<planner::Channel>
toChannels(llvm::MutableArrayRef<Crossing> crossings);

/// The channels of a module. Their numbers, in planner and plan, are their
/// order.
class ChannelTable {
public:
  explicit ChannelTable(mlir::ModuleOp module);

  llvm::ArrayRef<ChannelOp> all() const { return channels; }
  /// Numbers of symbols that the verifier has resolved.
  int numberOf(mlir::FlatSymbolRefAttr name) const {
    return numbers.at(name.getAttr());
  }
  mlir::FlatSymbolRefAttr nameOf(int number) const {
    ChannelOp channel = channels[number];
    return mlir::FlatSymbolRefAttr::get(channel.getSymNameAttr());
  }
  /// The planner's view.
  std::vector<planner::Channel> toPlanner() const;

private:
  llvm::SmallVector<ChannelOp> channels;
  llvm::DenseMap<mlir::StringAttr, int> numbers;
};

/// The only schedule of the module; null with an error if there is none.
ScheduleOp findSchedule(mlir::ModuleOp module);

/// The schedule for the planner, with the groups of its replicas. With replicas
/// of stages, its stages are these, and its channels lead from each to each.
planner::Schedule toPlanner(ScheduleOp op, const ChannelTable &channels);

/// Of virtual workers with ranks of their own, the schedule of each: its lists
/// stand behind each other, and a list with a stage that the worker has already
/// is the first of the next one. Else that of all.
std::vector<planner::Schedule> toWorkers(ScheduleOp op,
                                         const ChannelTable &channels);

/// Whether there is a number of replicas for each stage of the step, and for
/// those that channels name, if there are replicas of stages. Else emits an
/// error.
mlir::LogicalResult checkStageReplicas(ScheduleOp op, mlir::func::FuncOp step);

/// The replicas of stages, without actions and channels; no stages if `op` has
/// none.
planner::Schedule toReplicas(ScheduleOp op);

/// The action lists as an attribute. Fails with an error at `loc` for actions
/// that only the planner knows.
mlir::FailureOr<mlir::ArrayAttr> toRanks(mlir::Location loc,
                                         const planner::Schedule &schedule,
                                         const ChannelTable &channels);

/// The same for the lists of several schedules, behind each other.
mlir::FailureOr<mlir::ArrayAttr>
toRanks(mlir::Location loc, llvm::ArrayRef<planner::Schedule> schedules,
        const ChannelTable &channels);

/// Proves that every value that crosses has its channel and that the schedule
/// is right, in all replicas together. Emits an error for each fault.
mlir::LogicalResult verifySchedule(ScheduleOp op, mlir::func::FuncOp step);

/// True if the step has a backward phase.
bool isTraining(mlir::func::FuncOp step);

/// By stage, whether it has the phase prepare.
std::vector<bool> findPreparingStages(mlir::func::FuncOp step);

/// Number of stages of an outlined step.
int64_t countStages(mlir::func::FuncOp step);

} // namespace pp::pipeline

#endif // PP_LIB_DIALECT_PP_TRANSFORMS_SCHEDULEIO_H
