//===- ReplicatePlan.cpp --------------------------------------------------===//
#include "plan/ReplicatePlan.h"
#include "support/Error.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

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
  Replicator(const Plan &plan, bool addsUp) : one(plan), addsUp(addsUp) {
    for (unsigned stage = 0; stage < one.stages.size(); ++stage) {
      firstOf.push_back(total);
      total += one.replicasOf(stage);
    }
  }

  Plan run() {
    all = one;
    all.stages.clear();
    all.channels.clear();
    all.ranks.clear();
    for (const PlanChannel &channel : one.channels)
      addChannels(channel);
    for (unsigned stage = 0; stage < one.stages.size(); ++stage)
      for (unsigned copy = 0; copy < one.replicasOf(stage); ++copy)
        addStage(stage, copy);
    // Virtual workers share their waves instead.
    if (one.isTraining() && addsUp && !one.clockDistance)
      for (unsigned stage = 0; stage < one.stages.size(); ++stage)
        addReductions(stage);
    std::vector<unsigned> copies(one.stages.size(), 0);
    std::vector<unsigned> workers = one.workersOfRanks();
    bool hasOwnLists = !workers.empty() && workers.back() > 0;
    for (size_t r = 0; r < one.ranks.size(); ++r) {
      const PlanRank &rank = one.ranks[r];
      if (hasOwnLists) {
        addRank(rank, workers[r]);
        continue;
      }
      if (!one.stageReplicas.empty()) {
        addRank(rank, copies[rank.stages.front()]++);
        continue;
      }
      for (unsigned copy = 0; copy < one.replicas; ++copy)
        addRank(rank, copy);
    }
    all.ties.clear();
    for (const PlanTie &tie : one.ties)
      for (unsigned copy = 0; copy < one.replicas; ++copy) {
        PlanTie &own = all.ties.emplace_back(tie);
        for (PlanTie::Part &part : own.parts)
          part.stage = numberOf(part.stage, copy);
      }
    return std::move(all);
  }

