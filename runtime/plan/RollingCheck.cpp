//===- RollingCheck.cpp - Actions of a plan without a flush ---------------===//
#include "plan/Plan.h"
#include "plan/SharePlan.h"
#include "support/Error.h"

#include <algorithm>
#include <optional>

using namespace pp::runtime;

namespace {

constexpr int64_t nothing = -1;

/// What a stage holds while its actions are played.
struct StageSlots {
  explicit StageSlots(const PlanStage &stage)
      : weights(stage.versions, 0), prepared(stage.versions, nothing),
        pulled(stage.versions, 0),
        residuals(std::max<uint64_t>(stage.areas.residualSlots, 1), nothing) {}

  std::vector<int64_t> weights, prepared; // versions
  std::vector<int64_t> pulled; // waves of all workers in the weights, by slot
  std::vector<int64_t> residuals; // micro-batches
  // Passes run in the order of the micro-batches, so that gradients are added
  // in it.
  int64_t forwards = 0, backwards = 0, updates = 0;
  /// Updates whose gradients it has added up, and for which all replicas stood
  /// there to do so.
  int64_t reductions = 0, met = 0;

  // Of a virtual worker:
  /// The sum of a wave's updates, of which it has some.
  struct WaveSum {
    int64_t wave = nothing;
    unsigned updates = 0;
  };
  std::vector<WaveSum> sums; // by slot
  int64_t pulls = 0;         // that have run
  int64_t shared = 0;        // waves of all workers in the stage's shard
};

struct ChannelSlots {
  std::vector<int64_t> send, receive; // micro-batches
  std::vector<bool> isReceived;       // by receive slot
};

/// Plays a run of some steps. Two micro-batches, or versions, share a slot if
/// their numbers differ by a multiple of a period, whatever the numbers are, so
/// a steady state that is right once is right for ever.
class Player {
public:
  /// Every third step has `few` micro-batches, as of a smaller batch.
  Player(const Plan &plan, unsigned few)
      : plan(plan), few(few), lag(plan.largestLag()) {
    unsigned versions = 1;
    for (const PlanStage &stage : plan.stages) {
      versions = std::max(versions, stage.versions);
      stages.emplace_back(stage);
      isRecomputed.emplace_back(plan.microbatches);
    }
    steps = 2 * lag + 2 * versions + 4;
    if (plan.clockDistance)
      steps = 2 * lag + 4;
    for (unsigned s = 0; s < stages.size() && plan.clockDistance; ++s)
      stages[s].sums.resize(sharedLayout(plan, plan.stages[s]).waveSlots());
    for (const PlanChannel &channel : plan.channels)
      channels.push_back({std::vector<int64_t>(channel.sendSlots, nothing),
                          std::vector<int64_t>(channel.receiveSlots, nothing),
                          std::vector<bool>(channel.receiveSlots)});
  }

  void run() {
    checkShape();
    next.assign(plan.ranks.size(), 0);
    bool progress = true;
    while (progress) {
      progress = false;
      for (unsigned r = 0; r < plan.ranks.size(); ++r)
        for (; next[r] < end(r) && play(r); ++next[r])
          progress = true;
    }
    checkCompletion();
  }

private:
  int64_t microbatchesIn(int64_t step) const {
    return step % 3 == 1 ? few : plan.microbatches;
  }
  /// Those of a stage in the steps before `step`.
  int64_t passesBefore(const PlanStage &stage, int64_t step) const {
    int64_t smaller = (step + 1) / 3;
    int64_t own =
        (int64_t(few) + stage.replicas - 1 - stage.replica) / stage.replicas;
    int64_t whole =
        (int64_t(plan.microbatches) + stage.replicas - 1 - stage.replica) /
        stage.replicas;
    return (step - smaller) * whole + smaller * own;
  }
  /// The number of a version that an action names, from 0 over all steps.
  int64_t versionOf(const PlanAction &action, int64_t step) const {
    return step * updatesOf(action) + action.version;
  }
  int64_t updatesOf(const PlanAction &action) const {
    return plan.updatesOf(plan.stages[action.stage]);
  }
  size_t end(unsigned r) const {
    return plan.ranks[r].actions.size() * (steps + lag);
  }
  std::string path(unsigned r, size_t position) const {
    return fmt::format("ranks[{}].actions[{}]", r, position);
  }

