//===- ReplicatePlan.cpp --------------------------------------------------===//
#include "plan/ReplicatePlan.h"
#include "support/Error.h"

#include <algorithm>

using namespace pp::runtime;

namespace {

/// An area of a stage, cut into a part for each replica.
class Parts {
public:
  /// `exchange`: where the places for the parts of other replicas begin.
  Parts(const char *name, const PlanArea &area, unsigned replicas,
        uint64_t exchange)
      : name(name), area(area), exchange(exchange),
        stride(alignUp((area.bytes + replicas - 1) / replicas)) {}

  const char *getName() const { return name; }
  uint64_t offset(unsigned part) const { return area.offset + begin(part); }
  uint64_t bytes(unsigned part) const { return begin(part + 1) - begin(part); }
  /// Where replica `to` puts its part of what replica `from` has.
  uint64_t place(unsigned from, unsigned to) const {
    return exchange + (from < to ? from : from - 1) * stride;
  }
  uint64_t exchangeBytes(unsigned replicas) const {
    return (replicas - 1) * stride;
  }

private:
  uint64_t begin(unsigned part) const {
    return std::min(part * stride, area.bytes);
  }

  const char *name;
  PlanArea area;
  uint64_t exchange, stride;
};

class Replicator {
public:
  explicit Replicator(const Plan &plan) : one(plan), count(plan.replicas) {}

  Plan run() {
    for (size_t i = 0; i < one.fetches.size(); ++i)
      if (!one.fetches[i].batched)
        failInput("fetches[{}]: '{}' is not batched, but {} replicas make it",
                  i, one.fetches[i].name, count);
    all = one;
    all.stages.clear();
    all.channels.clear();
    all.ranks.clear();
    for (const PlanChannel &channel : one.channels)
      for (unsigned copy = 0; copy < count; ++copy)
        addChannel(channel, copy);
    for (unsigned stage = 0; stage < one.stages.size(); ++stage)
      for (unsigned copy = 0; copy < count; ++copy)
        addStage(stage, copy);
    if (one.isTraining())
      for (unsigned stage = 0; stage < one.stages.size(); ++stage)
        addReductions(stage);
    for (const PlanRank &rank : one.ranks)
      for (unsigned copy = 0; copy < count; ++copy)
        addRank(rank, copy);
    all.ties.clear();
    for (const PlanTie &tie : one.ties)
      for (unsigned copy = 0; copy < count; ++copy) {
        PlanTie &own = all.ties.emplace_back(tie);
        for (PlanTie::Part &part : own.parts)
          part.stage = numberOf(part.stage, copy);
      }
    return std::move(all);
  }

private:
  unsigned numberOf(unsigned ofOne, unsigned copy) const {
    return ofOne * count + copy;
  }

  void addChannel(const PlanChannel &channel, unsigned copy) {
    PlanChannel &result = all.channels.emplace_back(channel);
    result.from = numberOf(channel.from, copy);
    result.to = numberOf(channel.to, copy);
    auto spread = [&](const std::vector<unsigned> &slots) {
      std::vector<unsigned> result(slots.empty() ? 0 : one.microbatches);
      for (unsigned k = 0; k < slots.size(); ++k)
        result[numberOf(k, copy)] = slots[k];
      return result;
    };
    result.sendSlot = spread(channel.sendSlot);
    result.receiveSlot = spread(channel.receiveSlot);
  }

  void addStage(unsigned stage, unsigned copy) {
    PlanStage &result = all.stages.emplace_back(one.stages[stage]);
    result.name += fmt::format(".{}", copy);
    result.code = stage;
    result.replica = copy;
    for (PlanPhase &phase : result.phases)
      for (auto *list : {&phase.inputs, &phase.outputs})
        for (PlanReference &reference : *list)
          if (reference.kind == PlanReference::Kind::Channel)
            reference.index = numberOf(reference.index, copy);
  }

  /// Calls `visit(from, to)` for all pairs, in the one order that all replicas
  /// keep.
  template <typename Visit> void forEachPair(Visit visit) const {
    for (unsigned distance = 1; distance < count; ++distance)
      for (unsigned from = 0; from < count; ++from)
        visit(from, (from + distance) % count);
  }

  /// The channels and sums by which the copies of a stage add up.
  void addReductions(unsigned stage) {
    const PlanAreas &areas = one.stages[stage].areas;
    std::vector<Parts> parts;
    uint64_t needed = 0;
    for (auto [name, area] : {std::pair("gradients", &areas.gradients),
                              std::pair("statistics", &areas.statistics)})
      if (area->bytes) {
        parts.emplace_back(name, *area, count, areas.exchange.offset + needed);
        needed += parts.back().exchangeBytes(count);
      }
    if (areas.exchange.bytes < needed)
      failInput("stages[{}].areas.exchange: has {} bytes, but {} replicas need "
                "{}",
                stage, areas.exchange.bytes, count, needed);
    std::vector<Exchange> &exchanges = exchangesOf.emplace_back();
    for (const Parts &part : parts) {
      exchanges.push_back(addExchange(stage, part));
      for (unsigned copy = 0; copy < count; ++copy)
        addSum(stage, part, copy);
    }
  }

