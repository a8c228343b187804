//===- Evaluation.h - Running the inference program over a data set -------===//
#ifndef PP_RUNTIME_CLI_EVALUATION_H
#define PP_RUNTIME_CLI_EVALUATION_H

#include "exec/DataSet.h"
#include "exec/Executor.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pp::runtime {

/// What inference over a data set gave.
struct InferenceResult {
  std::map<std::string, Array> fetches; // by name, without padding
  /// Those that no sample has for itself, and that are of the last mini-batch:
  /// others had something else.
  std::set<std::string> ofLastBatch;
  uint64_t steps = 0;
  double seconds = 0;
};

/// Runs all samples in order; the last batch is padded with its last sample and
/// the padding dropped from the results.
InferenceResult runInference(const Plan &plan, const DataSet &data,
                             Executor &executor);

/// Puts the samples of each array where the model has them, see
/// PlanPort::samples.
void restoreSamples(const Plan &plan, std::map<std::string, Array> &fetches);

/// A quality measure of outputs against targets.
struct Metric {
  std::string name;
  double value;
};

/// The measures that there are; `top` followed by a number, as in top5, too.
/// Of class numbers: accuracy; topK, whether it is among the K largest; f1, the
/// mean over all classes that occur of 2 TP / (2 TP + FP + FN) (scikit-learn's
/// macro average); cross_entropy, and perplexity, its exponential. Of targets
/// of the output's shape: mse, mae.
extern const std::vector<std::string> metricNames;

/// i64 targets are class ids for logits whose last axis is the class ([N, C] or
/// [N, S, C]; one class axis at 1 for [N, C, ...] is not guessed): accuracy.
/// Targets of the output's dtype and shape: mean squared error. Throws
/// Error(InvalidInput) where neither fits. Targets that are `ignoreIndex` do
/// not count.
Metric evaluate(const Array &output, const Array &target,
                std::optional<int64_t> ignoreIndex = std::nullopt);

/// Those of these names; throws Error(Usage) for one that there is not, and for
/// one that is not of such targets.
std::vector<Metric> evaluate(const Array &output, const Array &target,
                             std::optional<int64_t> ignoreIndex,
                             const std::vector<std::string> &names);

/// Whether a larger value of the measure is better.
bool isHigherBetter(const std::string &name);

/// {"accuracy":0.93}, without braces.
std::string describe(const std::vector<Metric> &metrics);

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_EVALUATION_H
