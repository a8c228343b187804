//===- ScheduleFile.cpp - Schedules that others wrote ---------------------===//

#include "ScheduleFile.h"
#include "pp/Driver/Errors.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace pp;
using namespace pp::planner;

/// The channels of a plain pipeline, for the stages that are named.
static std::vector<Channel> channelsFor(llvm::StringRef text) {
  int stages = 0;
  for (llvm::StringRef rest = text; !rest.empty();) {
    int stage;
    // More than this is a misprint, which the notation's reader reports.
    if (!rest.consumeInteger(10, stage) && stage < (1 << 16))
      stages = std::max(stages, stage + 1);
    rest = rest.drop_front(rest.find_first_of(",;(\n")).drop_front();
  }
  return neighborChannels(stages, text.find_first_of("BI") != text.npos);
}

llvm::Expected<SimulatedSchedule>
pp::readScheduleFile(llvm::StringRef path, const PipelineTimes &times,
                     llvm::raw_ostream &os) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + path +
                                          "': " + buffer.getError().message());
  llvm::StringRef text = (*buffer)->getBuffer();
  auto imported = importPyTorchSchedule(
      text, text.contains("SEND") ? channelsFor(text) : std::vector<Channel>());
  std::string name = ("'" + path + "'").str();
  if (!imported)
    return makeError(exitInvalid, name + ": " + imported.error());
  for (const std::string &note : imported->notes)
    os << "note: " << note << "\n";
  return proveAndSimulate(imported->schedule, times, name);
}
