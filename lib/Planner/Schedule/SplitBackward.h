//===- SplitBackward.h - The loop of one-stage zero-bubble schedules ------===//
#ifndef PP_LIB_PLANNER_SCHEDULE_SPLITBACKWARD_H
#define PP_LIB_PLANNER_SCHEDULE_SPLITBACKWARD_H

#include "PipelineBuilder.h"
#include <algorithm>

namespace pp::planner {

/// One stage: `warmup` forwards, then I, W and F in turn, where W stays
/// `delay` micro-batches behind I. The weights that are left come last: they
/// fill the time in which 1F1B waits for gradients of later stages.
inline void addSplitBackward(int stage, int microbatches, int warmup, int delay,
                             std::vector<Action> &actions) {
  int forwards = 0, weights = 0;
  auto forward = [&] {
    if (forwards < microbatches)
      actions.push_back({ActionKind::Forward, stage, forwards++});
  };
  for (int i = 0; i < std::min(warmup, microbatches); ++i)
    forward();
  for (int i = 0; i < microbatches; ++i) {
    actions.push_back({ActionKind::BackwardInput, stage, i});
    if (i >= delay)
      actions.push_back({ActionKind::BackwardWeight, stage, weights++});
    forward();
  }
  while (weights < microbatches)
    actions.push_back({ActionKind::BackwardWeight, stage, weights++});
  actions.push_back({ActionKind::Update, stage});
}

} // namespace pp::planner

#endif // PP_LIB_PLANNER_SCHEDULE_SPLITBACKWARD_H
