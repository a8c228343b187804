//===- Step.h - The data of one step --------------------------------------===//
#ifndef PP_RUNTIME_EXEC_STEP_H
#define PP_RUNTIME_EXEC_STEP_H

#include "plan/NumberArray.h"
#include "plan/Plan.h"
#include "program/LossScale.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace pp::runtime {

/// Values of one feed or fetch for a whole mini-batch. Micro-batch m lies at
/// `data() + m * stride()`, and every micro-batch starts at a multiple of 64;
/// where they have none of their own, all share one value.
class PortBuffer {
public:
  PortBuffer(const PlanPort &port, unsigned microbatches);

  char *at(unsigned microbatch) const {
    return base.get() + stride * (isOfMicrobatch ? microbatch : 0);
  }
  /// Copies `samples` rows of `bytesPerSample()` bytes in, from row `first` of
  /// the mini-batch on (batched ports).
  void write(uint64_t first, uint64_t samples, const char *source);
  /// The same, out of the buffer.
  void read(uint64_t first, uint64_t samples, char *target) const;
  uint64_t bytesPerSample() const { return sampleBytes; }

private:
  struct Free {
    void operator()(char *pointer) const;
  };
  template <typename Copy>
  void forRows(uint64_t first, uint64_t samples, Copy copy) const;

  std::unique_ptr<char, Free> base;
  uint64_t stride = 0, sampleBytes = 0, samplesPerMicrobatch = 1;
  bool isOfMicrobatch;
};

/// The optimizer's values in one update.
struct UpdateScalars {
  NumberArray own;
  std::vector<NumberArray> groups; // by group of parameters

  UpdateScalars() = default;
  UpdateScalars(NumberArray own, std::vector<NumberArray> groups = {})
      : own(std::move(own)), groups(std::move(groups)) {}
};

/// What one step reads and gives. Filled by the caller, then owned by the
/// executor from submit() until wait() returns.
struct Step {
  explicit Step(const Plan &plan);
  /// One without data, in which the actions of earlier steps end.
  static Step pause() { return Step(); }

  std::vector<PortBuffer> feeds, fetches;
  UpdateScalars scalars; // training only
  /// Of the second update of the step, the third and so on; empty: the same.
  std::vector<UpdateScalars> laterScalars;
  /// Of all updates, by their number in a step: where stages have unequal ones.
  std::map<unsigned, std::vector<UpdateScalars>> dealtScalars;
  /// Sets all of these for step `number`, from 1; `evaluate` gives those of an
  /// update, which is counted from 1 over the whole training.
  void
  setScalars(const Plan &plan, uint64_t number,
             const std::function<UpdateScalars(uint64_t step, uint64_t update)>
                 &evaluate);
  /// From 1 on, over a whole training, and the seed: what random numbers are
  /// drawn from. The number is for traces, too.
  uint64_t number = 0, seed = 0;
  /// How many rows of the mini-batch, from the first one on, are samples.
  /// Micro-batches without any are left out.
  uint64_t rows = 0;
  /// By row of the mini-batch: which sample of the data set it is. For
  /// messages; empty if the feeds are from elsewhere.
  std::vector<uint64_t> samples;

  // Results.
  NumberArray losses; // by micro-batch; training only

  LossScaleState lossScale; // after the step, where the plan has one
  /// With clipping, or where it is logged: the norm of all gradients, before it
  /// is clipped.
  double gradientNorm = 0;
  /// By rank, where the plan has a loss scale: not 0 if it found a loss or a
  /// gradient that is not finite.
  std::vector<float> overflows;

  /// Of an update of the step, from 0, of a stage that has `updates` of them.
  const UpdateScalars &scalarsOf(unsigned update, unsigned updates) const {
    if (auto found = dealtScalars.find(updates); found != dealtScalars.end())
      return found->second[update];
    return update && !laterScalars.empty() ? laterScalars[update - 1] : scalars;
  }
  /// Sum of `losses` in the order of the micro-batches.
  double loss() const;

  // The executor's.
  unsigned ranksLeft = 0;
  uint64_t sequence = 0; // from 0, over all steps and pauses

  bool isPause = false;
  /// The last pause of a row: what was in flight has ended.
  bool isIdleAfter = false;

private:
  Step() : isPause(true) {}
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_STEP_H
