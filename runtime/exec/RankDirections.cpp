//===- RankDirections.cpp - Steps of adafactor and muon -------------------===//
#include "exec/ExecutorState.h"
#include "exec/Factored.h"
#include "exec/GradientNorm.h"
#include "plan/OptimizerStates.h"
#include "plan/ParameterScalars.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace pp::runtime;

namespace {
/// The optimizer's numbers by name.
class Values {
public:
  Values(const PlanOptimizer &optimizer, const NumberArray &scalars)
      : optimizer(optimizer), scalars(scalars) {}

  double get(std::string_view name, double otherwise) const {
    std::optional<size_t> found = findScalar(optimizer, name);
    return found ? scalars.get(*found) : otherwise;
  }

private:
  const PlanOptimizer &optimizer;
  const NumberArray &scalars;
};
} // namespace

/// A state of a parameter; null if it has none of this name.
template <typename T>
static T *stateOf(const PlanOptimizer &optimizer, const StageState &stage,
                  const PlanTensor &parameter, std::string_view name) {
  auto found = std::ranges::find(optimizer.states, name);
  if (found == optimizer.states.end() || !shapeOf(name, parameter.shape))
    return nullptr;
  uint64_t offset =
      stateOffset(optimizer, *stage.plan, parameter,
                  static_cast<unsigned>(found - optimizer.states.begin()));
  return reinterpret_cast<T *>(stage.memory->at(stage.plan->areas.optimizer) +
                               offset);
}

void Executor::Rank::followPieces(const StageState &stage, char *weights,
                                  const UpdateRange &range,
                                  NumberArray &scalars, double length,
                                  const Direction &direction) const {
  const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
  scalars.set(*findScalar(optimizer, directionName), length);
  constexpr int64_t piece = 4096;
  alignas(64) char values[piece];
  auto last = range.begin + static_cast<int64_t>(range.parameter->bytes);
  for (int64_t at = range.begin; at < range.end; at += piece) {
    int64_t end = std::min(at + piece, range.end), whole = std::min(end, last);
    direction(at - range.begin, whole - range.begin, values);
    std::memset(values + (whole - at), 0, end - whole);
    callOptimizer(stage, weights + at, values, at, end, scalars.data());
  }
}

template <typename T>
void Executor::Rank::followFactored(const StageState &stage, char *weights,
                                    const UpdateRange &range,
                                    NumberArray &scalars) const {
  const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
  const PlanTensor &parameter = *range.parameter;
  Values values(optimizer, scalars);
  auto stateNamed = [&](const char *name) {
    return stateOf<T>(optimizer, stage, parameter, name);
  };
  Factored<T> means(parameter.shape, stateNamed(factoredRowsName),
                    stateNamed(factoredColumnsName),
                    stateNamed(unfactoredName));
  const auto *gradient =
      reinterpret_cast<const T *>(stage.arguments.gradients + range.begin);
  const double scale = values.get("loss_scale", 1);
  const double least = values.get("eps1", 0);
  means.follow(gradient, scale, values.get("beta2_decay", 1));
  auto direction = [&](int64_t at, int64_t end, char *into) {
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    means.step(gradient, scale, least, at / size, end / size,
               reinterpret_cast<T *>(into));
  };
  const uint64_t count = parameter.bytes / sizeof(T);
  constexpr uint64_t piece = 4096;
  alignas(64) char step[piece];
  double sum = 0;
  for (uint64_t at = 0; at < parameter.bytes; at += piece) {
    uint64_t end = std::min(at + piece, parameter.bytes);
    direction(static_cast<int64_t>(at), static_cast<int64_t>(end), step);
    sum += sumOfSquares(optimizer.type, step, (end - at) / sizeof(T));
  }
  const double root = std::sqrt(static_cast<double>(count));
  double excess = std::sqrt(sum) / (root * values.get("clipping_threshold", 1));
  double norm =
      std::sqrt(sumOfSquares(optimizer.type, weights + range.begin, count));
  double rate = std::min(values.get("lr", 0), values.get("rate_decay", 1)) *
                std::max(norm / root, values.get("eps2", 0));
  followPieces(stage, weights, range, scalars, rate / std::max(excess, 1.0),
               direction);
}

template <typename T>
void Executor::Rank::followOrthogonal(const StageState &stage, char *weights,
                                      const UpdateRange &range,
                                      NumberArray &scalars,
                                      unsigned part) const {
  const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
  const PlanTensor &parameter = *range.parameter;
  Values values(optimizer, scalars);
  const auto *gradient =
      reinterpret_cast<const T *>(stage.arguments.gradients + range.begin);
  T *mean = stateOf<T>(optimizer, stage, parameter, "exp_avg");
  char *scratch = stage.memory->at(stage.plan->areas.scratch) +
                  part * stage.orthogonalBytes;
  auto *matrix = reinterpret_cast<float *>(scratch);
  const double scale = values.get("loss_scale", 1);
  const double momentum = values.get("momentum", 0);
  for (uint64_t i = 0; i < parameter.bytes / sizeof(T); ++i) {
    T value = static_cast<T>(gradient[i] / scale);
    mean[i] = interpolate(mean[i], value, 1 - momentum);
    // Nesterov's.
    matrix[i] = static_cast<float>(interpolate(value, mean[i], momentum));
  }
  range.orthogonalizer->run(scratch);
  auto rows = static_cast<double>(parameter.shape[0]);
  auto columns = static_cast<double>(parameter.shape[1]);
  double adjusted = values.get("match_rms", 0) != 0
                        ? 0.2 * std::sqrt(std::max(rows, columns))
                        : std::sqrt(std::max(1.0, rows / columns));
  followPieces(stage, weights, range, scalars, values.get("lr", 0) * adjusted,
               [&](int64_t at, int64_t end, char *into) {
                 constexpr auto size = static_cast<int64_t>(sizeof(T));
                 std::copy(matrix + at / size, matrix + end / size,
                           reinterpret_cast<T *>(into));
               });
}

bool Executor::Rank::followDirection(const StageState &stage, char *weights,
                                     const UpdateRange &range,
                                     NumberArray &scalars,
                                     unsigned part) const {
  const PlanOptimizer &optimizer = state.program.getPlan().optimizer;
  Values values(optimizer, scalars);
  // In a step that is skipped, the function keeps what there is.
  if (!findScalar(optimizer, directionName) || range.parameter->bytes == 0 ||
      values.get("skipped", 0) != 0)
    return false;
  bool isDouble = optimizer.type == DataType::F64;
  if (!findScalar(optimizer, orthogonalizeName)) {
    if (isDouble)
      followFactored<double>(stage, weights, range, scalars);
    else
      followFactored<float>(stage, weights, range, scalars);
    return true;
  }
  if (!range.orthogonalizer || values.get(orthogonalizeName, 0) == 0)
    return false;
  if (isDouble)
    followOrthogonal<double>(stage, weights, range, scalars, part);
  else
    followOrthogonal<float>(stage, weights, range, scalars, part);
  return true;
}
