//===- RankTogether.cpp - W of several micro-batches at once --------------===//
#include "exec/ExecutorState.h"

#include <algorithm>

using namespace pp::runtime;

void Executor::Rank::joinWeights(std::vector<CompiledAction> &actions) const {
  const Plan &plan = state.program.getPlan();
  if (!state.program.getDevice().isHostMemory())
    return;
  for (size_t i = 0; i < actions.size();) {
    const PlanAction &first = actions[i].action;
    size_t end = i + 1;
    if (first.kind == ActionKind::BackwardWeight)
      while (end < actions.size() && actions[end].action.kind == first.kind &&
             actions[end].action.stage == first.stage &&
             end - i < plan.stages[first.stage].weightsTogether)
        actions[end++].together = 0;
    actions[i].together = static_cast<unsigned>(end - i);
    i = end;
  }
}

void Executor::Rank::enqueueTogether(std::span<const CompiledAction> actions,
                                     Step &step, EnqueuedStep &into) {
  const unsigned present = state.program.getPlan().microbatchesWith(step.rows);
  std::vector<PhaseCall::WithFirst> calls;
  for (const CompiledAction &one : actions)
    if (one.action.microbatch < present)
      for (PhaseCall *call : one.calls)
        calls.push_back({call, isFirstWrite(one.action, call->getPhase())});
  KernelTimer *timer = into.timer ? &*into.timer : nullptr;
  // What is looked at belongs to one micro-batch.
  if (std::ranges::any_of(calls,
                          [](const auto &one) { return one.call->isProbed(); }))
    for (auto [call, isFirst] : calls)
      call->enqueue(*streams.compute, step,
                    stepsEnqueued.load(std::memory_order_relaxed),
                    /*useGraphs=*/false, timer, isFirst);
  else
    PhaseCall::enqueueTogether(calls, *streams.compute, step, timer);
  for (const CompiledAction &one : actions)
    if (one.action.microbatch < present)
      for (unsigned channel : one.releases)
        state.transport->release(channel, one.action.microbatch, streams);
}

void Executor::Rank::shareTimes(EnqueuedStep &over) const {
  if (!state.program.getPlan().flushes)
    return;
  const std::vector<CompiledAction> &actions = rounds.front();
  for (size_t i = 0; i < actions.size(); ++i) {
    const size_t end = i + actions[i].together;
    if (end < i + 2)
      continue;
    const int64_t begin = over.times[i], all = over.times[end] - begin;
    const auto ran =
        end - i -
        std::count(over.numbers.begin() + i, over.numbers.begin() + end, 0);
    for (size_t share = 1; share < ran; ++share)
      over.times[i + share] = begin + all * int64_t(share) / int64_t(ran);
  }
}
