//===- Trainer.h - The steps of a training, without its data ----*- C++ -*-===//
#ifndef PP_RUNTIME_CLI_TRAINER_H
#define PP_RUNTIME_CLI_TRAINER_H

#include "cli/CommandLine.h"
#include "exec/Executor.h"
#include "exec/OptimizerScalars.h"
#include "exec/ParameterGroups.h"
#include "exec/Snapshot.h"

#include <deque>
#include <optional>
#include <string>

namespace pp::runtime {

/// What options say of a training, and the steps that are in flight. Whoever
/// uses it fills the steps:
///
///   Trainer trainer(program, options);
///   trainer.choose(lastStep);                       // position is set before
///   trainer.start(settings);
///   data.fill(trainer.next(), order, first);
///   trainer.submit();
///   trainer.getExecutor().flush();                  // if nothing follows
///   Trainer::Outcome outcome = trainer.finish();
///
/// Of several processes, all do the same.
class Trainer {
public:
  /// `program` has its memory; both outlive the object.
  Trainer(Program &program, const TrainOptions &options);
  Trainer(const Trainer &) = delete;
  Trainer &operator=(const Trainer &) = delete;

  /// Where the training stands. finish() counts its steps; epochs are the
  /// caller's.
  TrainingPosition position;

  /// Takes weights of another training, and its optimizer's state where it
  /// fits, and says so.
  void loadStart(const std::string &path);
  /// Takes the options, and for what they do not say, what `position` says.
  /// Learning rates that decay do so until `lastStep`, if it is known. Throws
  /// Error(Usage) for what the program cannot do.
  void choose(std::optional<uint64_t> lastStep);
  /// Starts the ranks; `settings` has what is not of a training. What ran
  /// before is abandoned.
  void start(Executor::Options settings);

  Executor &getExecutor() { return *executor; }
  OptimizerScalars &getScalars() { return scalars; }
  const ParameterGroups &getGroups() const { return groups; }

  /// The steps that were submitted, over the whole training.
  uint64_t countSubmitted() const { return submitted; }
  bool isFull() const { return submitted == position.step + steps.size(); }
  bool isIdle() const { return submitted == position.step; }
  /// The step to fill and then to submit, which is not full.
  Step &next();
  void submit();

  /// What a step has given, until the next one is filled.
  struct Outcome {
    const Step *step = nullptr;
    /// Whether any process has passed `wantsToStop`.
    bool wantsToStop = false;
    bool isSkipped = false;             // its loss or gradients are not finite
    std::optional<double> learningRate; // where there is a schedule
    std::optional<double> gradientNorm; // where it is logged
  };
  /// Waits for the oldest step in flight. Throws Error(InvalidInput) where
  /// training stops at what is not finite, with where it came from: none is in
  /// flight, and neither that step nor those behind it are made, unless the
  /// program does not look for it before an update.
  Outcome finish(bool wantsToStop = false);
  /// Throws Error(InvalidInput) after too many skipped steps in a row.
  void limitSkips() const;

  bool scalesLoss() const { return hasLossScale; }
  /// After the last step.
  const std::optional<LossScaleState> &getLossScale() const {
    return lossScale;
  }

private:
  void applySettings();
  void chooseSchedule(std::optional<uint64_t> lastStep);
  GradientClipping chooseClipping();
  void chooseGroups();
  void startLossScale();
  void choosePolicy();
  const char *whyNotLooking() const;
  void forgetSkips();
  [[noreturn]] void stopAt(uint64_t index);
  [[noreturn]] void stopBehind(uint64_t index);
  Step &stepOf(uint64_t index) { return steps[index % steps.size()]; }

  Program &program;
  const TrainOptions &options;
  const Plan &plan;
  ProcessGroup &group;
  OptimizerScalars scalars;
  ParameterGroups groups;
  GradientClipping clipping;
  bool hasLossScale;
  std::optional<LossScaleState> lossScale;
  /// Before the update, or when its loss is known.
  bool stopsAtNonFinite = false, stopsAtLoss = false;
  uint64_t submitted = 0;
  std::deque<Step> steps; // outlive the executor, whose ranks use them
  std::optional<Executor> executor;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_TRAINER_H
