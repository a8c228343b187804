//===- GradientNorm.cpp ---------------------------------------------------===//
#include "exec/GradientNorm.h"

#include <cmath>
#include <map>

using namespace pp::runtime;

GradientNormPlan::GradientNormPlan(const Plan &plan,
                                   const std::set<std::string> &frozen)
    : parts(plan.ranks.size()) {
  std::vector<unsigned> rankOf(plan.stages.size());
  for (unsigned rank = 0; rank < plan.ranks.size(); ++rank)
    for (unsigned stage : plan.ranks[rank].stages)
      rankOf[stage] = rank;
  // The first stage that has it; copies have the same sums.
  std::map<std::string, Part> byName;
  for (unsigned stage = 0; stage < plan.stages.size(); ++stage)
    for (const PlanTensor &parameter : plan.stages[stage].parameters)
      if (!frozen.count(parameter.name))
        byName.try_emplace(parameter.name, Part{0, stage, &parameter});
  for (auto &[name, part] : byName) {
    part.number = owners.size();
    owners.push_back(rankOf[part.stage]);
    parts[owners.back()].push_back(part);
  }
}

template <typename T>
static double sumOfSquaresAs(const T *values, uint64_t count) {
  constexpr uint64_t width = 8;
  double sums[width] = {};
  uint64_t whole = count / width * width;
  for (uint64_t i = 0; i < whole; i += width)
    for (uint64_t lane = 0; lane < width; ++lane) {
      double value = values[i + lane];
      sums[lane] += value * value;
    }
  for (uint64_t i = whole; i < count; ++i) {
    double value = values[i];
    sums[i - whole] += value * value;
  }
  for (uint64_t half = width / 2; half > 0; half /= 2)
    for (uint64_t lane = 0; lane < half; ++lane)
      sums[lane] += sums[lane + half];
  return sums[0];
}

double pp::runtime::sumOfSquares(DataType type, const char *values,
                                 uint64_t count) {
  if (type == DataType::F64)
    return sumOfSquaresAs(reinterpret_cast<const double *>(values), count);
  return sumOfSquaresAs(reinterpret_cast<const float *>(values), count);
}

double pp::runtime::normOf(const std::vector<double> &sums, double scale) {
  double sum = 0;
  for (double part : sums)
    sum += part;
  return std::sqrt(sum) / scale;
}

template <typename T, typename Work>
static void forNumbers(char *values, uint64_t count, Work work) {
  auto *numbers = reinterpret_cast<T *>(values);
  for (uint64_t i = 0; i < count; ++i)
    numbers[i] = work(numbers[i]);
}

void pp::runtime::clampNumbers(DataType type, char *values, uint64_t count,
                               double limit) {
  auto clamp = [&](auto most) {
    using T = decltype(most);
    forNumbers<T>(values, count, [most](T value) {
      return value > most ? most : value < -most ? -most : value;
    });
  };
  if (type == DataType::F64)
    clamp(limit);
  else
    clamp(static_cast<float>(limit));
}

void pp::runtime::scaleNumbers(DataType type, char *values, uint64_t count,
                               double factor) {
  if (type == DataType::F64)
    forNumbers<double>(values, count,
                       [factor](double value) { return value * factor; });
  else
    forNumbers<float>(values, count,
                      [factor = static_cast<float>(factor)](float value) {
                        return value * factor;
                      });
}
