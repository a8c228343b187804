//===- ScheduleFile.h - Schedules that others wrote -------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_SCHEDULEFILE_H
#define PP_TOOLS_PP_PLAN_SCHEDULEFILE_H

#include "pp/Planner/Simulator.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

struct ScheduleFileOptions {
  /// Of every stage, in seconds.
  planner::StageTimes times;
  /// Of a message between two ranks.
  double transfer = 0;
};

/// The schedule as PyTorch's `_load_csv` reads it: without updates.
std::string toPyTorch(planner::Schedule schedule);

/// Reads a CSV file in PyTorch's notation (computations only: its sends and
/// receives are inserted), proves it and simulates it on a plain pipeline.
/// Prints the least buffers that it needs, times, bubbles and the timeline.
/// Fails with all faults if it is wrong.
llvm::Error checkScheduleFile(llvm::StringRef path,
                              const ScheduleFileOptions &options,
                              llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_SCHEDULEFILE_H
