//===- Timeline.cpp - Draw a simulation with characters -------------------===//
#include "pp/Planner/Simulator.h"
#include <algorithm>
#include <cmath>

using namespace pp::planner;

static char symbol(const Action &action) {
  switch (action.kind) {
  case ActionKind::Forward:
    return static_cast<char>('0' + action.microbatch % 10);
  case ActionKind::Recompute:
    return '+';
  case ActionKind::Backward:
  case ActionKind::BackwardInput:
    return static_cast<char>('a' + action.microbatch % 26);
  case ActionKind::BackwardWeight:
    return static_cast<char>('A' + action.microbatch % 26);
  case ActionKind::Update:
    return '!';
  case ActionKind::Prepare:
    return '^';
  case ActionKind::Send:
  case ActionKind::Receive:
    return '.';
  case ActionKind::ReduceGradients:
  case ActionKind::AllReduce:
  case ActionKind::SumGradients:
  case ActionKind::Push:
  case ActionKind::Pull:
  case ActionKind::AddPushes:
    return '=';
  }
  return '?';
}

std::string pp::planner::renderTimeline(const Simulation &simulation,
                                        int width) {
  // One column per shortest action, if that fits.
  double shortest = simulation.makespan;
  for (const std::vector<TimedAction> &rank : simulation.ranks)
    for (const TimedAction &timed : rank)
      if (timed.end > timed.start && !timed.action.isTransfer())
        shortest = std::min(shortest, timed.end - timed.start);
  int columns = 0;
  if (shortest > 0)
    columns = static_cast<int>(std::min<double>(
        std::ceil(simulation.makespan / shortest - 1e-9), std::max(width, 1)));
  size_t digits = std::to_string(simulation.ranks.size()).size();
  std::string text;
  for (size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    std::string label = std::to_string(rank);
    text += "rank " +
            std::string(digits - std::min(digits, label.size()), ' ') + label +
            " |";
    std::string row(columns, '.');
    // A column shows the action at its middle.
    auto timed = simulation.ranks[rank].begin();
    auto end = simulation.ranks[rank].end();
    for (int column = 0; column < columns; ++column) {
      double time = (column + 0.5) * simulation.makespan / columns;
      while (timed != end && (timed->end <= time || timed->action.isTransfer()))
        ++timed;
      if (timed != end && timed->start <= time)
        row[column] = symbol(timed->action);
    }
    text += row + "|\n";
  }
  return text;
}
