//===- ScheduleFile.cpp - Schedules that others wrote ---------------------===//

#include "ScheduleFile.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/Format.h"
#include "pp/Planner/Schedule/Slots.h"
#include "pp/Planner/Schedule/Transfers.h"
#include "pp/Planner/Schedule/Verify.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace pp;
using namespace pp::planner;

static llvm::Error faultsOf(llvm::StringRef path,
                            const std::vector<std::string> &faults) {
  std::string text;
  for (const std::string &fault : faults)
    text += (text.empty() ? "" : "\n") + ("'" + path + "': ").str() + fault;
  return makeError(exitInvalid, text);
}

std::string pp::toPyTorch(Schedule schedule) {
  for (std::vector<Action> &rank : schedule.ranks)
    std::erase_if(rank, [](const Action &action) {
      return action.kind == ActionKind::Update;
    });
  return toString(schedule);
}

/// The optimizer's steps, which PyTorch leaves to the caller.
static void addUpdates(Schedule &schedule) {
  for (const std::vector<Action> &rank : schedule.ranks)
    for (const Action &action : rank)
      if (action.kind == ActionKind::Update)
        return;
  if (schedule.isTraining())
    for (int stage = 0; stage < schedule.stages; ++stage)
      schedule.ranks[schedule.rankOfStage[stage]].push_back(
          {ActionKind::Update, stage});
}

llvm::Error pp::checkScheduleFile(llvm::StringRef path,
                                  const ScheduleFileOptions &options,
                                  llvm::raw_ostream &os) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + path +
                                          "': " + buffer.getError().message());
  llvm::StringRef text = (*buffer)->getBuffer();
  auto parsed = parseSchedule(text);
  if (!parsed && text.contains("SEND")) {
    // The stages are those of the computations.
    int stages = 0;
    for (llvm::StringRef rest = text; !rest.empty();) {
      int stage;
      if (!rest.consumeInteger(10, stage))
        stages = std::max(stages, stage + 1);
      rest = rest.drop_front(rest.find_first_of(",\n")).drop_front();
    }
    bool training = text.contains("B") || text.contains("I");
    parsed = parseSchedule(text, neighborChannels(stages, training));
  }
  if (!parsed)
    return makeError(exitInvalid, "'" + path + "': " + parsed.error());
  Schedule schedule = *parsed;
  addUpdates(schedule);
  if (!schedule.hasTransfers()) {
    schedule.channels.clear();
    if (auto faults = verifySchedule(schedule); !faults.empty())
      return faultsOf(path, faults);
    auto complete = insertTransfers(
        schedule, neighborChannels(schedule.stages, schedule.isTraining()));
    if (!complete)
      return makeError(exitInvalid, "'" + path + "': " + complete.error());
    schedule = *complete;
  }
  int capacity = minimalCapacity(schedule);
  SendRule rule;
  if (capacity > 0)
    rule = {SendRule::Kind::Buffered, {capacity}, nullptr};
  if (auto faults = verifySchedule(schedule, rule); !faults.empty())
    return faultsOf(path, faults);
  SimulationInput input;
  input.stages = {options.times};
  input.transfers = {options.transfer};
  auto simulation = simulate(schedule, input);
  if (!simulation)
    return makeError(exitInvalid, "'" + path + "': " + simulation.error());
  os << schedule.stages << " stages, " << schedule.ranks.size() << " ranks, "
     << schedule.microbatches << " micro-batches: proven; "
     << (capacity == 0
             ? "completes even if every send waits for its receive"
             : "needs " + std::to_string(capacity) + " buffers per channel")
     << "\nmakespan " << formatTime(simulation->makespan) << ", bubble "
     << llvm::formatv("{0:F2} %", 100 * (1 - simulation->utilization()))
     << "; span " << formatTime(simulation->span) << ", bubble "
     << llvm::formatv("{0:F2} %", 100 * simulation->bubble() / simulation->span)
     << "\n";
  SlotAssignment slots = assignSlots(schedule);
  os << "micro-batches kept at once, by stage:";
  for (const StageSlots &stage : slots.stages)
    os << " " << stage.count;
  os << "\n" << renderTimeline(*simulation, 100);
  return llvm::Error::success();
}
