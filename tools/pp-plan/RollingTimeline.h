//===- RollingTimeline.h - Schedules without a flush, drawn -----*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_ROLLINGTIMELINE_H
#define PP_TOOLS_PP_PLAN_ROLLINGTIMELINE_H

#include "ScheduleReport.h"
#include "pp/Planner/Schedule/Generators.h"

namespace pp {

/// Proves the schedule without a flush of this name, prints what its steady
/// state takes, what it keeps and how old its gradients are, and draws its
/// first micro-batches: three updates, or all of them where an update has one.
/// `shape.microbatches` are those of an update; of pipedream, those that are
/// drawn. Returns what is drawn.
llvm::Expected<SimulatedSchedule>
showRollingTimeline(llvm::StringRef name, planner::PipelineShape shape,
                    const PipelineTimes &times, llvm::raw_ostream &os);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_ROLLINGTIMELINE_H
