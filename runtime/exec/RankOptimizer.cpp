//===- RankOptimizer.cpp - The optimizer's step of a stage ----------------===//
#include "cpu/PartClaims.h"
#include "exec/ExecutorState.h"
#include "plan/ParameterScalars.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace pp::runtime;

void Executor::Rank::createRanges(StageState &stage) const {
  for (const PlanTensor &parameter : stage.plan->parameters)
    if (parameter.prepared)
      stage.preparedByUpdate.push_back(&parameter);
  std::ranges::sort(stage.preparedByUpdate, {}, &PlanTensor::offset);
  const ParameterGroups &groups = state.options.groups;
  const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
  if (groups.empty() && !findScalar(optimizer, trustRatioName) &&
      !findScalar(optimizer, directionName))
    return;
  bool orthogonalizes = findScalar(optimizer, orthogonalizeName).has_value();
  for (const PlanTensor &parameter : stage.plan->parameters) {
    std::optional<size_t> group = groups.groupOf(parameter.name);
    auto begin = static_cast<int64_t>(parameter.offset);
    auto end =
        static_cast<int64_t>(alignUp(parameter.offset + parameter.bytes));
    UpdateRange &range = stage.ranges.emplace_back(
        UpdateRange{begin, end, &parameter, group,
                    group && groups.getGroups()[*group].isFrozen});
    const Shape &shape = parameter.shape;
    if (!orthogonalizes || shape.size() != 2 || parameter.bytes == 0)
      continue;
    range.orthogonalizer =
        std::make_shared<const Orthogonalizer>(shape[0], shape[1]);
    stage.orthogonalBytes =
        std::max(stage.orthogonalBytes, range.orthogonalizer->scratchBytes());
  }
  uint64_t needed =
      stage.orthogonalBytes * (team ? team->getSize() : uint64_t(1));
  if (needed > stage.plan->areas.scratch.bytes)
    failInput("stage '{}': muon needs {} bytes of scratch memory with this "
              "processor's kernels, but the program was compiled for {}; "
              "compile it again on this machine",
              stage.plan->name, needed, stage.plan->areas.scratch.bytes);
}

void Executor::Rank::shareScalars(const StageState &stage,
                                  std::vector<NumberArray> &groups) const {
  const std::vector<PlanScalar> &scalars =
      state.program.getPlan().optimizer.scalars;
  if (!stage.scalars)
    return;
  for (NumberArray &own : groups)
    for (size_t i = 0; i < scalars.size(); ++i)
      if (isSetByKernel(scalars[i])) {
        uint64_t size = own.bytes() / own.size();
        std::memcpy(own.data() + i * size, stage.scalars + i * size, size);
      }
}

/// The optimizer's function over a part of a stage's parameters, from
/// `weights` and `gradients` on.
void Executor::Rank::callOptimizer(const StageState &stage, char *weights,
                                   const char *gradients, int64_t begin,
                                   int64_t end, const char *scalars) const {
  if (begin >= end)
    return;
  const PlanAreas &areas = stage.plan->areas;
  auto size =
      static_cast<int64_t>(sizeOf(state.program.getPlan().optimizer.type));
  state.program.getFunctions().optimizer(
      (end - begin) / size, weights, gradients,
      stage.memory->at(areas.optimizer) + begin,
      static_cast<int64_t>(areas.parameters.bytes) / size, scalars);
}

void Executor::Rank::update(const StageState &stage, char *weights,
                            int64_t begin, int64_t end,
                            const char *scalars) const {
  // What is prepared of parameters is made while these are in a cache.
  constexpr int64_t piece = 1 << 16;
  while (begin < end) {
    int64_t next = stage.preparedByUpdate.empty()
                       ? end
                       : std::min(begin / piece * piece + piece, end);
    callOptimizer(stage, weights + begin, stage.arguments.gradients + begin,
                  begin, next, scalars);
    prepare(stage, begin, next);
    begin = next;
  }
}

void Executor::Rank::prepare(const StageState &stage, int64_t begin,
                             int64_t end) const {
  const PlanAreas &areas = stage.plan->areas;
  auto beginOf = [](const PlanTensor *tensor) {
    return static_cast<int64_t>(tensor->offset);
  };
  auto endOf = [](const PlanTensor *tensor) {
    return static_cast<int64_t>(tensor->offset + tensor->bytes);
  };
  for (auto it =
           std::ranges::upper_bound(stage.preparedByUpdate, begin, {}, endOf);
       it != stage.preparedByUpdate.end() && beginOf(*it) < end; ++it) {
    int64_t from = std::max(begin, beginOf(*it));
    state.program.getFunctions().round(
        (std::min(end, endOf(*it)) - from) / int64_t(sizeof(float)),
        stage.memory->at(areas.parameters) + from,
        stage.memory->at(areas.prepared) + *(*it)->prepared +
            (from - beginOf(*it)) / 2);
  }
}