  void checkShape() {
    if (plan.findLossScale())
      failInput("flush: false, but a loss scale skips steps, which takes the "
                "gradients of all stages at one time");
    std::vector<unsigned> rankOf(plan.stages.size(), 0);
    for (unsigned r = 0; r < plan.ranksWithStages(); ++r)
      for (unsigned stage : plan.ranks[r].stages)
        rankOf[stage] = r;
    for (unsigned c = 0; c < plan.channels.size(); ++c)
      if (plan.channels[c].isResident() &&
          rankOf[plan.channels[c].from] != rankOf[plan.channels[c].to])
        failInput("channels[{}].send_slots: 0, but the channel leads from "
                  "rank {} to rank {}",
                  c, rankOf[plan.channels[c].from],
                  rankOf[plan.channels[c].to]);
    for (unsigned r = 0; r < plan.ranksWithStages(); ++r) {
      if (plan.ranks[r].stages.size() != 1 && !plan.clockDistance)
        failInput("ranks[{}].stages: {} stages, but without a flush each rank "
                  "has one",
                  r, plan.ranks[r].stages.size());
      std::optional<int> version;
      for (size_t i = 0; i < plan.ranks[r].actions.size(); ++i) {
        const PlanAction &action = plan.ranks[r].actions[i];
        checkKind(action, path(r, i));
        checkOneVersion(action, version, path(r, i));
      }
    }
  }

  /// Unless passes read the newest weights, whatever they are, those of a step
  /// read the same.
  void checkOneVersion(const PlanAction &action, std::optional<int> &version,
                       const std::string &path) {
    if (plan.stages[action.stage].readsNewest || isTransfer(action.kind) ||
        action.kind == ActionKind::Update ||
        action.kind == ActionKind::ReduceGradients)
      return;
    if (plan.dealsUpdates()) {
      // Each micro-batch of a replica reads the version behind that of the one
      // before.
      if (isPerStep(action.kind))
        return;
      int behind = action.version -
                   int(action.microbatch / plan.stages[action.stage].replicas);
      if (version.value_or(behind) != behind)
        failInput("{}: uses version {}, must use {}", path, action.version,
                  action.version - behind + *version);
      version = behind;
      return;
    }
    if (plan.clockDistance) {
      // What is in flight, a wave, is not in the weights.
      int wanted = int(action.microbatch / plan.replicas) + 1 -
                   int(plan.updatesPerStep());
      if (!isPerStep(action.kind) && action.version != wanted)
        failInput("{}: uses version {}, must use {}, that before the {} "
                  "micro-batches in flight",
                  path, action.version, wanted, plan.updatesPerStep());
      return;
    }
    if (version.value_or(action.version) != action.version)
      failInput("{}: uses version {}, but others of its step use {}, and the "
                "stage has no 'delay'",
                path, action.version, *version);
    version = action.version;
  }

  void checkKind(const PlanAction &action, const std::string &path) {
    const PlanStage &stage = plan.stages[action.stage];
    switch (action.kind) {
    case ActionKind::Forward:
      // What is fed, and the loss, belong to the step that was handed in.
      if (action.lag != 0)
        failInput("{}: F has a lag of {}, must be 0", path, action.lag);
      break;
    case ActionKind::Prepare:
      if (!stage.prepares)
        failInput("{}: stage {} has no phase P", path, action.stage);
      break;
    case ActionKind::Recompute:
      if (stage.phases[0].discards.size() != stage.phases[0].outputs.size())
        failInput("stages[{}].phases.F: key 'discards' is missing, but {} "
                  "recomputes",
                  action.stage, path);
      isRecomputed[action.stage][action.microbatch] = true;
      break;
    case ActionKind::Backward:
    case ActionKind::Send:
    case ActionKind::Receive:
    case ActionKind::Update:
      break;
    case ActionKind::ReduceGradients:
      if (stage.replicas > 1)
        break;
      failInput("{}: '{}', but the stage has no replicas", path,
                nameOf(action.kind));
    case ActionKind::Pull:
      if (plan.clockDistance)
        break;
      [[fallthrough]];
    default:
      failInput("{}: '{}' does not go without a flush", path,
                nameOf(action.kind));
    }
  }

