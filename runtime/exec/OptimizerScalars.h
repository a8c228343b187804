//===- OptimizerScalars.h - The numbers of an optimizer step --------------===//
#ifndef PP_RUNTIME_EXEC_OPTIMIZERSCALARS_H
#define PP_RUNTIME_EXEC_OPTIMIZERSCALARS_H

#include "exec/LearningRate.h"
#include "exec/Step.h"
#include "plan/NumberArray.h"
#include "plan/Plan.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pp::runtime {

/// The plan's scalars with the user's changes.
class OptimizerScalars {
public:
  explicit OptimizerScalars(const PlanOptimizer &optimizer)
      : type(optimizer.type), scalars(optimizer.scalars) {}

  /// Changes a value (of a `one_minus_power_of` scalar: its base). Throws
  /// Error(Usage) for an unknown name or one that cannot be set.
  void set(const std::string &name, double value);

  /// The value of a scalar that can be set, if there is one of that name.
  std::optional<double> find(const std::string &name) const;

  /// Whether a skipped step lets all later steps be skipped too.
  void setStopping(bool stops) { isStopping = stops; }

  /// Lets `lr` be what is set times the schedule's factor.
  void setSchedule(const LearningRateSchedule &learningRates) {
    schedule = learningRates;
  }
  /// The optimizer's state is that of so many steps of an earlier training.
  void setStepsBefore(uint64_t steps) { stepsBefore = steps; }
  /// The learning rate of step `step`, counted from 1.
  double learningRate(uint64_t step) const;

  /// The values for step `step`, counted from 1.
  NumberArray evaluate(uint64_t step) const { return evaluate(step, step); }
  /// The learning rate follows the steps, everything else the updates.
  NumberArray evaluate(uint64_t step, uint64_t update) const;

  /// Gives a step of `plan` the values of its updates; `number` is that of the
  /// step, from 1.
  void setIn(Step &step, const Plan &plan, uint64_t number) const;

  /// (name, value) of everything that can be set.
  std::vector<std::pair<std::string, double>> settings() const;

private:
  double valueOf(const PlanScalar &scalar, uint64_t step,
                 uint64_t update) const;
  double baseOf(const PlanScalar &scalar) const;
  DataType type;
  std::vector<PlanScalar> scalars;
  bool isStopping = false;
  std::optional<LearningRateSchedule> schedule;
  uint64_t stepsBefore = 0;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_OPTIMIZERSCALARS_H
