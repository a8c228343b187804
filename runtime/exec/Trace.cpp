//===- Trace.cpp ----------------------------------------------------------===//
#include "exec/Trace.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

using namespace pp::runtime;

static unsigned trackOf(const PlanAction &action) {
  unsigned kind = action.kind == ActionKind::Send      ? 1
                  : action.kind == ActionKind::Receive ? 2
                                                       : 0;
  return action.stage * 3 + kind;
}

std::string
pp::runtime::formatTrace(const Plan &plan,
                         const std::vector<const RankTrace *> &ranks) {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"args\":"
                 "{{\"name\":{}}}}}",
                 nlohmann::json(plan.model).dump());
  constexpr const char *tracks[] = {"compute", "send", "receive"};
  // Behind the stages, their shards.
  auto stages = static_cast<unsigned>(plan.stages.size());
  auto nameOf = [&](unsigned s) {
    return s < stages ? plan.stages[s].name
                      : plan.stages[s - stages].name + " shard";
  };
  for (unsigned s = 0; s < (plan.clockDistance ? 2 * stages : stages); ++s)
    for (unsigned t = 0; t < 3; ++t)
      fmt::format_to(
          out,
          ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":{0},"
          "\"args\":{{\"name\":{1}}}}},\n{{\"ph\":\"M\",\"name\":"
          "\"thread_sort_index\",\"pid\":0,\"tid\":{0},\"args\":{{\"sort_"
          "index\":{0}}}}}",
          s * 3 + t,
          nlohmann::json(fmt::format("{} {}", nameOf(s), tracks[t])).dump());
  int64_t origin = INT64_MAX;
  for (const RankTrace *rank : ranks)
    if (!rank->events.empty())
      origin = std::min(origin, rank->events.front().begin);
  for (size_t r = 0; r < ranks.size(); ++r)
    for (const TraceEvent &event : ranks[r]->events) {
      const PlanAction &action = plan.ranks[r].actions[event.action];
      unsigned track =
          trackOf(action) + (plan.ranks[r].shardOf ? 3 * stages : 0);
      double begin = (event.begin - origin) / 1e3;
      double duration = (event.end - event.begin) / 1e3;
      fmt::format_to(out,
                     ",\n{{\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},"
                     "\"dur\":{:.3f},\"name\":\"{}\",\"cat\":\"{}\",\"args\":{{"
                     "\"step\":{}",
                     track, begin, duration, toString(plan, action),
                     tracks[track % 3], event.step);
      if (track % 3 == 0) {
        text += "}}";
        continue;
      }
      const PlanChannel &channel = plan.channels[action.channel];
      fmt::format_to(out, ",\"channel\":{},\"bytes\":{}}}}}",
                     nlohmann::json(channel.name).dump(), channel.bytes);
      bool isSend = track % 3 == 1;
      // The arrow starts and ends inside the slices, which is how viewers bind
      // it to them.
      fmt::format_to(
          out,
          ",\n{{\"ph\":\"{}\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},\"id\":{},"
          "\"name\":\"transfer\",\"cat\":\"transfer\"{}}}",
          isSend ? "s" : "f", track, isSend ? begin : begin + duration,
          (event.step * plan.channels.size() + action.channel) *
                  plan.microbatches +
              action.microbatch,
          isSend ? "" : ",\"bp\":\"e\"");
    }
  text += "\n]}\n";
  return text;
}
