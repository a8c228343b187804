//===- ChromeTrace.cpp - Show a simulation in a browser -------------------===//
#include "pp/Planner/ChromeTrace.h"
#include <nlohmann/json.hpp>

using namespace pp::planner;
using Json = nlohmann::ordered_json;

static const char *category(ActionKind kind) {
  switch (kind) {
  case ActionKind::Forward:
    return "forward";
  case ActionKind::Recompute:
    return "recompute";
  case ActionKind::BackwardInput:
    return "backward of inputs";
  case ActionKind::BackwardWeight:
    return "backward of weights";
  case ActionKind::Backward:
    return "backward";
  case ActionKind::Send:
    return "send";
  case ActionKind::Receive:
    return "receive";
  case ActionKind::Update:
    return "update";
  case ActionKind::Prepare:
    return "prepare";
  case ActionKind::ReduceGradients:
  case ActionKind::AllReduce:
  case ActionKind::SumGradients:
  case ActionKind::Push:
  case ActionKind::Pull:
  case ActionKind::AddPushes:
    return "collective";
  }
  return "?";
}

std::string pp::planner::toChromeTrace(const Schedule &schedule,
                                       const Simulation &simulation,
                                       const std::vector<MemoryCurve> &memory) {
  constexpr double microseconds = 1e6;
  Json events = Json::array();
  for (size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 0},
                      {"tid", rank},
                      {"args", {{"name", "rank " + std::to_string(rank)}}}});
    for (const TimedAction &timed : simulation.ranks[rank]) {
      const Action &action = timed.action;
      Json event = {{"name", toString(action, schedule.channels)},
                    {"cat", category(action.kind)},
                    {"ph", "X"},
                    {"pid", 0},
                    {"tid", rank},
                    {"ts", timed.start * microseconds},
                    {"dur", (timed.end - timed.start) * microseconds},
                    {"args", {{"stage", action.stage}}}};
      if (action.microbatch >= 0)
        event["args"]["microbatch"] = action.microbatch;
      events.push_back(std::move(event));
      if (!action.isTransfer())
        continue;
      bool send = action.kind == ActionKind::Send;
      Json arrow = {{"name", schedule.channels[action.channel].name},
                    {"cat", "transfer"},
                    {"ph", send ? "s" : "f"},
                    {"id", int64_t(action.channel) * schedule.microbatches +
                               action.microbatch},
                    {"pid", 0},
                    {"tid", rank},
                    {"ts", (send ? timed.start : timed.end) * microseconds}};
      if (!send)
        arrow["bp"] = "e";
      events.push_back(std::move(arrow));
    }
  }
  for (size_t rank = 0; rank < memory.size(); ++rank)
    for (const MemoryStep &step : memory[rank].steps)
      events.push_back({{"name", "bytes of rank " + std::to_string(rank)},
                        {"ph", "C"},
                        {"pid", 0},
                        {"ts", step.time * microseconds},
                        {"args", {{"bytes", step.bytes}}}});
  Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return trace.dump(1) + "\n";
}
