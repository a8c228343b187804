//===- Gradients.cpp - Prove that every gradient counts once --------------===//
#include "pp/Planner/Schedule/Gradients.h"
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

using namespace pp::planner;

static GradientScale reduced(int64_t numerator, int64_t denominator) {
  int64_t divisor = std::gcd(numerator, denominator);
  return divisor == 0
             ? GradientScale{numerator, denominator}
             : GradientScale{numerator / divisor, denominator / divisor};
}

std::vector<GradientScale>
pp::planner::gradientScales(const std::vector<int64_t> &samples) {
  int64_t total = std::accumulate(samples.begin(), samples.end(), int64_t(0));
  std::vector<GradientScale> scales;
  for (int64_t count : samples)
    scales.push_back(reduced(count, total));
  return scales;
}

static std::string toText(const GradientScale &scale) {
  return std::to_string(scale.numerator) + "/" +
         std::to_string(scale.denominator);
}

namespace {

/// What is updated as one: the parameters of a part, or a tied one.
struct Parameter {
  std::vector<int> parts;
  const TiedParameter *tied = nullptr;
};

class GradientVerifier {
public:
  GradientVerifier(const Schedule &schedule, const GradientProblem &problem)
      : schedule(schedule), problem(problem) {}

  std::vector<std::string> run() {
    if (std::optional<std::string> fault = check())
      return {*fault};
    expected = gradientScales(problem.samples);
    int parts = schedule.parts();
    ofPart.resize(parts);
    for (int part = 0; part < parts; ++part)
      add({{part}, nullptr});
    for (const TiedParameter &tied : problem.tied)
      add({tied.parts, &tied});
    for (const RankGroup &group : schedule.groups)
      members.push_back(schedule.ranksOf(group));
    execute();
    return std::move(errors);
  }

private:
  std::optional<std::string> check() const {
    size_t m = std::max(schedule.microbatches, 0);
    if (problem.samples.size() != m)
      return "there are samples for " + std::to_string(problem.samples.size()) +
             " micro-batches, not " + std::to_string(m);
    int64_t total = 0;
    for (int64_t count : problem.samples) {
      if (count < 0 || count > (int64_t(1) << 62) - total)
        return "a micro-batch has " + std::to_string(count) + " samples";
      total += count;
    }
    if (total == 0)
      return "the mini-batch has no samples";
    size_t stages = std::max(schedule.stages, 0);
    bool scaled = problem.scales.empty() || problem.scales.size() == stages;
    for (const std::vector<GradientScale> &row : problem.scales)
      scaled &= row.size() == m;
    if (!scaled)
      return "there are not scales for each stage and micro-batch";
    if (schedule.rankOfStage.size() != stages ||
        (!schedule.replicas.empty() && schedule.replicas.size() != stages))
      return "the schedule does not say where each stage is";
    for (const Replica &replica : schedule.replicas)
      if (replica.part < 0 || replica.part >= schedule.stages ||
          replica.count < 1)
        return "a stage is a replica of no part";
    for (const TiedParameter &tied : problem.tied)
      for (int part : tied.parts)
        if (part < 0 || part >= schedule.parts())
          return "the tied parameter '" + tied.name + "' is in part " +
                 std::to_string(part) + ", which does not exist";
    for (const RankGroup &group : schedule.groups)
      for (int stage : group.stages)
        if (stage < 0 || stage >= schedule.stages)
          return "group '" + group.name + "' names stage " +
                 std::to_string(stage) + ", which does not exist";
    for (const RankGroup &group : schedule.groups)
      for (int stage : group.stages)
        if (group.kind == RankGroup::Kind::Gradients &&
            schedule.replicaOf(stage).part !=
                schedule.replicaOf(group.stages.front()).part)
          return "group '" + group.name +
                 "' adds up gradients of different parts: " +
                 schedule.describe(group.stages.front()) + " and " +
                 schedule.describe(stage);
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (const Action &action : schedule.ranks[rank]) {
        bool known = action.stage >= 0 && action.stage < schedule.stages;
        if (action.isCollective())
          known &= action.group >= 0 &&
                   action.group < static_cast<int>(schedule.groups.size());
        else if (!action.isPerStep())
          known &= action.microbatch >= 0 &&
                   action.microbatch < schedule.microbatches;
        if (!known)
          return name(action) + " names a stage, micro-batch or group that "
                                "does not exist";
        int here = static_cast<int>(rank);
        if (action.isCollective())
          if (std::vector<int> ranks =
                  schedule.ranksOf(schedule.groups[action.group]);
              !std::binary_search(ranks.begin(), ranks.end(), here))
            return name(action) + " is on rank " + std::to_string(rank) +
                   ", which is not in group '" +
                   schedule.groups[action.group].name + "'";
      }
    return std::nullopt;
  }

  void add(Parameter parameter) {
    for (int part : parameter.parts)
      ofPart[part].push_back(parameters.size());
    parameters.push_back(std::move(parameter));
  }

  std::string name(const Action &action) const {
    return toString(action, schedule.channels);
  }
  std::string whose(const Parameter &parameter) const {
    return parameter.tied ? "'" + parameter.tied->name + "'"
                          : "part " + std::to_string(parameter.parts.front());
  }

