//===- SharePlan.cpp ------------------------------------------------------===//
#include "plan/SharePlan.h"

#include "pprt/pprt.h"
#include "support/Error.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

using namespace pp::runtime;

SharedLayout::SharedLayout(uint64_t parameterBytes, unsigned workers,
                           unsigned distance)
    : parameters(parameterBytes),
      stride(alignUp((parameterBytes + workers - 1) / workers)),
      workers(workers), distance(distance) {}

uint64_t SharedLayout::begin(unsigned part) const {
  return std::min(part * stride, parameters);
}

uint64_t SharedLayout::token(unsigned worker, bool isOfBuffers) const {
  return push(workers) + (2 * worker + isOfBuffers) * uint64_t(PP_ALIGNMENT);
}

uint64_t SharedLayout::bytes() const {
  return workers > 1 ? token(workers, /*isOfBuffers=*/false) : push(workers);
}

SharedLayout pp::runtime::sharedLayout(const Plan &plan,
                                       const PlanStage &stage) {
  return {stage.areas.parameters.bytes, plan.replicas, *plan.clockDistance};
}

namespace {

class ShardAdder {
public:
  explicit ShardAdder(Plan &plan) : plan(plan) {}

  void run() {
    for (const PlanStage &stage : plan.stages)
      numberOf[{stage.code, stage.replica}] =
          static_cast<unsigned>(&stage - plan.stages.data());
    pushes.resize(plan.stages.size());
    pulls.resize(plan.stages.size());
    for (unsigned stage = 0; stage < plan.stages.size(); ++stage)
      addChannels(stage);
    std::vector<PlanRank> shards;
    for (const PlanRank &rank : plan.ranks)
      for (unsigned stage : rank.stages)
        if (sharedLayout(plan, plan.stages[stage])
                .bytesOf(plan.stages[stage].replica))
          shards.push_back(makeShard(rank, stage));
    for (PlanRank &rank : plan.ranks)
      expand(rank);
    plan.ranks.insert(plan.ranks.end(), shards.begin(), shards.end());
    for (unsigned stage = 0; stage < plan.stages.size(); ++stage)
      addIdleChannels(stage);
  }

private:
  /// The same stage of another worker.
  unsigned stageOf(unsigned stage, unsigned worker) const {
    return numberOf.at({plan.stages[stage].code, worker});
  }

  unsigned addChannel(const char *kind, unsigned from, unsigned to,
                      uint64_t bytes) {
    PlanChannel channel{};
    channel.kind = kind;
    channel.name =
        fmt::format("{} of '{}', worker {} to {}", kind, plan.stages[from].name,
                    plan.stages[from].replica, plan.stages[to].replica);
    channel.from = from;
    channel.to = to;
    channel.fromPhase = channel.toPhase = Phase::BackwardWeight;
    channel.type = plan.optimizer.type;
    channel.bytes = bytes;
    channel.shape = {static_cast<int64_t>(bytes / sizeOf(channel.type))};
    plan.channels.push_back(std::move(channel));
    return static_cast<unsigned>(plan.channels.size()) - 1;
  }

  static void setSlots(PlanChannel &channel, unsigned send, unsigned receive) {
    channel.sendSlots = send;
    channel.receiveSlots = receive;
    unsigned length = std::lcm(send, receive);
    for (unsigned wave = 0; wave < length; ++wave) {
      channel.sendSlot.push_back(wave % send);
      channel.receiveSlot.push_back(wave % receive);
    }
  }

  /// Between the stage of a worker and all shards.
  void addChannels(unsigned stage) {
    SharedLayout layout = sharedLayout(plan, plan.stages[stage]);
    unsigned worker = plan.stages[stage].replica;
    for (unsigned part = 0; part < plan.replicas; ++part) {
      uint64_t bytes = layout.bytesOf(part);
      if (!bytes)
        continue;
      unsigned shard = stageOf(stage, part);
      uint64_t own = plan.stages[stage].areas.shared.offset;
      uint64_t shared = plan.stages[shard].areas.shared.offset;
      pushes[stage].push_back(addChannel("push", stage, shard, bytes));
      PlanChannel &push = plan.channels.back();
      push.sendOffset = own + layout.update(part);
      push.receiveOffset = shared + layout.push(worker);
      push.release = ActionKind::AddPushes;
      setSlots(push, layout.waveSlots(), layout.transferSlots());
      pulls[stage].push_back(addChannel("pull", shard, stage, bytes));
      PlanChannel &pull = plan.channels.back();
      pull.sendOffset = shared + layout.shard();
      pull.receiveOffset = own + layout.pull(part);
      pull.release = ActionKind::Pull;
      setSlots(pull, 1, layout.transferSlots());
    }
  }