  /// Whether the action at the rank's position has run, and not waited.
  bool play(unsigned r) {
    const auto &actions = plan.ranks[r].actions;
    const PlanAction &action = actions[next[r] % actions.size()];
    int64_t step = int64_t(next[r] / actions.size()) - action.lag;
    if (step < 0 || step >= steps || action.microbatch >= microbatchesIn(step))
      return true;
    where = fmt::format("{} ({}, step {})", path(r, next[r] % actions.size()),
                        toString(plan, action), step);
    auto microbatch =
        static_cast<int64_t>(plan.numberIn(step, action.microbatch));
    // A wave has one number for all workers.
    if (isTransfer(action.kind) && plan.channels[action.channel].isOfWaves())
      microbatch = step;
    switch (action.kind) {
    case ActionKind::Send:
      return send(action.channel, microbatch);
    case ActionKind::Receive:
      return receive(action.channel, microbatch);
    case ActionKind::Prepare:
      readVersion(action, step);
      preparedSlot(action, step) =
          std::max<int64_t>(versionOf(action, step), 0);
      return true;
    case ActionKind::AddPushes:
      addPushes(action, step);
      return true;
    case ActionKind::Pull:
      pull(action, step);
      return true;
    case ActionKind::Update:
      update(action, step);
      return true;
    case ActionKind::ReduceGradients:
      return reduce(action, step);
    default:
      pass(action, step, microbatch);
      return true;
    }
  }

  int64_t &preparedSlot(const PlanAction &action, int64_t step) {
    return stages[action.stage]
        .prepared[plan.stages[action.stage].slotOf(versionOf(action, step))];
  }

  void readVersion(const PlanAction &action, int64_t step) {
    int64_t number = versionOf(action, step);
    unsigned slot = plan.stages[action.stage].slotOf(number);
    int64_t holds = stages[action.stage].weights[slot];
    if (holds != std::max<int64_t>(number, 0))
      failInput("{}: reads version {} of the weights in slot {}, which holds "
                "version {}",
                where, std::max<int64_t>(number, 0), slot, holds);
    requirePulled(action.stage, number);
  }

  /// Of virtual workers: version `number` has the waves that the distance says.
  void requirePulled(unsigned number, int64_t version) {
    // A stage without parameters shares nothing.
    if (!plan.clockDistance || !plan.stages[number].areas.parameters.bytes)
      return;
    int64_t has = stages[number].pulled[plan.stages[number].slotOf(version)];
    int64_t wanted = std::max<int64_t>(
        version / plan.updatesPerStep() - int64_t(*plan.clockDistance), 0);
    if (version > 0 && has != wanted)
      failInput("{}: uses version {} of the weights, which has {} waves of all "
                "workers, must have {}",
                where, version, has, wanted);
  }

  /// Backward passes before the one that makes a version, and it.
  int64_t passesOf(const PlanAction &action, int64_t step) const {
    const PlanStage &stage = plan.stages[action.stage];
    // What a smaller step leaves out is counted.
    int64_t passes = passesBefore(stage, step + 1);
    if (plan.clockDistance || plan.dealsUpdates())
      passes =
          std::min<int64_t>(passes, passesBefore(stage, step) + action.version);
    return passes;
  }

  /// All replicas are there when the first one goes on.
  bool reduce(const PlanAction &action, int64_t step) {
    StageSlots &own = stages[action.stage];
    int64_t number = versionOf(action, step) - 1;
    if (own.updates != number || own.reductions != number ||
        own.backwards != passesOf(action, step))
      failInput("{}: comes after {} reductions, {} updates and {} backward "
                "passes",
                where, own.reductions, own.updates, own.backwards);
    if (own.met > number) {
      ++own.reductions;
      return true;
    }
    for (unsigned r = 0; r < plan.ranksWithStages(); ++r) {
      unsigned other = plan.ranks[r].stages.front();
      if (plan.stages[other].code != plan.stages[action.stage].code)
        continue;
      if (!standsAtReduction(r, number))
        return false;
    }
    for (size_t s = 0; s < stages.size(); ++s)
      if (plan.stages[s].code == plan.stages[action.stage].code)
        stages[s].met = number + 1;
    ++own.reductions;
    return true;
  }