  /// How often each micro-batch of each part is in the sum that a rank has.
  std::vector<int> &sumOf(size_t parameter, int rank) {
    std::vector<int> &sum = sums[{parameter, rank}];
    sum.resize(parameters[parameter].parts.size() *
               size_t(schedule.microbatches));
    return sum;
  }

  void addContribution(const Action &action, int rank) {
    int i = action.microbatch;
    if (!schedule.runs(action.stage, i))
      errors.push_back(name(action) + ": micro-batch " + std::to_string(i) +
                       " does not belong to " +
                       schedule.describe(action.stage));
    GradientScale right = expected[i];
    GradientScale scale =
        problem.scales.empty() ? right : problem.scales[action.stage][i];
    GradientScale least = reduced(scale.numerator, scale.denominator);
    if (least.numerator != right.numerator ||
        least.denominator != right.denominator)
      errors.push_back(name(action) + ": " + schedule.describe(action.stage) +
                       " scales the gradient of micro-batch " +
                       std::to_string(i) + " by " + toText(scale) +
                       ", but it has " + toText(right) + " of the samples");
    int part = schedule.replicaOf(action.stage).part;
    for (size_t parameter : ofPart[part]) {
      const std::vector<int> &parts = parameters[parameter].parts;
      size_t row = std::find(parts.begin(), parts.end(), part) - parts.begin();
      ++sumOf(parameter, rank)[row * schedule.microbatches + i];
    }
  }

  void reduce(int number) {
    const RankGroup &group = schedule.groups[number];
    if (group.kind == RankGroup::Kind::Norm)
      return;
    for (size_t p = 0; p < parameters.size(); ++p) {
      const TiedParameter *tied = parameters[p].tied;
      bool isOne = group.kind == RankGroup::Kind::TiedGradients
                       ? tied && tied->name == group.name
                       : !tied && uses(group, parameters[p].parts.front());
      if (!isOne)
        continue;
      std::vector<int> sum(parameters[p].parts.size() *
                           size_t(schedule.microbatches));
      for (int rank : members[number]) {
        const std::vector<int> &own = sumOf(p, rank);
        for (size_t i = 0; i < sum.size(); ++i)
          sum[i] += own[i];
      }
      for (int rank : members[number])
        sumOf(p, rank) = sum;
    }
  }

  bool uses(const RankGroup &group, int part) const {
    return std::any_of(
        group.stages.begin(), group.stages.end(),
        [&](int stage) { return schedule.replicaOf(stage).part == part; });
  }

  void checkUpdate(const Action &action, int rank) {
    for (size_t p : ofPart[schedule.replicaOf(action.stage).part]) {
      const std::vector<int> &sum = sumOf(p, rank);
      for (size_t cell = 0; cell < sum.size(); ++cell) {
        if (sum[cell] == 1)
          continue;
        int i = static_cast<int>(cell % schedule.microbatches);
        int part = parameters[p].parts[cell / schedule.microbatches];
        std::string of =
            parameters[p].tied ? " from part " + std::to_string(part) : "";
        errors.push_back(schedule.describe(action.stage) + " updates " +
                         whose(parameters[p]) +
                         (sum[cell] == 0
                              ? " without the gradient of micro-batch " +
                                    std::to_string(i) + of
                              : " with the gradient of micro-batch " +
                                    std::to_string(i) + of + " counted " +
                                    std::to_string(sum[cell]) + " times"));
      }
    }
  }

  /// Only collectives wait: what else orders actions is no matter of sums.
  void execute() {
    std::vector<size_t> at(schedule.ranks.size(), 0);
    std::vector<std::vector<int>> present(schedule.groups.size());
    std::vector<int> work(schedule.ranks.size());
    std::iota(work.rbegin(), work.rend(), 0);
    while (!work.empty()) {
      int rank = work.back();
      work.pop_back();
      const std::vector<Action> &list = schedule.ranks[rank];
      for (; at[rank] < list.size(); ++at[rank]) {
        const Action &action = list[at[rank]];
        if (action.performs(Phase::BackwardWeight))
          addContribution(action, rank);
        else if (action.kind == ActionKind::Update)
          checkUpdate(action, rank);
        else if (action.isCollective()) {
          std::vector<int> &here = present[action.group];
          here.push_back(rank);
          if (here.size() < members[action.group].size())
            break;
          reduce(action.group);
          for (int member : here)
            if (member != rank) {
              ++at[member];
              work.push_back(member);
            }
          here.clear();
        }
      }
    }
    for (size_t rank = 0; rank < at.size(); ++rank)
      if (at[rank] < schedule.ranks[rank].size())
        errors.push_back("rank " + std::to_string(rank) + " waits in " +
                         name(schedule.ranks[rank][at[rank]]) +
                         " for ranks that do not come");
  }

  const Schedule &schedule;
  const GradientProblem &problem;
  std::vector<GradientScale> expected;
  std::vector<Parameter> parameters;
  std::vector<std::vector<size_t>> ofPart; // Indices of parameters.
  std::vector<std::vector<int>> members;   // Group: ranks.
  std::map<std::pair<size_t, int>, std::vector<int>> sums;
  std::vector<std::string> errors;
};

} // namespace

std::vector<std::string>
pp::planner::verifyGradients(const Schedule &schedule,
                             const GradientProblem &problem) {
  return GradientVerifier(schedule, problem).run();
}