  static void add(PlanRank &rank, ActionKind kind, unsigned stage,
                  unsigned channel, const PlanAction &of) {
    rank.actions.push_back({kind, stage, channel, 0, 0, of.lag,
                            isTransfer(kind) ? 0 : of.version});
  }

  /// Adds up what is pushed at the same step of the list as workers push.
  PlanRank makeShard(const PlanRank &host, unsigned stage) const {
    PlanRank rank;
    rank.shardOf = stage;
    unsigned part = plan.stages[stage].replica;
    for (const PlanAction &action : host.actions) {
      if (action.kind != ActionKind::Push || action.stage != stage)
        continue;
      for (unsigned worker = 0; worker < plan.replicas; ++worker)
        add(rank, ActionKind::Receive, stage,
            pushes[stageOf(stage, worker)][part], action);
      add(rank, ActionKind::AddPushes, stage, 0, action);
      for (unsigned worker = 0; worker < plan.replicas; ++worker)
        add(rank, ActionKind::Send, stage, pulls[stageOf(stage, worker)][part],
            action);
    }
    return rank;
  }

  /// A push is of the whole wave of its step, a pull of what it completes.
  void checkVersion(const PlanAction &action) const {
    unsigned all = plan.updatesPerStep();
    unsigned wanted =
        action.kind == ActionKind::Push ? all : (*plan.clockDistance + 1) * all;
    if (action.version != static_cast<int>(wanted))
      failInput("ranks: {} of '{}' is of version {} of its step, must be of {}",
                nameOf(action.kind), plan.stages[action.stage].name,
                action.version, wanted);
  }

  void expand(PlanRank &rank) const {
    std::vector<PlanAction> listed = std::move(rank.actions);
    rank.actions.clear();
    for (const PlanAction &action : listed) {
      bool isPush = action.kind == ActionKind::Push;
      if (!isPush && action.kind != ActionKind::Pull) {
        rank.actions.push_back(action);
        continue;
      }
      checkVersion(action);
      // The nearest shard first, so that not all workers meet at one.
      const auto &channels = (isPush ? pushes : pulls)[action.stage];
      unsigned first = plan.stages[action.stage].replica;
      for (size_t i = 0; i < channels.size(); ++i)
        add(rank, isPush ? ActionKind::Send : ActionKind::Receive, action.stage,
            channels[(first + i) % channels.size()], action);
      if (!isPush && !channels.empty())
        rank.actions.push_back(action);
    }
  }

  /// From worker 0 to the others, each after its token.
  void addIdleChannels(unsigned stage) {
    unsigned worker = plan.stages[stage].replica;
    if (worker == 0)
      return;
    unsigned first = stageOf(stage, 0);
    const PlanAreas &areas = plan.stages[stage].areas;
    SharedLayout layout = sharedLayout(plan, plan.stages[stage]);
    for (bool isOfBuffers : {false, true}) {
      const PlanArea &area = isOfBuffers ? areas.buffers : areas.optimizer;
      if (!area.bytes || (isOfBuffers && !areas.statistics.bytes))
        continue;
      unsigned token = addChannel("token", stage, first, PP_ALIGNMENT);
      PlanChannel &ask = plan.channels[token];
      ask.sendOffset = area.offset;
      ask.receiveOffset =
          areas.shared.offset + layout.token(worker, isOfBuffers);
      addChannel(isOfBuffers ? "buffers" : "states", first, stage, area.bytes);
      PlanChannel &answer = plan.channels.back();
      answer.sendOffset = answer.receiveOffset = area.offset;
      answer.repliesTo = token;
      for (PlanChannel *channel : {&plan.channels[token], &answer}) {
        channel->release = ActionKind::Pull;
        channel->isOfIdle = true;
        setSlots(*channel, 1, 1);
      }
    }
  }

  Plan &plan;
  std::map<std::pair<unsigned, unsigned>, unsigned> numberOf; // code, worker
  std::vector<std::vector<unsigned>> pushes, pulls; // by stage: of each part
};

} // namespace

void pp::runtime::addShards(Plan &plan) {
  if (plan.clockDistance)
    ShardAdder(plan).run();
}
