//===- AutomaticSchedule.h - Search the order of a plan -------------------===//
#ifndef PP_LIB_PLANNER_PLANSEARCH_AUTOMATICSCHEDULE_H
#define PP_LIB_PLANNER_PLANSEARCH_AUTOMATICSCHEDULE_H

#include "pp/Planner/PlanEvaluation.h"
#include "pp/Planner/Schedule/Generators.h"

namespace pp::planner {

struct AutomaticSchedule {
  Schedule schedule;
  std::string name; // "auto (", where it comes from, ")".
};

/// searchSchedule with the times, the transfers and the memory of a draft. Of
/// its schedule only the ranks of the stages are read.
Result<AutomaticSchedule> searchAutomatically(const PlanDraft &draft,
                                              PipelineShape pipeline);

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PLANSEARCH_AUTOMATICSCHEDULE_H
