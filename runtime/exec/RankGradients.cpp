//===- RankGradients.cpp - Gradients of a rank before the update ----------===//
#include "exec/ExecutorState.h"

#include <algorithm>
#include <cmath>

using namespace pp::runtime;

/// A stage's gradients in host memory: themselves, or a copy.
static char *gradientsOnHost(StageState &stage) {
  return stage.hostGradients ? stage.hostGradients.get()
                             : stage.memory->at(stage.plan->areas.gradients);
}

void Executor::Rank::copyGradients(bool toHost) {
  Stream &compute = *streams.compute;
  for (unsigned s : state.program.getPlan().ranks[index].stages) {
    StageState &stage = stages[s];
    const PlanArea &area = stage.plan->areas.gradients;
    if (!stage.hostGradients || !area.bytes)
      continue;
    if (toHost)
      compute.copy(stage.hostGradients.get(), stage.memory->at(area),
                   area.bytes);
    else
      compute.copy(stage.memory->at(area), stage.hostGradients.get(),
                   area.bytes);
  }
  if (!toHost || !gradientsCopied)
    return;
  compute.record(*gradientsCopied);
  gradientsCopied->synchronize();
}

void Executor::Rank::forParameters(
    const std::function<void(StageState &, const PlanTensor &)> &work) {
  struct Entry {
    StageState *stage;
    const PlanTensor *parameter;
  };
  std::vector<Entry> all;
  for (unsigned s : state.program.getPlan().ranks[index].stages)
    for (const PlanTensor &parameter : stages[s].plan->parameters)
      all.push_back({&stages[s], &parameter});
  if (!team) {
    for (const Entry &entry : all)
      work(*entry.stage, *entry.parameter);
    return;
  }
  team->run([&](unsigned part) {
    for (size_t i = part; i < all.size(); i += team->getSize())
      work(*all[i].stage, *all[i].parameter);
  });
}

void Executor::Rank::clipGradients(EnqueuedStep &into) {
  const GradientClipping &clipping = state.options.clipping;
  DataType type = state.program.getPlan().optimizer.type;
  auto countOf = [&](const PlanTensor &parameter) {
    return parameter.bytes / sizeOf(type);
  };
  copyGradients(/*toHost=*/true);
  // Before the update, it is that of this step.
  double scale = 1;
  const StageState &first =
      stages[state.program.getPlan().ranks[index].stages.front()];
  if (first.plan->areas.lossScale.bytes) {
    LossScaleState lossScale;
    const char *place = first.memory->at(first.plan->areas.lossScale);
    streams.compute->copy(&lossScale, place, sizeof(lossScale));
    if (gradientsCopied) {
      streams.compute->record(*gradientsCopied);
      gradientsCopied->synchronize();
    }
    scale = lossScale.scale;
  }
  if (clipping.value)
    forParameters([&](StageState &stage, const PlanTensor &parameter) {
      clampNumbers(type, gradientsOnHost(stage) + parameter.offset,
                   countOf(parameter), *clipping.value * scale);
    });
  if (clipping.needsNorm()) {
    const GradientNormPlan &plan = *state.gradientNorm;
    std::vector<double> sums(plan.getOwners().size());
    for (const GradientNormPlan::Part &part : plan.partsOf(index))
      sums[part.number] = sumOfSquares(
          type, gradientsOnHost(stages[part.stage]) + part.parameter->offset,
          countOf(*part.parameter));
    state.valueExchange->allGather(index, sums);
    into.gradientNorm = normOf(sums, scale);
  }
  if (clipping.norm) {
    // As in PyTorch, which multiplies by 1 where nothing is to be clipped.
    double factor = *clipping.norm / (into.gradientNorm + 1e-6);
    if (!(factor >= 1))
      forParameters([&](StageState &stage, const PlanTensor &parameter) {
        scaleNumbers(type, gradientsOnHost(stage) + parameter.offset,
                     countOf(parameter), factor);
      });
  }
  if (clipping.value || clipping.norm)
    copyGradients(/*toHost=*/false);
}
