//===- ScheduleIO.h - Schedules between IR and planner ----------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_PP_TRANSFORMS_SCHEDULEIO_H
#define PP_LIB_DIALECT_PP_TRANSFORMS_SCHEDULEIO_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Planner/PipelinePlan.h"

namespace pp::pipeline {

/// A value that crosses from one stage to another, as the outlined step shows
/// it. The planner's channel i is entry i.
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

/// The result of a stage (or the argument) behind an operand of a stage: seen
/// through portals.
mlir::Value throughPortals(mlir::Value value);

/// The kind of a crossing: next, portal, gradient or gradient_portal.
llvm::StringRef getKind(Crossing &crossing);

/// The planner's view of the crossings.
std::vector<planner::Channel>
toChannels(llvm::MutableArrayRef<Crossing> crossings);

/// The only schedule of the module; null with an error if there is none.
ScheduleOp findSchedule(mlir::ModuleOp module);

/// Reads the schedule back; fails with an error on the op.
mlir::FailureOr<planner::Schedule>
readSchedule(ScheduleOp op, std::vector<planner::Channel> channels);

/// The action lists as an attribute.
mlir::ArrayAttr writeRanks(mlir::MLIRContext *context,
                           const planner::Schedule &schedule);

/// Reads a file of pp-plan; fails with an error on the module.
mlir::FailureOr<planner::PipelinePlan> readPlan(mlir::ModuleOp module,
                                                llvm::StringRef path);

/// True if the step has a backward phase.
bool isTraining(mlir::func::FuncOp step);

/// Number of stages of an outlined step.
int64_t countStages(mlir::func::FuncOp step);

} // namespace pp::pipeline

#endif // PP_LIB_DIALECT_PP_TRANSFORMS_SCHEDULEIO_H
