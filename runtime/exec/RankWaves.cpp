//===- RankWaves.cpp - What virtual workers push and pull -----------------===//
#include "exec/ExecutorState.h"
#include "plan/SharePlan.h"

#include <algorithm>
#include <cstring>

using namespace pp::runtime;

/// Calls `visit(part, begin, end)` for the parts of a range of bytes of the
/// parameters.
template <typename Visit>
static void forEachPart(const SharedLayout &layout, unsigned parts,
                        uint64_t begin, uint64_t end, Visit visit) {
  for (unsigned part = 0; part < parts; ++part) {
    uint64_t from = std::max(begin, layout.begin(part)),
             to = std::min(end, layout.begin(part + 1));
    if (from < to)
      visit(part, from, to);
  }
}

template <typename T> static uint64_t countOf(uint64_t bytes) {
  return bytes / sizeof(T);
}

/// Calls `work` with a number of the type of the parameters.
template <typename Work> static void withType(const Plan &plan, Work work) {
  if (plan.optimizer.type == DataType::F64)
    work(double());
  else
    work(float());
}

/// Where the sum of a wave has the byte `at` of the parameters, in `part`.
static char *inWave(const StageState &stage, const SharedLayout &layout,
                    uint64_t wave, unsigned part, uint64_t at) {
  return stage.memory->at(stage.plan->areas.shared) + layout.update(part) +
         wave % layout.waveSlots() * layout.bytesOf(part) + at -
         layout.begin(part);
}

void Executor::Rank::keepWeights(const StageState &stage, const Change &change,
                                 int64_t begin, int64_t end) const {
  const Plan &plan = state.program.getPlan();
  SharedLayout layout = sharedLayout(plan, *stage.plan);
  const char *weights =
      stage.memory->at(stage.plan->areas.parametersOf(change.from));
  forEachPart(layout, plan.replicas, begin, end,
              [&](unsigned part, uint64_t at, uint64_t behind) {
                std::memcpy(inWave(stage, layout, change.wave, part, at),
                            weights + at, behind - at);
              });
}

void Executor::Rank::addChange(const StageState &stage, const Change &change,
                               int64_t begin, int64_t end) const {
  const Plan &plan = state.program.getPlan();
  const PlanAreas &areas = stage.plan->areas;
  SharedLayout layout = sharedLayout(plan, *stage.plan);
  withType(plan, [&](auto one) {
    using T = decltype(one);
    forEachPart(layout, plan.replicas, begin, end,
                [&](unsigned part, uint64_t at, uint64_t behind) {
                  auto weights = [&](unsigned slot) {
                    return reinterpret_cast<const T *>(
                        stage.memory->at(areas.parametersOf(slot)) + at);
                  };
                  auto *sums = reinterpret_cast<T *>(
                      inWave(stage, layout, change.wave, part, at));
                  const T *before = weights(change.from),
                          *after = weights(change.to);
                  // In place: the sum has the weights before.
                  bool isInPlace = change.from == change.to;
                  for (uint64_t i = 0; i < countOf<T>(behind - at); ++i) {
                    T difference = after[i] - (isInPlace ? sums[i] : before[i]);
                    sums[i] =
                        change.isFirst ? difference : sums[i] + difference;
                  }
                });
  });
}

void Executor::Rank::enqueuePull(unsigned number, uint64_t wave) {
  StageState &stage = stages[number];
  if (!stage.isPrepared.empty())
    stage.isPrepared[stage.newest] = false;
  streams.compute->execute(
      [this, &stage, wave, to = stage.newest, last = stage.wave] {
        const Plan &plan = state.program.getPlan();
        const PlanAreas &areas = stage.plan->areas;
        SharedLayout layout = sharedLayout(plan, *stage.plan);
        withType(plan, [&](auto one) {
          using T = decltype(one);
          for (unsigned part = 0; part < plan.replicas; ++part) {
            uint64_t bytes = layout.bytesOf(part);
            auto *weights = reinterpret_cast<T *>(
                stage.memory->at(areas.parametersOf(to)) + layout.begin(part));
            std::memcpy(weights,
                        stage.memory->at(areas.shared) + layout.pull(part) +
                            wave % layout.transferSlots() * bytes,
                        bytes);
            for (uint64_t since = wave + 1; since <= last; ++since) {
              auto *sums = reinterpret_cast<const T *>(
                  inWave(stage, layout, since, part, layout.begin(part)));
              for (uint64_t i = 0; i < countOf<T>(bytes); ++i)
                weights[i] += sums[i];
            }
          }
        });
      });
}

void Executor::Rank::enqueuePushes(unsigned number, uint64_t wave) {
  StageState &stage = stages[number];
  streams.compute->execute([this, &stage, wave] {
    const Plan &plan = state.program.getPlan();
    SharedLayout layout = sharedLayout(plan, *stage.plan);
    char *shared = stage.memory->at(stage.plan->areas.shared);
    uint64_t bytes = layout.bytesOf(stage.plan->replica);
    withType(plan, [&](auto one) {
      using T = decltype(one);
      auto *weights = reinterpret_cast<T *>(shared + layout.shard());
      for (unsigned worker = 0; worker < plan.replicas; ++worker) {
        auto *sums =
            reinterpret_cast<const T *>(shared + layout.push(worker) +
                                        wave % layout.transferSlots() * bytes);
        for (uint64_t i = 0; i < countOf<T>(bytes); ++i)
          weights[i] += sums[i];
      }
    });
  });
}

void Executor::Rank::skipUpdate(StageState &stage, const Change &change) {
  streams.compute->execute([this, &stage, change] {
    const PlanAreas &areas = stage.plan->areas;
    if (change.from != change.to)
      std::memcpy(stage.memory->at(areas.parametersOf(change.to)),
                  stage.memory->at(areas.parametersOf(change.from)),
                  areas.parameters.bytes);
    if (!state.program.getPlan().clockDistance)
      return;
    SharedLayout layout = sharedLayout(state.program.getPlan(), *stage.plan);
    for (unsigned part = 0;
         change.isFirst && part < state.program.getPlan().replicas; ++part)
      std::memset(inWave(stage, layout, change.wave, part, layout.begin(part)),
                  0, layout.bytesOf(part));
  });
}
