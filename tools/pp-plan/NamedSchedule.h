//===- NamedSchedule.h - Schedules by name ----------------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_NAMEDSCHEDULE_H
#define PP_TOOLS_PP_PLAN_NAMEDSCHEDULE_H

#include "ScheduleReport.h"
#include "pp/Planner/Schedule/Generators.h"
#include "pp/Planner/Schedule/Search.h"

namespace pp {

/// What "auto" looks for.
struct ScheduleWish {
  planner::SearchObjective objective = planner::SearchObjective::Makespan;
  /// The most micro-batches that a rank keeps at once, those of all its stages
  /// added up; 0: no limit.
  int64_t kept = 0;
};

/// The schedule of this name (makeSchedule), or what searchSchedule finds for
/// "auto", on a plain pipeline. Where the shape has no stages, it gets as many
/// as the name usually has. Prints how the searched one began on `os`. Fails if
/// there is no such schedule or it does not fit the shape.
llvm::Expected<SimulatedSchedule>
makeNamedSchedule(llvm::StringRef name, planner::PipelineShape shape,
                  const PipelineTimes &times, const ScheduleWish &wish,
                  llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_NAMEDSCHEDULE_H