  /// Whether a rank's next action adds up the gradients of update `number`.
  bool standsAtReduction(unsigned r, int64_t number) const {
    const auto &actions = plan.ranks[r].actions;
    if (next[r] >= end(r))
      return false;
    const PlanAction &action = actions[next[r] % actions.size()];
    int64_t step = int64_t(next[r] / actions.size()) - action.lag;
    return action.kind == ActionKind::ReduceGradients && step >= 0 &&
           step < steps && versionOf(action, step) == number + 1;
  }

  void update(const PlanAction &action, int64_t step) {
    StageSlots &own = stages[action.stage];
    const PlanStage &stage = plan.stages[action.stage];
    int64_t version = versionOf(action, step);
    unsigned all = plan.updatesOf(stage);
    if (action.version < 1 || action.version > int(all))
      failInput("{}: makes version {} of the weights, must make {}{}", where,
                version, step * all + 1,
                all > 1 ? fmt::format(" to {}", (step + 1) * all) : "");
    if (own.updates != version - 1 || own.backwards != passesOf(action, step))
      failInput("{}: comes after {} updates and {} backward passes", where,
                own.updates, own.backwards);
    if (stage.replicas > 1 && plan.dealsUpdates() && own.reductions != version)
      failInput("{}: comes before the gradients of all replicas are added up",
                where);
    int64_t before = own.weights[stage.slotOf(version - 1)];
    if (before != version - 1)
      failInput("{}: makes version {} of the weights of version {}", where,
                version, before);
    requirePulled(action.stage, version - 1);
    own.weights[stage.slotOf(version)] = version;
    own.prepared[stage.slotOf(version)] = nothing;
    own.pulled[stage.slotOf(version)] = own.pulled[stage.slotOf(version - 1)];
    ++own.updates;
    if (plan.clockDistance)
      addToWave(own, step, action.version);
  }

  /// The slot of a wave's sum begins anew with the wave's first update.
  void addToWave(StageSlots &own, int64_t wave, int version) {
    StageSlots::WaveSum &sum = own.sums[wave % own.sums.size()];
    if (version == 1)
      sum = {wave, 0};
    if (sum.wave != wave)
      failInput("{}: adds to the sum of wave {}, must add to {}", where,
                sum.wave, wave);
    ++sum.updates;
  }

  void requireWave(const StageSlots &own, int64_t wave) {
    const StageSlots::WaveSum &sum = own.sums[wave % own.sums.size()];
    if (sum.wave != wave || sum.updates != plan.updatesPerStep())
      failInput("{}: needs all {} updates of wave {}, but there are {} of "
                "wave {}",
                where, plan.updatesPerStep(), wave, sum.updates, sum.wave);
  }

  /// Of all channels of waves that end in a stage by `release`.
  void takeWave(unsigned stage, ActionKind kind, int64_t wave) {
    for (unsigned c = 0; c < plan.channels.size(); ++c)
      if (plan.channels[c].to == stage && !plan.channels[c].isOfIdle &&
          plan.channels[c].release == kind)
        release(c, wave);
  }

  void addPushes(const PlanAction &action, int64_t wave) {
    StageSlots &own = stages[action.stage];
    if (own.shared != wave)
      failInput("{}: adds wave {} to {} waves", where, wave, own.shared);
    takeWave(action.stage, ActionKind::AddPushes, wave);
    ++own.shared;
  }

