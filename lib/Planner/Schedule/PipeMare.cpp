//===- PipeMare.cpp - Formulas for training with old weights --------------===//
#include "pp/Planner/Schedule/Asynchronous.h"
#include <algorithm>
#include <cmath>
#include <numbers>

using namespace pp::planner;

double pp::planner::pipeMareForwardDelay(int stage, int stages,
                                         int microbatchesPerUpdate) {
  return (2.0 * (stages - 1 - stage) + 1) / microbatchesPerUpdate;
}

double pp::planner::largestStableLearningRate(double curvature, double delay) {
  return 2 / curvature * std::sin(std::numbers::pi / (4 * delay + 2));
}

double pp::planner::pipeMareLearningRate(double base, double delay, int update,
                                         int annealing) {
  double done =
      annealing > 0 ? std::min(static_cast<double>(update) / annealing, 1.) : 1;
  return base / std::pow(std::max(delay, 1.), 1 - done);
}

DiscrepancyCorrection::DiscrepancyCorrection(double forwardDelay,
                                             double backwardDelay, double decay)
    : distance(forwardDelay - backwardDelay),
      keep(distance > 0 ? std::pow(decay, 1 / distance) : 0) {}
