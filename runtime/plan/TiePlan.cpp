//===- TiePlan.cpp --------------------------------------------------------===//
#include "plan/TiePlan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

using namespace pp::runtime;

namespace {

class TieAdder {
public:
  explicit TieAdder(Plan &plan) : plan(plan), rankOf(plan.stages.size()) {
    for (unsigned rank = 0; rank < plan.ranks.size(); ++rank)
      for (unsigned stage : plan.ranks[rank].stages)
        rankOf[stage] = rank;
  }

  void run() {
    postponeUpdates();
    for (const PlanTie &tie : plan.ties)
      addSum(tie);
    for (const auto &[channel, from, to] : contributions)
      addTransfer(channel, from, to);
    for (unsigned stage : homes)
      plan.ranks[rankOf[stage]].actions.push_back(
          {ActionKind::SumGradients, stage, 0, 0, PlanSum::ofTies});
    for (const auto &[channel, from, to] : results)
      addTransfer(channel, from, to);
    for (unsigned rank = 0; rank < plan.ranks.size(); ++rank)
      plan.ranks[rank].actions.insert(plan.ranks[rank].actions.end(),
                                      updates[rank].begin(),
                                      updates[rank].end());
  }

private:
  struct Transfer {
    unsigned channel, from, to;
  };

  /// Takes the updates of ranks with a tie from their lists.
  void postponeUpdates() {
    std::set<unsigned> ranks;
    for (const PlanTie &tie : plan.ties)
      for (const PlanTie::Part &part : tie.parts)
        ranks.insert(rankOf[part.stage]);
    updates.resize(plan.ranks.size());
    for (unsigned rank : ranks) {
      std::vector<PlanAction> &actions = plan.ranks[rank].actions;
      auto isUpdate = [](const PlanAction &action) {
        return action.kind == ActionKind::Update;
      };
      std::copy_if(actions.begin(), actions.end(),
                   std::back_inserter(updates[rank]), isUpdate);
      std::erase_if(actions, isUpdate);
    }
  }

  void addSum(const PlanTie &tie) {
    unsigned home = tie.parts.front().stage;
    homes.insert(home);
    PlanSum sum;
    sum.group = PlanSum::ofTies;
    sum.bytes = tie.bytes;
    sum.target = tie.parts.front().offset;
    std::set<unsigned> served;
    for (const PlanTie::Part &part : tie.parts) {
      sum.parts.push_back(part.place.value_or(part.offset));
      if (!part.place)
        continue;
      bool getsSum = served.insert(part.stage).second;
      if (rankOf[part.stage] == rankOf[home]) {
        sum.neighbors.push_back(
            {part.stage, part.offset, *part.place, getsSum});
        continue;
      }
      unsigned contribution = addChannel(tie, part.stage, home, part.offset,
                                         *part.place, ActionKind::SumGradients);
      contributions.push_back({contribution, part.stage, home});
      if (!getsSum)
        continue;
      unsigned result = addChannel(tie, home, part.stage, sum.target,
                                   part.offset, ActionKind::Update);
      plan.channels[result].repliesTo = contribution;
      results.push_back({result, home, part.stage});
    }
    PlanStage &stage = plan.stages[home];
    sum.kernel = static_cast<unsigned>(stage.kernels.size());
    DataType type = plan.optimizer.type;
    stage.kernels.push_back(
        {fmt::format("add count={}{}", tie.bytes / sizeOf(type),
                     type == DataType::F64 ? " type=f64" : ""),
         0});
    stage.sums.push_back(std::move(sum));
  }

  unsigned addChannel(const PlanTie &tie, unsigned from, unsigned to,
                      uint64_t sendOffset, uint64_t receiveOffset,
                      ActionKind release) {
    PlanChannel channel{};
    channel.name = fmt::format("{} of '{}', stage {} to {}",
                               release == ActionKind::Update ? "sum" : "part",
                               tie.name, from, to);
    channel.kind = "reduction";
    channel.from = from;
    channel.to = to;
    channel.fromPhase = channel.toPhase = Phase::BackwardWeight;
    channel.type = plan.optimizer.type;
    channel.bytes = tie.bytes;
    channel.shape = {static_cast<int64_t>(tie.bytes / sizeOf(channel.type))};
    channel.sendOffset = sendOffset;
    channel.receiveOffset = receiveOffset;
    channel.sendSlots = channel.receiveSlots = 1;
    channel.sendSlot = channel.receiveSlot = {0};
    channel.release = release;
    channel.addedIn = PlanSum::ofTies;
    plan.channels.push_back(std::move(channel));
    return static_cast<unsigned>(plan.channels.size()) - 1;
  }

  void addTransfer(unsigned channel, unsigned from, unsigned to) {
    plan.ranks[rankOf[from]].actions.push_back(
        {ActionKind::Send, from, channel, 0, 0});
    plan.ranks[rankOf[to]].actions.push_back(
        {ActionKind::Receive, to, channel, 0, 0});
  }

  Plan &plan;
  std::vector<unsigned> rankOf;                 // by stage
  std::vector<std::vector<PlanAction>> updates; // by rank
  std::set<unsigned> homes;
  std::vector<Transfer> contributions, results;
};

} // namespace

void pp::runtime::addTies(Plan &plan) {
  if (!plan.ties.empty())
    TieAdder(plan).run();
}
