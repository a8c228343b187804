//===- PlanPage.h - A plan as a web page ------------------------*- C++ -*-===//

#ifndef PP_REPORT_PLANPAGE_H
#define PP_REPORT_PLANPAGE_H

#include "pp/Planner/PlanSearch.h"
#include "llvm/Support/raw_ostream.h"

namespace pp {

/// One HTML file that needs nothing else: the graph coloured by stage, the
/// timeline, the memory of each rank over time.
void writePage(const planner::PlanCandidate &candidate,
               const planner::PlanEvaluation &evaluation,
               llvm::raw_ostream &os);

} // namespace pp

#endif // PP_REPORT_PLANPAGE_H
