//===- VerifySlots.cpp - Prove that no buffer is used twice ---------------===//
#include "pp/Planner/Schedule/Verify.h"
#include <algorithm>

using namespace pp::planner;

namespace {

/// What each slot of a stage or channel end holds.
class Buffers {
public:
  Buffers() = default;
  explicit Buffers(int count) : holds(std::max(count, 0), empty) {}

  bool exists(int slot) const {
    return slot >= 0 && slot < static_cast<int>(holds.size());
  }
  bool isFree(int slot) const { return holds[slot] == empty; }
  int at(int slot) const { return holds[slot]; }
  void write(int slot, int microbatch) { holds[slot] = microbatch; }
  void release(int slot) { holds[slot] = empty; }

private:
  static constexpr int empty = -1;
  std::vector<int> holds;
};

class SlotVerifier {
public:
  SlotVerifier(const Schedule &schedule, const SlotAssignment &slots)
      : schedule(schedule), slots(slots), incoming(schedule.stages),
        outgoing(schedule.stages) {}

  std::vector<std::string> run() {
    if (!checkSizes())
      return {"the slots are not those of the schedule's stages, channels and "
              "micro-batches"};
    for (const StageSlots &stage : slots.stages)
      residuals.emplace_back(stage.count);
    for (const ChannelSlots &channel : slots.channels) {
      sends.emplace_back(channel.sendCount);
      receives.emplace_back(channel.receiveCount);
    }
    transfers = schedule.hasTransfers();
    for (size_t c = 0; transfers && c < schedule.channels.size(); ++c)
      if (schedule.crossesRanks(schedule.channels[c])) {
        incoming[schedule.channels[c].to].push_back(c);
        outgoing[schedule.channels[c].from].push_back(c);
      }
    findRecomputes();
    for (rank = 0; rank < schedule.ranks.size(); ++rank)
      for (position = 0; position < schedule.ranks[rank].size(); ++position)
        check(schedule.ranks[rank][position]);
    return std::move(errors);
  }

private:
  bool checkSizes() const {
    size_t m = schedule.microbatches;
    bool good = slots.stages.size() == static_cast<size_t>(schedule.stages) &&
                slots.channels.size() == schedule.channels.size();
    for (const StageSlots &stage : slots.stages)
      good &= stage.forward.size() == m && stage.backward.size() == m;
    for (size_t c = 0; good && c < slots.channels.size(); ++c)
      good &= !schedule.hasTransfers() ||
              !schedule.crossesRanks(schedule.channels[c]) ||
              (slots.channels[c].send.size() == m &&
               slots.channels[c].receive.size() == m);
    return good;
  }

  void findRecomputes() {
    recomputed.assign(size_t(schedule.stages) * schedule.microbatches, false);
    for (const std::vector<Action> &list : schedule.ranks)
      for (const Action &action : list) {
        if (action.kind == ActionKind::Recompute)
          recomputed[cell(action)] = true;
        training |= action.performs(Phase::BackwardWeight);
      }
  }
  size_t cell(const Action &action) const {
    return size_t(action.stage) * schedule.microbatches + action.microbatch;
  }

  /// The actions around the fault, which is in brackets.
  void error(const std::string &message) {
    constexpr size_t around = 4;
    const std::vector<Action> &list = schedule.ranks[rank];
    size_t begin = position > around ? position - around : 0;
    size_t end = std::min(position + around + 1, list.size());
    std::string text = toString(list[position], schedule.channels) + " " +
                       message + "\n  rank " + std::to_string(rank) + " |" +
                       (begin ? " ..." : "");
    for (size_t i = begin; i < end; ++i) {
      std::string name = toString(list[i], schedule.channels);
      text += i == position ? " [" + name + "]" : " " + name;
    }
    errors.push_back(text + (end < list.size() ? " ..." : ""));
  }

