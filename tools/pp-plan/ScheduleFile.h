//===- ScheduleFile.h - Schedules that others wrote -------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_SCHEDULEFILE_H
#define PP_TOOLS_PP_PLAN_SCHEDULEFILE_H

#include "ScheduleReport.h"

namespace pp {

/// Reads a CSV file in PyTorch's notation, proves it and simulates it on a
/// plain pipeline. Sends and receives are inserted if it has none. What was
/// read in another sense than it says is noted on `os`. Fails with all faults
/// if it is wrong.
llvm::Expected<SimulatedSchedule> readScheduleFile(llvm::StringRef path,
                                                   const PipelineTimes &times,
                                                   llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_SCHEDULEFILE_H
