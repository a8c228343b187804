//===- RollingCheck.cpp - Actions of a plan without a flush ---------------===//
#include "plan/Plan.h"
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
        residuals(std::max<uint64_t>(stage.areas.residualSlots, 1), nothing) {}

  std::vector<int64_t> weights, prepared; // versions
  std::vector<int64_t> residuals;         // micro-batches
  // Passes run in the order of the micro-batches, so that gradients are added
  // in it.
  int64_t forwards = 0, backwards = 0, updates = 0;
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
  /// Those of the steps before `step`.
  int64_t passesBefore(int64_t step) const {
    int64_t smaller = (step + 1) / 3;
    return (step - smaller) * plan.microbatches + smaller * few;
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
    for (unsigned c = 0; c < plan.channels.size(); ++c)
      if (plan.channels[c].isResident())
        failInput("channels[{}].send_slots: 0, but without a flush each stage "
                  "has a rank of its own",
                  c);
    for (unsigned r = 0; r < plan.ranks.size(); ++r) {
      if (plan.ranks[r].stages.size() != 1)
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
        action.kind == ActionKind::Update)
      return;
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
    int64_t microbatch = step * plan.microbatches + action.microbatch;
    switch (action.kind) {
    case ActionKind::Send:
      return send(action.channel, microbatch);
    case ActionKind::Receive:
      return receive(action.channel, microbatch);
    case ActionKind::Prepare:
      readVersion(action, step);
      preparedSlot(action, step) = std::max<int64_t>(step + action.version, 0);
      return true;
    case ActionKind::Update:
      update(action, step);
      return true;
    default:
      pass(action, step, microbatch);
      return true;
    }
  }

  int64_t &preparedSlot(const PlanAction &action, int64_t step) {
    return stages[action.stage]
        .prepared[plan.stages[action.stage].slotOf(step + action.version)];
  }

  void readVersion(const PlanAction &action, int64_t step) {
    int64_t number = step + action.version;
    unsigned slot = plan.stages[action.stage].slotOf(number);
    int64_t holds = stages[action.stage].weights[slot];
    if (holds != std::max<int64_t>(number, 0))
      failInput("{}: reads version {} of the weights in slot {}, which holds "
                "version {}",
                where, std::max<int64_t>(number, 0), slot, holds);
  }

  void update(const PlanAction &action, int64_t step) {
    StageSlots &own = stages[action.stage];
    const PlanStage &stage = plan.stages[action.stage];
    int64_t version = step + action.version;
    if (action.version != 1)
      failInput("{}: makes version {} of the weights, must make {}", where,
                version, step + 1);
    if (own.updates != step || own.backwards != passesBefore(step + 1))
      failInput("{}: comes after {} updates and {} backward passes", where,
                own.updates, own.backwards);
    int64_t before = own.weights[stage.slotOf(step)];
    if (before != step)
      failInput("{}: makes version {} of the weights of version {}", where,
                version, before);
    own.weights[stage.slotOf(version)] = version;
    own.prepared[stage.slotOf(version)] = nothing;
    ++own.updates;
  }

  void pass(const PlanAction &action, int64_t step, int64_t microbatch) {
    StageSlots &own = stages[action.stage];
    const PlanStage &stage = plan.stages[action.stage];
    bool isAgain = action.kind == ActionKind::Recompute;
    bool isForward = action.kind == ActionKind::Forward || isAgain;
    bool recomputes = isRecomputed[action.stage][action.microbatch];
    int64_t &count = isForward && !isAgain ? own.forwards : own.backwards;
    int64_t place = passesBefore(step) + action.microbatch;
    if (count != place || (isAgain && own.forwards <= place))
      failInput("{}: is for micro-batch {} of all, but {} have run", where,
                place, count);
    count += !isAgain;
    readVersion(action, step);
    if (stage.prepares && preparedSlot(action, step) !=
                              std::max<int64_t>(step + action.version, 0))
      failInput("{}: nothing was prepared for its weights", where);
    size_t slot = microbatch % own.residuals.size();
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
          read(reference.index, microbatch);
      for (PlanReference reference : stage.phases[p].outputs)
        if (reference.kind == PlanReference::Kind::Channel && !isAgain)
          make(reference.index, microbatch);
    }
    for (unsigned c = 0; c < plan.channels.size(); ++c)
      if (plan.channels[c].to == action.stage &&
          releases(action.kind, plan.channels[c].release, recomputes))
        release(c, microbatch);
  }

  static std::string describe(int64_t microbatch) {
    return microbatch == nothing ? "nothing"
                                 : fmt::format("micro-batch {}", microbatch);
  }

  void make(unsigned c, int64_t microbatch) {
    const PlanChannel &channel = plan.channels[c];
    unsigned slot = channel.sendSlot[channel.numberOf(microbatch)];
    int64_t &held = channels[c].send[slot];
    if (held != nothing)
      failInput("{}: send slot {} of channel {} still holds micro-batch {}",
                where, slot, c, held);
    held = microbatch;
  }

  bool send(unsigned c, int64_t microbatch) {
    const PlanChannel &channel = plan.channels[c];
    int64_t &from =
        channels[c].send[channel.sendSlot[channel.numberOf(microbatch)]];
    if (from != microbatch)
      failInput("{}: the send slot holds {}", where, describe(from));
    int64_t &to = channels[c].receive[receiveSlot(c, microbatch)];
    if (to != nothing)
      return false;
    to = microbatch;
    from = nothing;
    return true;
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
      int64_t all = passesBefore(steps);
      if (stages[s].forwards != all || stages[s].backwards != all ||
          stages[s].updates != steps)
        failInput("stages[{}]: in {} steps of {} micro-batches, it runs {} F, "
                  "{} B and {} U",
                  s, steps, plan.microbatches, stages[s].forwards,
                  stages[s].backwards, stages[s].updates);
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
