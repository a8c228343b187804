//===- GradientNorm.h - The norm of all gradients ---------------*- C++ -*-===//
#ifndef PP_RUNTIME_EXEC_GRADIENTNORM_H
#define PP_RUNTIME_EXEC_GRADIENTNORM_H

#include "plan/Plan.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pp::runtime {

/// What is done to gradients before the update.
struct GradientClipping {
  /// Each element is brought into [-value, value], as by PyTorch's
  /// clip_grad_value_.
  std::optional<double> value;
  /// After that, all are multiplied by min(1, norm / (their norm + 1e-6)), as
  /// by clip_grad_norm_.
  std::optional<double> norm;
  /// The norm is wanted for the log.
  bool logsNorm = false;

  bool needsNorm() const { return norm.has_value() || logsNorm; }
  bool empty() const { return !value && !needsNorm(); }
};

/// Who adds up the squares of which gradient. The square of the norm is the sum
/// over all parameters in the order of their names, each the sum of its own
/// squares in f64. So not one bit of it depends on stages, replicas or
/// processes.
class GradientNormPlan {
public:
  struct Part {
    size_t number; // in the order of the names
    unsigned stage;
    const PlanTensor *parameter;
  };
  /// `frozen` are parameters that are not updated; they do not count.
  GradientNormPlan(const Plan &plan, const std::set<std::string> &frozen);

  /// By number: the rank that has the parameter; of copies the first one.
  const std::vector<unsigned> &getOwners() const { return owners; }
  const std::vector<Part> &partsOf(unsigned rank) const { return parts[rank]; }

private:
  std::vector<unsigned> owners;
  std::vector<std::vector<Part>> parts; // by rank
};

/// The sum of the squares of `count` numbers, f32 or f64, in f64: in eight
/// sums, element i in sum i modulo 8.
double sumOfSquares(DataType type, const char *values, uint64_t count);

/// The norm from the sums, by number, of gradients that are `scale` times too
/// large.
double normOf(const std::vector<double> &sums, double scale);

/// Brings numbers into [-limit, limit]; NaN stays.
void clampNumbers(DataType type, char *values, uint64_t count, double limit);
/// Multiplies numbers by a factor, in their type.
void scaleNumbers(DataType type, char *values, uint64_t count, double factor);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_GRADIENTNORM_H
