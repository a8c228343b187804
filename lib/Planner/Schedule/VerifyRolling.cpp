//===- VerifyRolling.cpp - Prove a schedule without a flush ---------------===//
#include "Replay.h"
#include "pp/Planner/Schedule/Rolling.h"
#include "pp/Planner/Schedule/Verify.h"
#include "pp/Planner/Schedule/Waves.h"
#include <algorithm>

using namespace pp::planner;

/// Enough for a steady state and both ends; what follows repeats it.
static int stepsToProve(const Schedule &schedule) {
  int versions = 1;
  for (int kept : schedule.versions)
    versions = std::max(versions, kept);
  return 2 * largestLag(schedule) + 2 * versions + 2;
}

static std::vector<std::string> checkRollingShape(const Schedule &schedule) {
  std::vector<std::string> errors;
  // A rank of a virtual worker may have several.
  bool hasRanks = schedule.clockDistance
                      ? !schedule.ranks.empty()
                      : schedule.ranks.size() == size_t(schedule.stages);
  if (schedule.versions.size() != static_cast<size_t>(schedule.stages) ||
      !hasRanks)
    return {"without a flush, each stage has a rank of its own and a number of "
            "weight versions"};
  if (schedule.clockDistance && *schedule.clockDistance < 0)
    return {"a clock distance of " + std::to_string(*schedule.clockDistance) +
            " waves"};
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.versions[stage] < 1 || schedule.versions[stage] > 1 << 10)
      errors.push_back("stage " + std::to_string(stage) + " keeps " +
                       std::to_string(schedule.versions[stage]) +
                       " weight versions");
  for (const std::vector<Action> &list : schedule.ranks)
    for (const Action &action : list)
      if (action.lag < 0 || action.lag > 1 << 10 ||
          std::abs(action.version) > 1 << 10)
        errors.push_back(
            toString(action, schedule.channels) + " is " +
            std::to_string(action.lag) + " steps late and has version " +
            std::to_string(action.version) + ", which is out of range");
  return errors;
}

/// Runs a stage's list with `slots` weight slots; what goes wrong first.
static std::optional<std::string>
findLostVersion(const Schedule &schedule, const std::vector<Action> &list,
                int slots, int steps) {
  bool prepares = std::any_of(list.begin(), list.end(), [](const Action &a) {
    return a.kind == ActionKind::Prepare;
  });
  std::vector<int> holds(slots, 0), prepared(slots, -1);
  int lag = largestLag(schedule);
  for (int handedIn = 0; handedIn < steps + lag; ++handedIn)
    for (const Action &action : list) {
      int step = handedIn - action.lag;
      if (step < 0 || step >= steps || action.isTransfer() ||
          action.isCollective() || action.kind == ActionKind::Push)
        continue;
      int updates = schedule.updatesOf(action.stage);
      int number = step * updates + action.version,
          version = std::max(number, 0);
      int slot = ((number % slots) + slots) % slots;
      if (action.kind == ActionKind::Pull) {
        // Changes the newest weights; verifyWaveSchedule says which these are.
        number = version = std::min(number, steps * updates);
        slot = number % slots;
      }
      auto explain = [&](const std::string &what) {
        return toString(action, schedule.channels) + " of step " +
               std::to_string(step) + " uses version " +
               std::to_string(version) + " of the weights in slot " +
               std::to_string(slot) + " of " + std::to_string(slots) + ", " +
               what;
      };
      if (action.kind == ActionKind::Update) {
        // It is made from the one before, which may lie in the same place.
        int before = (((number - 1) % slots) + slots) % slots;
        if (holds[before] != version - 1)
          return explain("but version " + std::to_string(version - 1) +
                         ", which it is made from, is lost");
        holds[slot] = version;
        prepared[slot] = -1;
        continue;
      }
      if (holds[slot] != version)
        return explain("which holds version " + std::to_string(holds[slot]));
      if (action.kind == ActionKind::Pull)
        prepared[slot] = -1;
      else if (action.kind == ActionKind::Prepare)
        prepared[slot] = version;
      else if (prepares && prepared[slot] != version)
        return explain("for which nothing was prepared");
    }
  return std::nullopt;
}