  /// The newest weights become the shared ones and the own waves since.
  void pull(const PlanAction &action, int64_t wave) {
    StageSlots &own = stages[action.stage];
    unsigned all = plan.updatesPerStep();
    int64_t wanted = std::min(versionOf(action, wave), steps * all);
    if (own.updates != wanted || own.updates % all)
      failInput("{}: makes version {} of the weights, but the newest is {}",
                where, wanted, own.updates);
    if (own.pulls != wave)
      failInput("{}: brings wave {} after {} others", where, wave, own.pulls);
    for (int64_t since = wave + 1; since < own.updates / all; ++since)
      requireWave(own, since);
    takeWave(action.stage, ActionKind::Pull, wave);
    unsigned slot = plan.stages[action.stage].slotOf(own.updates);
    own.pulled[slot] = ++own.pulls;
    own.prepared[slot] = nothing;
  }

  void pass(const PlanAction &action, int64_t step, int64_t microbatch) {
    StageSlots &own = stages[action.stage];
    const PlanStage &stage = plan.stages[action.stage];
    bool isAgain = action.kind == ActionKind::Recompute;
    bool isForward = action.kind == ActionKind::Forward || isAgain;
    bool recomputes = isRecomputed[action.stage][action.microbatch];
    int64_t &count = isForward && !isAgain ? own.forwards : own.backwards;
    int64_t place =
        passesBefore(stage, step) + action.microbatch / stage.replicas;
    if (count != place || (isAgain && own.forwards <= place))
      failInput("{}: is for micro-batch {} of all, but {} have run", where,
                place, count);
    count += !isAgain;
    readVersion(action, step);
    if (stage.prepares && preparedSlot(action, step) !=
                              std::max<int64_t>(versionOf(action, step), 0))
      failInput("{}: nothing was prepared for its weights", where);
    size_t slot =
        plan.passIn(stage, step, action.microbatch) % own.residuals.size();
    int64_t &residual = own.residuals[slot];
    if (residual != (isForward ? nothing : microbatch))
      failInput("{}: residual slot {} holds {}", where, slot,
                describe(residual));
    // What is computed again was not kept.
    residual = isForward && (isAgain || !recomputes) ? microbatch : nothing;
    for (size_t p = isForward ? 0 : 1; p < (isForward ? 1 : microbatchPhases);
         ++p) {
      for (PlanReference reference : stage.phases[p].inputs)
        if (reference.kind == PlanReference::Kind::Channel)
          read(plan.channelOf(reference, action.microbatch), microbatch);
      for (PlanReference reference : stage.phases[p].outputs)
        if (reference.kind == PlanReference::Kind::Channel && !isAgain)
          make(plan.channelOf(reference, action.microbatch), microbatch);
    }
    for (unsigned c = 0; c < plan.channels.size(); ++c)
      if (plan.channels[c].to == action.stage &&
          !plan.channels[c].isOfWaves() &&
          plan.carries(plan.channels[c], action.microbatch) &&
          releases(action.kind, plan.channels[c].release, recomputes))
        release(c, microbatch);
  }

  static std::string describe(int64_t microbatch) {
    return microbatch == nothing ? "nothing"
                                 : fmt::format("micro-batch {}", microbatch);
  }

  void make(unsigned c, int64_t microbatch) {
    const PlanChannel &channel = plan.channels[c];
    // What stays on its rank is received when it is made.
    if (channel.isResident()) {
      unsigned slot = receiveSlot(c, microbatch);
      if (channels[c].receive[slot] != nothing)
        failInput("{}: receive slot {} of channel {} still holds micro-batch "
                  "{}",
                  where, slot, c, channels[c].receive[slot]);
      channels[c].receive[slot] = microbatch;
      channels[c].isReceived[slot] = true;
      return;
    }
    unsigned slot = channel.sendSlot[channel.numberOf(microbatch)];
    int64_t &held = channels[c].send[slot];
    if (held != nothing)
      failInput("{}: send slot {} of channel {} still holds micro-batch {}",
                where, slot, c, held);
    held = microbatch;
  }

  bool send(unsigned c, int64_t microbatch) {
    const PlanChannel &channel = plan.channels[c];
    if (channel.isResident())
      failInput("{}: both stages are on one rank, so nothing is sent", where);
    int64_t &from =
        channels[c].send[channel.sendSlot[channel.numberOf(microbatch)]];
    if (channel.isOfWaves())
      requireToSend(channel, microbatch);
    else if (from != microbatch)
      failInput("{}: the send slot holds {}", where, describe(from));
    int64_t &to = channels[c].receive[receiveSlot(c, microbatch)];
    if (to != nothing)
      return false;
    to = microbatch;
    from = nothing;
    return true;
  }