private:
  unsigned numberOf(unsigned stage, unsigned copy) const {
    return firstOf[stage] + copy;
  }
  /// In the step, of a micro-batch as the list of a copy numbers it.
  unsigned microbatchOf(unsigned listed, unsigned copy) const {
    return one.stageReplicas.empty() ? listed * one.replicas + copy : listed;
  }

  /// A slot belongs to one pair of copies: they take it in their own order.
  void checkPairs(const PlanChannel &channel) const {
    auto number = &channel - one.channels.data();
    auto check = [&](const char *key, const std::vector<unsigned> &slots,
                     unsigned here, unsigned there) {
      // (copy at this end, slot): a micro-batch of the copy at the other.
      std::map<std::pair<unsigned, unsigned>, unsigned> owners;
      for (unsigned k = 0; k < slots.size(); ++k) {
        auto [it, isNew] = owners.emplace(std::pair(k % here, slots[k]), k);
        if (!isNew && it->second % there != k % there)
          failInput("channels[{}].{}: micro-batches {} and {} use slot {}, but "
                    "other replicas are at the other end",
                    number, key, it->second, k, slots[k]);
      }
    };
    unsigned senders = one.replicasOf(channel.from),
             receivers = one.replicasOf(channel.to);
    check("send_slot", channel.sendSlot, senders, receivers);
    check("receive_slot", channel.receiveSlot, receivers, senders);
  }

  /// One for each pair of copies that have a micro-batch in common.
  void addChannels(const PlanChannel &channel) {
    unsigned senders = one.replicasOf(channel.from),
             receivers = one.replicasOf(channel.to);
    if (!one.stageReplicas.empty())
      checkPairs(channel);
    // (sender, receiver, micro-batch)
    std::vector<std::array<unsigned, 3>> users;
    auto period = std::min<uint64_t>(
        std::lcm<uint64_t, uint64_t>(senders, receivers), one.microbatches);
    for (unsigned k = 0; k < period; ++k)
      users.push_back({k % senders, k % receivers, k});
    std::sort(users.begin(), users.end());
    // Of all copies of equal numbers, the tables are as large as the plan's.
    constexpr uint64_t mostEntries = uint64_t(1) << 24;
    if (!one.stageReplicas.empty() &&
        (entries += period * one.microbatches) > mostEntries)
      failInput("stage_replicas: {} and {} replicas of neighbours and {} "
                "micro-batches are too many",
                senders, receivers, one.microbatches);
    std::vector<unsigned> &copies = all.channelCopies.emplace_back(period);
    for (size_t i = 0; i < users.size(); ++i) {
      auto [from, to, microbatch] = users[i];
      if (i == 0 || users[i - 1][0] != from || users[i - 1][1] != to)
        addChannel(channel, from, to);
      copies[microbatch] = static_cast<unsigned>(all.channels.size()) - 1;
    }
  }

  void addChannel(const PlanChannel &channel, unsigned from, unsigned to) {
    PlanChannel &result = all.channels.emplace_back(channel);
    result.from = numberOf(channel.from, from);
    result.to = numberOf(channel.to, to);
    // Virtual workers may differ in which stages are on one rank.
    if (!one.flushes && areTogether(channel.from, channel.to, from)) {
      result.sendSlots = 0;
      result.sendSlot.clear();
    }
    if (!one.stageReplicas.empty() || !one.flushes)
      return;
    auto spread = [&](const std::vector<unsigned> &slots) {
      std::vector<unsigned> result(slots.empty() ? 0 : one.microbatches);
      for (unsigned k = 0; k < slots.size(); ++k)
        result[microbatchOf(k, from)] = slots[k];
      return result;
    };
    result.sendSlot = spread(channel.sendSlot);
    result.receiveSlot = spread(channel.receiveSlot);
  }

  /// Whether two stages are on one rank, of a virtual worker.
  bool areTogether(unsigned a, unsigned b, unsigned worker) const {
    std::vector<unsigned> workers = one.workersOfRanks();
    bool hasOwnLists = workers.back() > 0;
    for (size_t r = 0; r < workers.size(); ++r) {
      const std::vector<unsigned> &stages = one.ranks[r].stages;
      if ((!hasOwnLists || workers[r] == worker) &&
          std::count(stages.begin(), stages.end(), a) &&
          std::count(stages.begin(), stages.end(), b))
        return true;
    }
    return false;
  }

  void addStage(unsigned stage, unsigned copy) {
    PlanStage &result = all.stages.emplace_back(one.stages[stage]);
    result.code = stage;
    result.replica = copy;
    result.replicas = one.replicasOf(stage);
    if (result.replicas > 1)
      result.name += fmt::format(".{}", copy);
    for (size_t p = 0; p < result.phases.size(); ++p)
      for (PlanReference output : result.phases[p].outputs)
        if (output.kind == PlanReference::Kind::Fetch &&
            !one.fetches[output.index].batched && result.replicas > 1)
          failInput("fetches[{}]: '{}' is not batched, but {} replicas make it",
                    output.index, one.fetches[output.index].name,
                    result.replicas);
  }

  /// Calls `visit(from, to)` for all pairs, in the one order that all replicas
  /// keep.
  template <typename Visit>
  static void forEachPair(unsigned count, Visit visit) {
    for (unsigned distance = 1; distance < count; ++distance)
      for (unsigned from = 0; from < count; ++from)
        visit(from, (from + distance) % count);
  }

  /// The channels and sums by which the copies of a stage add up.
  void addReductions(unsigned stage) {
    std::vector<Exchange> &exchanges = exchangesOf.emplace_back();
    const PlanAreas &areas = one.stages[stage].areas;
    unsigned count = one.replicasOf(stage);
    if (count == 1)
      return;
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
    unsigned count = one.replicasOf(stage);
    Exchange exchange;
    exchange.contributions = exchange.results =
        Matrix(count, std::vector<int>(count, -1));
    forEachPair(count, [&](unsigned from, unsigned to) {
      if (parts.bytes(to))
        exchange.contributions[from][to] =
            addTransfer(stage, parts, from, to, to, parts.place(from, to),
                        ActionKind::SumGradients);
    });
    forEachPair(count, [&](unsigned from, unsigned to) {
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
    for (unsigned from = 0; from < one.replicasOf(stage); ++from)
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
      if (addsUp && action.kind == ActionKind::ReduceGradients) {
        addReduction(result, action, copy);
        continue;
      }
      action.stage = numberOf(action.stage, copy);
      if (!isPerStep(action.kind))
        action.microbatch = microbatchOf(action.microbatch, copy);
      if (action.kind == ActionKind::Send || action.kind == ActionKind::Receive)
        action.channel = all.channelOf(
            {PlanReference::Kind::Channel, action.channel}, action.microbatch);
      result.actions.push_back(action);
    }
    all.ranks.push_back(std::move(result));
  }

  void addReduction(PlanRank &rank, const PlanAction &reduction,
                    unsigned copy) {
    unsigned stage = reduction.stage, count = one.replicasOf(stage);
    auto add = [&](ActionKind kind, int channel = 0) {
      rank.actions.push_back({kind, numberOf(stage, copy),
                              static_cast<unsigned>(channel), 0, 0,
                              reduction.lag, reduction.version});
    };
    auto addTransfers = [&](const Matrix &channels) {
      forEachPair(count, [&](unsigned from, unsigned to) {
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
  bool addsUp;
  std::vector<unsigned> firstOf; // by stage of `one`
  unsigned total = 0;
  uint64_t entries = 0; // of the slot tables of all channels
  // By stage of `one`, one for each area:
  std::vector<std::vector<Exchange>> exchangesOf;
};

} // namespace

Plan pp::runtime::replicate(const Plan &plan, bool addsUp) {
  return Replicator(plan, addsUp).run();
}
