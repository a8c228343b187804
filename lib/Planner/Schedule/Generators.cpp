//===- Generators.cpp - Schedules by name ---------------------------------===//
#include "pp/Planner/Schedule/Generators.h"

using namespace pp::planner;

namespace {

struct Generator {
  std::string_view name;
  Result<Schedule> (*make)(PipelineShape);
  Placement placement = Placement::OnePerRank;
  bool trains = true;
};

/// Where two are as good, searches take the first.
constexpr Generator generators[] = {
    {"inference", inferenceSchedule, Placement::OnePerRank, /*trains=*/false},
    {"gpipe", gpipeSchedule},
    {"1f1b", oneForwardOneBackwardSchedule},
    {"eager-1f1b", eagerOneForwardOneBackwardSchedule},
    {"interleaved", interleavedSchedule, Placement::Loop},
    {"looped-bfs", breadthFirstSchedule, Placement::Loop},
    {"zb-h1", zeroBubbleH1Schedule},
    {"zb-h2", zeroBubbleH2Schedule},
    {"zb-v", zeroBubbleVSchedule, Placement::V},
    {"v-half", vHalfSchedule, Placement::V},
    {"v-min", vMinSchedule, Placement::V},
    {"dualpipev", dualPipeVSchedule, Placement::V},
};

} // namespace

std::vector<std::string_view> pp::planner::scheduleNames() {
  std::vector<std::string_view> names;
  for (const Generator &generator : generators)
    names.push_back(generator.name);
  return names;
}

std::vector<std::string_view> pp::planner::trainingScheduleNames() {
  std::vector<std::string_view> names;
  for (const Generator &generator : generators)
    if (generator.trains)
      names.push_back(generator.name);
  return names;
}

std::optional<Placement> pp::planner::placementOf(std::string_view name) {
  for (const Generator &generator : generators)
    if (generator.name == name)
      return generator.placement;
  return std::nullopt;
}

Result<Schedule> pp::planner::makeSchedule(std::string_view name,
                                           PipelineShape shape) {
  std::string names;
  for (const Generator &generator : generators) {
    if (generator.name == name)
      return generator.make(shape);
    if (!names.empty())
      names += &generator == std::end(generators) - 1 ? " and " : ", ";
    names += generator.name;
  }
  return Failure{"there is no schedule '" + std::string(name) +
                 "'; there are " + names};
}
