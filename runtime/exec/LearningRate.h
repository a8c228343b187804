//===- LearningRate.h - How the learning rate changes -----------*- C++ -*-===//
#ifndef PP_RUNTIME_EXEC_LEARNINGRATE_H
#define PP_RUNTIME_EXEC_LEARNINGRATE_H

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace pp::runtime {

/// The learning rate of each step, as a multiple of the one that was set. With
/// t steps done, w of `warmup_steps`, u = t - w and D = steps - w:
///
/// | kind | factor after the warm-up | PyTorch's |
/// |---|---|---|
/// | constant | 1 | |
/// | linear | 1 + (end - 1) min(u / D, 1) | LinearLR(1, end, D) |
/// | cosine | end + (1 - end) (1 + cos(pi min(u / D, 1))) / 2 |
/// CosineAnnealingLR(D, end) | | step | gamma ^ floor(u / every) |
/// StepLR(every, gamma) | | exponential | gamma ^ u | ExponentialLR(gamma) | |
/// polynomial | end + (1 - end) (1 - min(u / D, 1)) ^ power | PolynomialLR(D,
/// power) | | one-cycle | by cosines from 1 / div_factor to 1 and to 1 /
/// (div_factor final_div_factor) | OneCycleLR(1, D), cycle_momentum=False |
///
/// In the warm-up, t < w, it is warmup_start + (1 - warmup_start) t / w
/// (LinearLR, and SequentialLR behind it; the part that decays begins with the
/// full rate). Behind their end, all stay where they are. It is a function of
/// t: nothing is carried from step to step.
class LearningRateSchedule {
public:
  enum class Kind {
    Constant,
    Linear,
    Cosine,
    Step,
    Exponential,
    Polynomial,
    OneCycle
  };
  /// What can be set of a schedule.
  struct Parameter {
    const char *name; // in files and snapshots
    const char *flag;
    const char *help;
    unsigned kinds; // that take it: bits 1 << Kind
    bool isInteger;
    double least, most; // least is allowed unless it is 0 and not an integer
    std::optional<double> initial; // none: it has to be given
    bool isZeroAllowed = false;
  };
  static constexpr size_t parameterCount = 10;
  static const std::array<Parameter, parameterCount> parameters;
  static const std::array<const char *, 7> kindNames; // by Kind

  /// What a user gave: the schedule's name, or "", and numbers by the names of
  /// parameters.
  struct Settings {
    std::string kind;
    std::map<std::string, double> values;
    bool empty() const { return kind.empty() && values.empty(); }
  };
  /// Reads a JSON object, {"schedule": "cosine", "warmup_steps": 100}. Throws
  /// Error(InvalidInput) with `what` and the path.
  static Settings fromJson(std::string_view text, const std::string &what);

  /// Decays until `trainingSteps` are done, unless the settings say otherwise,
  /// which they have to where that is not known. Throws Error(Usage) with the
  /// flag of what the schedule does not take, lacks or cannot use.
  LearningRateSchedule(const Settings &settings,
                       std::optional<uint64_t> trainingSteps);

  /// Of the step after `done` ones.
  double factor(uint64_t done) const;
  /// All of it, which fromJson reads.
  std::string toJson() const;

private:
  double valueOf(std::string_view name) const;
  double decayed(double done) const;
  double oneCycle(double done, double steps) const;

  Kind kind = Kind::Constant;
  std::array<double, parameterCount> values{};
};

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_LEARNINGRATE_H