  /// Channels by sender and receiver; -1: there is nothing to send.
  using Matrix = std::vector<std::vector<int>>;
  struct Exchange {
    Matrix contributions, results;
  };

  Exchange addExchange(unsigned stage, const Parts &parts) {
    Exchange exchange;
    exchange.contributions = exchange.results =
        Matrix(count, std::vector<int>(count, -1));
    forEachPair([&](unsigned from, unsigned to) {
      if (parts.bytes(to))
        exchange.contributions[from][to] =
            addTransfer(stage, parts, from, to, to, parts.place(from, to),
                        ActionKind::SumGradients);
    });
    forEachPair([&](unsigned from, unsigned to) {
      if (!parts.bytes(from))
        return;
      int channel = addTransfer(stage, parts, from, to, from,
                                parts.offset(from), ActionKind::Update);
      exchange.results[from][to] = channel;
      all.channels[channel].repliesTo = exchange.contributions[to][from];
    });
    return exchange;
  }

  int addTransfer(unsigned stage, const Parts &parts, unsigned from,
                  unsigned to, unsigned part, uint64_t place,
                  ActionKind release) {
    PlanChannel channel{};
    channel.name = fmt::format(
        "{} of part {}, {} to {}",
        release == ActionKind::SumGradients ? parts.getName() : "sums", part,
        from, to);
    channel.kind = "reduction";
    channel.from = numberOf(stage, from);
    channel.to = numberOf(stage, to);
    channel.fromPhase = channel.toPhase = Phase::BackwardWeight;
    channel.type = one.optimizer.type;
    channel.bytes = parts.bytes(part);
    channel.shape = {
        static_cast<int64_t>(channel.bytes / sizeOf(channel.type))};
    channel.sendOffset = parts.offset(part);
    channel.receiveOffset = place;
    channel.sendSlots = channel.receiveSlots = 1;
    channel.sendSlot = channel.receiveSlot = {0};
    channel.release = release;
    all.channels.push_back(std::move(channel));
    return static_cast<int>(all.channels.size()) - 1;
  }

  void addSum(unsigned stage, const Parts &parts, unsigned copy) {
    if (!parts.bytes(copy))
      return;
    PlanStage &result = all.stages[numberOf(stage, copy)];
    PlanSum sum;
    for (unsigned from = 0; from < count; ++from)
      sum.parts.push_back(from == copy ? parts.offset(copy)
                                       : parts.place(from, copy));
    sum.target = parts.offset(copy);
    sum.bytes = parts.bytes(copy);
    sum.kernel = static_cast<unsigned>(result.kernels.size());
    DataType type = one.optimizer.type;
    result.kernels.push_back(
        {fmt::format("add count={}{}", parts.bytes(copy) / sizeOf(type),
                     type == DataType::F64 ? " type=f64" : ""),
         0});
    result.sums.push_back(std::move(sum));
  }

  void addRank(const PlanRank &rank, unsigned copy) {
    PlanRank result;
    for (unsigned stage : rank.stages)
      result.stages.push_back(numberOf(stage, copy));
    for (PlanAction action : rank.actions) {
      if (action.kind == ActionKind::ReduceGradients) {
        addReduction(result, action.stage, copy);
        continue;
      }
      action.stage = numberOf(action.stage, copy);
      if (action.kind == ActionKind::Send || action.kind == ActionKind::Receive)
        action.channel = numberOf(action.channel, copy);
      if (!isPerStep(action.kind))
        action.microbatch = numberOf(action.microbatch, copy);
      result.actions.push_back(action);
    }
    all.ranks.push_back(std::move(result));
  }

  void addReduction(PlanRank &rank, unsigned stage, unsigned copy) {
    auto add = [&](ActionKind kind, int channel = 0) {
      rank.actions.push_back(
          {kind, numberOf(stage, copy), static_cast<unsigned>(channel), 0, 0});
    };
    auto addTransfers = [&](const Matrix &channels) {
      forEachPair([&](unsigned from, unsigned to) {
        if (channels[from][to] < 0)
          return;
        if (from == copy)
          add(ActionKind::Send, channels[from][to]);
        else if (to == copy)
          add(ActionKind::Receive, channels[from][to]);
      });
    };
    for (const Exchange &exchange : exchangesOf[stage])
      addTransfers(exchange.contributions);
    if (!all.stages[numberOf(stage, copy)].sums.empty())
      add(ActionKind::SumGradients);
    for (const Exchange &exchange : exchangesOf[stage])
      addTransfers(exchange.results);
  }

  const Plan &one;
  Plan all;
  unsigned count;
  // By stage of `one`, one for each area:
  std::vector<std::vector<Exchange>> exchangesOf;
};

} // namespace

Plan pp::runtime::replicate(const Plan &plan) { return Replicator(plan).run(); }
