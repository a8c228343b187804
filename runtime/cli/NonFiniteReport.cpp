//===- NonFiniteReport.cpp ------------------------------------------------===//
#include "cli/NonFiniteReport.h"
#include "support/Printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace pp::runtime;

/// The first feed of floats that is not finite: the user's data.
static std::string findInFeeds(const Plan &plan, const Step &step) {
  for (size_t f = 0; f < plan.feeds.size(); ++f) {
    const PlanPort &port = plan.feeds[f];
    if (port.type != DataType::F32)
      continue;
    unsigned copies = port.batched ? plan.microbatches : 1;
    uint64_t count = port.bytes / sizeof(float);
    uint64_t rows = plan.batch / plan.microbatches;
    for (unsigned k = 0; k < copies; ++k) {
      const auto *values = reinterpret_cast<const float *>(step.feeds[f].at(k));
      std::optional<uint64_t> i = findNonFinite(values, count);
      if (!i)
        continue;
      std::string where;
      if (port.batched)
        where = fmt::format(" in sample {}, which is in micro-batch {} of this "
                            "step",
                            step.samples.at(k * rows + *i / (count / rows)), k);
      return fmt::format("the data hold it: array '{}' has {}{}",
                         printable(port.name), values[*i], where);
    }
  }
  return "";
}

/// The first parameter that is not finite.
static std::string findInParameters(const Program &program) {
  for (const StageMemory &memory : program.getMemories()) {
    if (!memory.isHere())
      continue;
    for (const PlanTensor &tensor : memory.getPlan().parameters)
      if (tensor.type == DataType::F32) {
        const auto *values =
            reinterpret_cast<const float *>(memory.parameter(tensor));
        if (auto i = findNonFinite(values, tensor.bytes / sizeof(float)))
          return fmt::format("parameter '{}' of stage '{}' holds {} already",
                             printable(tensor.name), memory.getPlan().name,
                             values[*i]);
      }
  }
  return "";
}

std::string pp::runtime::describeNonFinite(const Plan &plan,
                                           const Program &program,
                                           Executor &executor, Step &step) {
  std::string text = findInFeeds(plan, step);
  std::vector<std::string> ranks;
  for (size_t r = 0; r < step.overflows.size(); ++r)
    if (step.overflows[r] != 0)
      ranks.push_back(fmt::format("{}", r));
  // Also where the data explain it: the other processes do it too.
  std::optional<NonFinite> found = executor.findNonFinite(step);
  if (!text.empty())
    return text;
  text = findInParameters(program);
  if (!text.empty())
    return text;
  if (found) {
    const char *pass = found->phase == Phase::Forward ? "forward" : "backward";
    return fmt::format("it appears first in stage '{}', {} pass of "
                       "micro-batch {}, at node '{}', which gives {}",
                       plan.stages[found->stage].name, pass, found->microbatch,
                       printable(found->node), found->value);
  }
  return fmt::format("found by rank{} {}", ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks, ", "));
}
