//===- Generators.h - Schedules by name -----------------------------------===//
//
// All generators make the compute actions only (insertTransfers adds the
// rest), for one stage per rank and any number of micro-batches from 1.
// Backward passes are in the order 0, 1, ..., so that gradients are summed in
// the same order under every schedule.
//
//===----------------------------------------------------------------------===//
#ifndef PP_PLANNER_SCHEDULE_GENERATORS_H
#define PP_PLANNER_SCHEDULE_GENERATORS_H

#include "pp/Planner/Schedule/Schedule.h"

namespace pp::planner {

struct PipelineShape {
  int stages = 1;
  int microbatches = 1;
};

/// Forward only.
Result<Schedule> inferenceSchedule(PipelineShape shape);

/// All forwards, then all backwards (Huang et al., "GPipe", NeurIPS 2019).
/// Every rank keeps all micro-batches at once.
Result<Schedule> gpipeSchedule(PipelineShape shape);

/// One forward, one backward, with a flush (Narayanan et al., "Memory-Efficient
/// Pipeline-Parallel DNN Training", ICML 2021): rank r of p starts with
/// min(m, p - 1 - r) forwards and keeps min(m, p - r) micro-batches at most.
Result<Schedule> oneForwardOneBackwardSchedule(PipelineShape shape);

/// By the name that users know: "inference", "gpipe", "1f1b". Fails with the
/// list of names.
Result<Schedule> makeSchedule(std::string_view name, PipelineShape shape);

} // namespace pp::planner

#endif // PP_PLANNER_SCHEDULE_GENERATORS_H
