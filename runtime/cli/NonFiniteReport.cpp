//===- NonFiniteReport.cpp ------------------------------------------------===//
#include "cli/NonFiniteReport.h"
#include "support/Printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstdlib>

using namespace pp::runtime;
using nlohmann::json;

/// The first feed of floats that is not finite: the user's data.
static std::string findInFeeds(const Plan &plan, const Step &step) {
  for (size_t f = 0; f < plan.feeds.size(); ++f) {
    const PlanPort &port = plan.feeds[f];
    unsigned copies = port.batched ? plan.microbatches : 1;
    uint64_t count = port.bytes / sizeOf(port.type);
    uint64_t rows = plan.batch / plan.microbatches;
    for (unsigned k = 0; k < copies; ++k) {
      std::optional<FoundElement> found =
          findNonFinite(port.type, step.feeds[f].at(k), count);
      if (!found)
        continue;
      std::string where;
      if (port.batched)
        where = fmt::format(
            " in sample {}, which is in micro-batch {} of this "
            "step",
            step.samples.at(k * rows + found->index / (count / rows)), k);
      return fmt::format("the data hold it: array '{}' has {}{}",
                         printable(port.name), found->value, where);
    }
  }
  return "";
}

/// The first parameter that is not finite.
static std::string findInParameters(const Program &program) {
  for (const StageMemory &memory : program.getMemories()) {
    if (!memory.isHere())
      continue;
    memory.download();
    for (const PlanTensor &tensor : memory.getPlan().parameters)
      if (auto found = findNonFinite(tensor.type, memory.parameter(tensor),
                                     tensor.bytes / sizeOf(tensor.type)))
        return fmt::format("parameter '{}' of stage '{}' holds {} already",
                           printable(tensor.name), memory.getPlan().name,
                           found->value);
  }
  return "";
}

namespace {
/// What one process finds out.
struct Findings {
  std::string inFeeds, inParameters; // empty: nothing
  std::optional<NonFinite> kernel;
};
} // namespace

static std::string toText(const Findings &findings) {
  json text{findings.inFeeds, findings.inParameters};
  if (const auto &kernel = findings.kernel) {
    // JSON has no such numbers.
    std::string value = fmt::format("{}", kernel->value);
    text.push_back({kernel->stage, kernel->microbatch, kernel->phase,
                    kernel->kernel, kernel->node, value});
  }
  constexpr auto replace = json::error_handler_t::replace; // names of files
  return text.dump(-1, ' ', /*ensure_ascii=*/false, replace);
}

/// Of another process of this program.
static Findings fromText(const std::string &text) {
  json parsed = json::parse(text);
  Findings findings{parsed.at(0), parsed.at(1), {}};
  if (parsed.size() > 2) {
    const json &kernel = parsed[2];
    findings.kernel = NonFinite{
        kernel.at(0),
        kernel.at(1),
        kernel.at(2),
        kernel.at(3),
        kernel.at(4),
        std::strtod(kernel.at(5).get<std::string>().c_str(), nullptr)};
  }
  return findings;
}

std::string pp::runtime::describeNonFiniteData(const Plan &plan,
                                               const Program &program,
                                               const Step &step) {
  std::string first;
  Findings own{findInFeeds(plan, step), "", {}};
  for (const std::string &text : program.getGroup().gather(toText(own)))
    if (first.empty())
      first = fromText(text).inFeeds;
  return first;
}

std::string pp::runtime::describeNonFinite(const Plan &plan,
                                           const Program &program,
                                           Executor &executor, Step &step) {
  std::vector<std::string> ranks;
  for (size_t r = 0; r < step.overflows.size(); ++r)
    if (step.overflows[r] != 0)
      ranks.push_back(fmt::format("{}", r));
  Findings own{findInFeeds(plan, step), "", {}};
  own.kernel = executor.findNonFinite(step);
  own.inParameters = findInParameters(program);
  std::string inFeeds, inParameters;
  std::optional<NonFinite> found;
  for (const std::string &text : program.getGroup().gather(toText(own))) {
    Findings findings = fromText(text);
    if (inFeeds.empty())
      inFeeds = findings.inFeeds;
    if (inParameters.empty())
      inParameters = findings.inParameters;
    keepFirst(found, findings.kernel);
  }
  if (!inFeeds.empty())
    return inFeeds;
  if (!inParameters.empty())
    return inParameters;
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
