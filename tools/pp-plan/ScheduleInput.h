//===- ScheduleInput.h - A schedule instead of a model ----------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_SCHEDULEINPUT_H
#define PP_TOOLS_PP_PLAN_SCHEDULEINPUT_H

#include "Flags.h"

namespace pp {

/// Proves, simulates and prints the schedule that --timeline names.
llvm::Error showTimeline(const Flags &flags);

/// The same for a schedule.csv.
llvm::Error showScheduleFile(const Flags &flags);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_SCHEDULEINPUT_H