/// Of a parameter p and its gradient g (lars), or its step (lamb).
double Executor::Rank::trustRatio(const StageState &stage, char *weights,
                                  const UpdateRange &range,
                                  NumberArray &scalars) const {
  const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
  DataType type = optimizer.type;
  auto bytes = static_cast<uint64_t>(range.end - range.begin);
  auto normOfBytes = [&](const char *values) {
    return std::sqrt(sumOfSquares(type, values, bytes / sizeOf(type)));
  };
  auto valueOf = [&](std::string_view name, double otherwise) {
    std::optional<size_t> found = findScalar(optimizer, name);
    return found ? scalars.get(*found) : otherwise;
  };
  double parameter = normOfBytes(weights + range.begin);
  if (optimizer.kind == "lars") {
    double gradient = normOfBytes(stage.arguments.gradients + range.begin) /
                      valueOf("loss_scale", 1);
    double decay = valueOf("weight_decay", 0);
    if (!(parameter > 0) || !(gradient > 0))
      return 1;
    return valueOf("trust_coefficient", 1) * parameter /
           (gradient + decay * parameter + 1e-8);
  }
  // Negative: the function gives the step instead of new parameters.
  scalars.set(*findScalar(optimizer, trustRatioName), -1);
  constexpr int64_t piece = 4096;
  alignas(64) char step[piece];
  double sum = 0;
  for (int64_t at = range.begin; at < range.end; at += piece) {
    int64_t end = std::min(at + piece, range.end);
    std::memcpy(step, weights + at, end - at);
    callOptimizer(stage, step, stage.arguments.gradients + at, at, end,
                  scalars.data());
    sum += sumOfSquares(type, step,
                        static_cast<uint64_t>(end - at) / sizeOf(type));
  }
  double norm = std::sqrt(sum);
  return parameter > 0 && norm > 0 ? parameter / norm : 1;
}

void Executor::Rank::optimizeRange(StageState &stage, const UpdateRange &range,
                                   const NumberArray &scalars,
                                   const Change &change, unsigned part) {
  char *weights = stage.memory->at(stage.plan->areas.parametersOf(change.to));
  beginChange(stage, change, range.begin, range.end);
  if (!range.isFrozen) {
    NumberArray own = scalars;
    std::optional<size_t> ratio =
        findScalar(state.program.getPlan().optimizer, trustRatioName);
    if (ratio)
      own.set(*ratio, trustRatio(stage, weights, range, own));
    if (followDirection(stage, weights, range, own, part))
      prepare(stage, range.begin, range.end);
    else
      update(stage, weights, range.begin, range.end, own.data());
  }
  endChange(stage, change, range.begin, range.end);
}

void Executor::Rank::beginChange(const StageState &stage, const Change &change,
                                 int64_t begin, int64_t end) const {
  const PlanAreas &areas = stage.plan->areas;
  if (begin >= end)
    return;
  const char *old = stage.memory->at(areas.parametersOf(change.from)) + begin;
  if (change.from != change.to)
    std::memcpy(stage.memory->at(areas.parametersOf(change.to)) + begin, old,
                end - begin);
  else if (state.program.getPlan().clockDistance)
    keepWeights(stage, change, begin, end);
  if (stage.plan->correction > 0)
    std::memcpy(stage.memory->at(areas.correctedParameters()) + begin, old,
                end - begin);
}

void Executor::Rank::endChange(const StageState &stage, const Change &change,
                               int64_t begin, int64_t end) const {
  if (begin >= end)
    return;
  if (stage.plan->correction > 0)
    correct(stage, begin, end);
  if (state.program.getPlan().clockDistance)
    addChange(stage, change, begin, end);
}

void Executor::Rank::runPieces(
    unsigned pieces, const std::function<void(unsigned, unsigned)> &run) const {
  if (!team) {
    for (unsigned piece = 0; piece < pieces; ++piece)
      run(piece, 0);
    return;
  }
  PartClaims claims(pieces, team->getSize());
  team->run([&](unsigned thread) {
    claims.runEach({thread, team->getSize()},
                   [&](unsigned piece) { run(piece, thread); });
  });
}

void Executor::Rank::optimize(StageState &stage, const char *scalars,
                              const std::vector<NumberArray> &groupScalars,
                              const Change &change) {
  const PlanAreas &areas = stage.plan->areas;
  if (!stage.ranges.empty()) {
    const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
    NumberArray own(optimizer.type, optimizer.scalars.size());
    std::memcpy(own.data(), scalars, own.bytes());
    return runPieces(static_cast<unsigned>(stage.ranges.size()),
                     [&](unsigned i, unsigned thread) {
                       const UpdateRange &range = stage.ranges[i];
                       optimizeRange(stage, range,
                                     range.group ? groupScalars[*range.group]
                                                 : own,
                                     change, thread);
                     });
  }
  auto bytes = static_cast<int64_t>(areas.parameters.bytes);
  // The function works on blocks, of which the grain is a multiple.
  constexpr int64_t grain = 4096, piecesOfThread = 16;
  const int64_t grains = (bytes + grain - 1) / grain;
  const int64_t pieces =
      team ? std::min(grains, piecesOfThread * team->getSize()) : 1;
  runPieces(static_cast<unsigned>(pieces), [&](unsigned piece, unsigned) {
    int64_t begin = grains * piece / pieces * grain;
    int64_t end = std::min(grains * (piece + 1) / pieces * grain, bytes);
    beginChange(stage, change, begin, end);
    update(stage, stage.memory->at(areas.parametersOf(change.to)), begin, end,
           scalars);
    endChange(stage, change, begin, end);
  });
}
