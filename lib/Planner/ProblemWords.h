//===- ProblemWords.h - Words of the problem format -----------------------===//
#ifndef PP_LIB_PLANNER_PROBLEMWORDS_H
#define PP_LIB_PLANNER_PROBLEMWORDS_H

#include "pp/Planner/Partition/GraphPartitioner.h"

namespace pp::planner {

template <typename Enum> struct Word {
  const char *text;
  Enum value;
};

inline constexpr Word<Objective> objectives[] = {
    {"time", Objective::Time},
    {"memory", Objective::Memory},
    {"flush_latency", Objective::FlushLatency},
    {"pipedream", Objective::PipeDream}};
inline constexpr Word<Communication> communications[] = {
    {"added", Communication::Added},
    {"overlapped", Communication::Overlapped},
    {"ignored", Communication::Ignored}};
inline constexpr Word<PipeDreamForm> forms[] = {
    {"code", PipeDreamForm::Code}, {"paper", PipeDreamForm::Paper}};
inline constexpr Word<InFlightRule> rules[] = {
    {"from_first", InFlightRule::FromFirst},
    {"from_last", InFlightRule::FromLast},
    {"replicas", InFlightRule::Replicas}};
inline constexpr Word<SearchStop> stops[] = {{"none", SearchStop::None},
                                             {"steps", SearchStop::Steps},
                                             {"time", SearchStop::Time}};
inline constexpr Word<bool> passes[] = {{"forward", false}, {"backward", true}};

template <typename Enum, size_t n>
const char *wordOf(const Word<Enum> (&words)[n], Enum value) {
  for (const Word<Enum> &word : words)
    if (word.value == value)
      return word.text;
  return "";
}

} // namespace pp::planner

#endif // PP_LIB_PLANNER_PROBLEMWORDS_H
