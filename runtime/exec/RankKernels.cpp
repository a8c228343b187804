//===- RankKernels.cpp - The optimizer's step by kernels of a GPU ---------===//
#include "exec/ExecutorState.h"
#include "plan/ParameterScalars.h"
#include "support/Error.h"

using namespace pp::runtime;

/// The descriptor of an optimizer's kernel for a range of what it is for.
static std::string describeRange(const std::string &whole, int64_t elements) {
  constexpr std::string_view key = " count=";
  size_t at = whole.find(key);
  if (at == std::string::npos)
    failInput("kernel '{}': the key 'count' is missing", whole);
  size_t end = std::min(whole.find(' ', at + 1), whole.size());
  std::string count = whole.substr(at + key.size(), end - at - key.size());
  return fmt::format("{} count={} stride={}{}", whole.substr(0, at), elements,
                     count, whole.substr(end));
}

void Executor::Rank::createRangeKernels(StageState &stage) const {
  const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
  // Values of one parameter alone are in one range alone.
  bool isMerged = !findScalar(optimizer, trustRatioName);
  auto size = static_cast<int64_t>(sizeOf(optimizer.type));
  const std::vector<UpdateRange> &ranges = stage.ranges;
  for (size_t i = 0; i < ranges.size();) {
    const UpdateRange &first = ranges[i];
    int64_t end = first.end;
    for (++i; isMerged && i < ranges.size() && ranges[i].begin == end &&
              ranges[i].group == first.group;
         ++i)
      end = ranges[i].end;
    if (first.isFrozen || first.begin == end)
      continue;
    PlanKernel kernel = stage.plan->kernels[*stage.plan->optimizerKernel];
    kernel.descriptor =
        describeRange(kernel.descriptor, (end - first.begin) / size);
    std::string error;
    RangeKernel &made = stage.rangeKernels.emplace_back(
        RangeKernel{first.begin, first.group,
                    state.program.getCode().createKernel(kernel, error)});
    if (!made.kernel)
      failInput("stage '{}': {}", stage.plan->name, error);
  }
}

char *StageState::scalarsOf(std::optional<size_t> group) const {
  return scalars + (group ? *group + 1 : 0) * scalarsStride;
}

void Executor::Rank::placeGroupScalars(const StageState &stage,
                                       const std::vector<NumberArray> &groups) {
  const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
  uint64_t size = sizeOf(optimizer.type);
  for (size_t group = 0; group < groups.size(); ++group) {
    char *own = stage.scalarsOf(group);
    streams.compute->copy(own, groups[group].data(), groups[group].bytes());
    for (size_t i = 0; i < optimizer.scalars.size(); ++i)
      if (isSetByKernel(optimizer.scalars[i]))
        streams.compute->copy(own + i * size, stage.scalars + i * size, size);
  }
}

void Executor::Rank::runOptimizerKernels(const StageState &stage) const {
  const PlanAreas &areas = stage.plan->areas;
  auto run = [&](Kernel &kernel, int64_t begin, char *scalars) {
    void *tensors[] = {stage.arguments.parameters + begin,
                       stage.arguments.gradients + begin,
                       stage.memory->at(areas.optimizer) + begin, scalars};
    kernel.execute(tensors, stage.arguments.scratch);
  };
  if (stage.ranges.empty())
    run(*stage.kernels[*stage.plan->optimizerKernel], 0, stage.scalars);
  for (const RangeKernel &range : stage.rangeKernels)
    run(*range.kernel, range.begin, stage.scalarsOf(range.group));
}
