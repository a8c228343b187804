//===- SlotChoice.cpp - Slots by what they bring --------------------------===//
#include "pp/Planner/Schedule/Slots.h"
#include "pp/Planner/Simulator.h"
#include <limits>

using namespace pp::planner;

/// Of a step in which F, I, W and R last equally long; without slots, of one
/// whose sends wait for nobody.
static double makespanOfEqualTimes(const Schedule &schedule,
                                   const SlotAssignment *slots) {
  SimulationInput input;
  input.stages = {
      {.forward = 1, .backwardInput = 1, .backwardWeight = 1, .recompute = 1}};
  if (slots)
    input.sends = {SendRule::Kind::Slots, {}, slots};
  auto simulation = simulate(schedule, input);
  return simulation ? simulation->makespan
                    : std::numeric_limits<double>::infinity();
}

SlotAssignment pp::planner::chooseSlots(const Schedule &schedule) {
  constexpr double leastGain = 0.005;
  SlotAssignment least = assignSlots(schedule);
  if (!schedule.hasTransfers())
    return least;
  double longest = makespanOfEqualTimes(schedule, &least) * (1 - leastGain);
  if (makespanOfEqualTimes(schedule, nullptr) >= longest)
    return least;
  SlotAssignment more = assignSlots(schedule, {.receiveSlack = 1});
  return makespanOfEqualTimes(schedule, &more) < longest ? more : least;
}