  /// A worker pushes whole waves; a shard gives what has this wave.
  void requireToSend(const PlanChannel &channel, int64_t wave) {
    const StageSlots &own = stages[channel.from];
    int64_t last = own.updates / plan.updatesPerStep() - 1;
    if (channel.release == ActionKind::AddPushes && wave != last)
      failInput("{}: pushes wave {} when the last whole one is {}", where, wave,
                last);
    if (channel.release == ActionKind::AddPushes)
      requireWave(own, wave);
    else if (own.shared != wave + 1)
      failInput("{}: the shard has {} waves, must have {}", where, own.shared,
                wave + 1);
  }

  unsigned receiveSlot(unsigned c, int64_t microbatch) const {
    const PlanChannel &channel = plan.channels[c];
    return channel.receiveSlot[channel.numberOf(microbatch)];
  }

  bool receive(unsigned c, int64_t microbatch) {
    unsigned slot = receiveSlot(c, microbatch);
    if (channels[c].receive[slot] != microbatch)
      return false;
    if (channels[c].isReceived[slot])
      failInput("{}: was received already", where);
    channels[c].isReceived[slot] = true;
    return true;
  }

  void read(unsigned c, int64_t microbatch) {
    unsigned slot = receiveSlot(c, microbatch);
    if (channels[c].receive[slot] != microbatch ||
        !channels[c].isReceived[slot])
      failInput("{}: reads channel {}, which holds {}{}", where, c,
                describe(channels[c].receive[slot]),
                channels[c].isReceived[slot] ? "" : " and was not received");
  }

  void release(unsigned c, int64_t microbatch) {
    read(c, microbatch);
    unsigned slot = receiveSlot(c, microbatch);
    channels[c].receive[slot] = nothing;
    channels[c].isReceived[slot] = false;
  }

  void checkCompletion() {
    std::string waiting;
    for (unsigned r = 0; r < plan.ranks.size(); ++r) {
      const auto &actions = plan.ranks[r].actions;
      if (next[r] == end(r))
        continue;
      size_t position = next[r] % actions.size();
      waiting +=
          fmt::format("{}rank {} waits at {} ({})", waiting.empty() ? "" : ", ",
                      r, path(r, position), toString(plan, actions[position]));
    }
    if (!waiting.empty())
      failInput("ranks: the actions cannot complete: {}", waiting);
    for (unsigned s = 0; s < stages.size(); ++s) {
      int64_t all = passesBefore(plan.stages[s], steps);
      if (stages[s].forwards != all || stages[s].backwards != all ||
          stages[s].updates != steps * plan.updatesOf(plan.stages[s]))
        failInput("stages[{}]: in {} steps of {} micro-batches, it runs {} F, "
                  "{} B and {} U",
                  s, steps, plan.microbatches, stages[s].forwards,
                  stages[s].backwards, stages[s].updates);
      if (plan.clockDistance && plan.stages[s].areas.parameters.bytes &&
          stages[s].pulls != steps)
        failInput("stages[{}]: in {} steps, it pulls {} waves", s, steps,
                  stages[s].pulls);
    }
  }

  const Plan &plan;
  unsigned few;
  unsigned lag;
  int64_t steps = 0;
  std::vector<StageSlots> stages;
  std::vector<ChannelSlots> channels;
  std::vector<std::vector<bool>> isRecomputed; // by stage and micro-batch
  std::vector<size_t> next;                    // by rank
  std::string where;                           // of the action that is played
};

} // namespace

void pp::runtime::checkRollingActions(const Plan &plan) {
  Player(plan, plan.microbatches).run();
  // What an action waits for is of its own micro-batch, or before it on its
  // rank: what completes does so without some of the micro-batches, and long
  // lists need few examples.
  constexpr unsigned mostExamples = 64;
  unsigned stride = 1 + plan.microbatches / mostExamples;
  for (unsigned few = 1; few < plan.microbatches; few += stride)
    Player(plan, few).run();
}