  bool exists(const Buffers &buffers, int slot, const char *what) {
    if (buffers.exists(slot))
      return true;
    error("has the " + std::string(what) + " slot " + std::to_string(slot) +
          ", which does not exist");
    return false;
  }
  void write(Buffers &buffers, int slot, int microbatch, const char *what) {
    if (!exists(buffers, slot, what))
      return;
    if (!buffers.isFree(slot))
      error("writes the " + std::string(what) + " slot " +
            std::to_string(slot) + ", which still holds micro-batch " +
            std::to_string(buffers.at(slot)));
    buffers.write(slot, microbatch);
  }
  void read(const Buffers &buffers, int slot, int microbatch,
            const char *what) {
    if (!exists(buffers, slot, what) || buffers.at(slot) == microbatch)
      return;
    error("reads the " + std::string(what) + " slot " + std::to_string(slot) +
          ", which " +
          (buffers.isFree(slot)
               ? std::string("holds nothing")
               : "holds micro-batch " + std::to_string(buffers.at(slot))));
  }
  void release(Buffers &buffers, int slot) {
    if (buffers.exists(slot))
      buffers.release(slot);
  }

  void check(const Action &action) {
    int i = action.microbatch;
    switch (action.kind) {
    case ActionKind::Prepare:
    case ActionKind::Update:
    case ActionKind::ReduceGradients:
    case ActionKind::AllReduce:
      return;
    case ActionKind::Send: {
      int slot = slots.channels[action.channel].send[i];
      read(sends[action.channel], slot, i, "send");
      release(sends[action.channel], slot);
      return;
    }
    case ActionKind::Receive:
      write(receives[action.channel], slots.channels[action.channel].receive[i],
            i, "receive");
      return;
    default:
      checkInputs(action);
      checkResiduals(action);
      checkOutputs(action);
    }
  }

  /// R reads what F reads.
  static bool reads(const Action &action, const Channel &channel) {
    if (action.kind == ActionKind::Recompute)
      return channel.toPhase == Phase::Forward;
    for (Phase phase :
         {Phase::Forward, Phase::BackwardInput, Phase::BackwardWeight})
      if (action.performs(phase) && channel.toPhase <= phase &&
          phase <= channel.lastReader)
        return true;
    return false;
  }

  void checkInputs(const Action &action) {
    int i = action.microbatch;
    for (size_t c : incoming[action.stage]) {
      if (!schedule.carries(schedule.channels[c], i))
        continue;
      const ChannelSlots &channel = slots.channels[c];
      if (reads(action, schedule.channels[c]))
        read(receives[c], channel.receive[i], i, "receive");
      if (channel.release == action.kind)
        release(receives[c], channel.receive[i]);
    }
  }

  void checkResiduals(const Action &action) {
    int i = action.microbatch;
    const StageSlots &stage = slots.stages[action.stage];
    Buffers &buffers = residuals[action.stage];
    if (action.kind == ActionKind::Forward) {
      write(buffers, stage.forward[i], i, "residual");
      // What nobody reads is lost at once.
      if (!training || recomputed[cell(action)])
        release(buffers, stage.forward[i]);
      return;
    }
    if (action.kind == ActionKind::Recompute)
      write(buffers, stage.backward[i], i, "residual");
    else
      read(buffers, stage.backward[i], i, "residual");
    if (action.performs(Phase::BackwardWeight))
      release(buffers, stage.backward[i]);
  }

  void checkOutputs(const Action &action) {
    for (size_t c : outgoing[action.stage])
      if (action.performs(schedule.channels[c].fromPhase) &&
          schedule.carries(schedule.channels[c], action.microbatch))
        write(sends[c], slots.channels[c].send[action.microbatch],
              action.microbatch, "send");
  }

  const Schedule &schedule;
  const SlotAssignment &slots;
  std::vector<std::vector<size_t>> incoming, outgoing; // Stage: channels.
  std::vector<Buffers> residuals, sends, receives;
  std::vector<bool> recomputed;
  bool transfers = false, training = false;
  size_t rank = 0, position = 0;
  std::vector<std::string> errors;
};

} // namespace

std::vector<std::string> pp::planner::verifySlots(const Schedule &schedule,
                                                  const SlotAssignment &slots) {
  return SlotVerifier(schedule, slots).run();
}