static std::vector<std::string> checkSlots(const Schedule &schedule,
                                           int steps) {
  std::vector<std::string> errors;
  for (const std::vector<Action> &list : listsOfStages(schedule)) {
    if (list.empty())
      continue;
    int stage = list.front().stage, kept = schedule.versions[stage];
    if (auto lost = findLostVersion(schedule, list, kept, steps))
      errors.push_back(*lost);
    else if (kept > 1 && !findLostVersion(schedule, list, kept - 1, steps))
      errors.push_back("stage " + std::to_string(stage) + " keeps " +
                       std::to_string(kept) + " weight versions, but needs " +
                       std::to_string(kept - 1));
  }
  return errors;
}

/// What is computed again is computed of the same weights.
static std::vector<std::string> checkRecomputes(const Schedule &schedule) {
  std::vector<std::string> errors;
  for (const std::vector<Action> &list : schedule.ranks)
    for (const Action &again : list)
      for (const Action &first : list)
        if (again.kind == ActionKind::Recompute &&
            first.kind == ActionKind::Forward && first.stage == again.stage &&
            first.microbatch == again.microbatch &&
            first.version != again.version)
          errors.push_back(toString(again, schedule.channels) +
                           " reads version " + std::to_string(again.version) +
                           " of its step, but its forward pass read version " +
                           std::to_string(first.version));
  return errors;
}

/// Replicas of a part add up the gradients of each update right before it, and
/// all of them get there, whatever waits for a transfer.
static std::vector<std::string> checkReductions(const Schedule &schedule,
                                                int steps) {
  std::vector<std::string> errors;
  for (const std::vector<Action> &rank : schedule.ranks) {
    std::vector<Action> list;
    std::copy_if(rank.begin(), rank.end(), std::back_inserter(list),
                 [](const Action &action) { return !action.isTransfer(); });
    for (size_t i = 0; i < list.size(); ++i) {
      const Action &action = list[i];
      bool isUpdate = action.kind == ActionKind::Update;
      bool areSeveral = schedule.replicaOf(action.stage).count > 1;
      if (!action.isCollective() && !(isUpdate && areSeveral))
        continue;
      size_t other = isUpdate ? i - 1 : i + 1;
      bool isPaired =
          other < list.size() && areSeveral &&
          list[other].kind ==
              (isUpdate ? ActionKind::ReduceGradients : ActionKind::Update) &&
          list[other].lag == action.lag &&
          list[other].version == action.version;
      if (!isPaired)
        errors.push_back(toString(action, schedule.channels) +
                         " that makes version " +
                         std::to_string(action.version) +
                         (isUpdate ? " does not follow the reduction of its "
                                     "gradients"
                                   : " is not followed by that update of a "
                                     "replica"));
    }
  }
  if (!errors.empty() || schedule.replicas.empty())
    return errors;
  Schedule run = unroll(schedule, steps, /*withReductions=*/true);
  SendRule rendezvous;
  Replay replay(run, rendezvous);
  if (!replay.run())
    errors.push_back("with its reductions, " + replay.explain());
  return errors;
}

std::vector<std::string> pp::planner::verifyRolling(const Schedule &schedule,
                                                    WeightRule rule) {
  std::vector<std::string> errors = checkRollingShape(schedule);
  if (!errors.empty())
    return errors;
  int steps = stepsToProve(schedule);
  errors = verifySchedule(unroll(schedule, steps));
  if (errors.empty())
    errors = verifyVersions(unrollVersions(schedule, rule, steps));
  if (errors.empty())
    errors = checkReductions(schedule, steps);
  if (errors.empty())
    errors = checkRecomputes(schedule);
  if (errors.empty())
    errors = checkSlots(schedule, steps);
  if (errors.empty() && schedule.clockDistance)
    errors = verifyWaveSchedule(schedule, steps);
  return errors;
}

std::vector<std::string>
pp::planner::verifyRollingSlots(const Schedule &schedule,
                                const SlotAssignment &slots) {
  int steps = stepsToProve(schedule);
  Schedule run = unroll(schedule, steps);
  SlotAssignment all = slots;
  auto repeat = [&](std::vector<int> &table) {
    size_t period = table.size();
    if (period == 0)
      return;
    table.resize(run.microbatches);
    for (size_t i = period; period && i < table.size(); ++i)
      table[i] = table[i - period];
  };
  for (StageSlots &stage : all.stages) {
    repeat(stage.forward);
    repeat(stage.backward);
  }
  for (ChannelSlots &channel : all.channels) {
    repeat(channel.send);
    repeat(channel.receive);
  }
  std::vector<std::string> errors = verifySlots(run, all);
  if (errors.empty())
    errors = verifySchedule(run, {SendRule::Kind::Slots, {}, &all});
  return errors;
}
