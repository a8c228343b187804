//===- Measurement.cpp - Times of the kernels of a program ----------------===//

#include "Measurement.h"

#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ProgramRun.h"

#include "llvm/Support/Program.h"
#include <deque>
#include <unistd.h>

using namespace pp;

namespace {

/// The same measurement, on other cores; ends with the object.
class Copies {
public:
  ~Copies() {
    for (const llvm::sys::ProcessInfo &process : processes)
      llvm::sys::Wait(process, /*SecondsToWait=*/0);
  }

  llvm::Error start(unsigned count, llvm::StringRef program,
                    llvm::StringRef repetitions) {
    for (unsigned i = 0; i < count; ++i) {
      TemporaryFile &costs = outputs.emplace_back();
      if (auto error = costs.create("pp-profile"))
        return error;
      // What it says, the first one says too.
      std::optional<llvm::StringRef> redirects[] = {std::nullopt, "", ""};
      std::string message;
      bool failed = false;
      auto process = llvm::sys::ExecuteNoWait(
          program,
          {program, "profile", "-o", costs.path, "--repetitions", repetitions},
          /*Env=*/std::nullopt, redirects, /*MemoryLimit=*/0, &message,
          &failed);
      if (failed)
        return makeError(exitUnsupported,
                         "the model cannot be measured: " + message);
      processes.push_back(process);
    }
    return llvm::Error::success();
  }

private:
  std::deque<TemporaryFile> outputs;
  std::vector<llvm::sys::ProcessInfo> processes;
};

} // namespace

unsigned pp::countCopies(unsigned wanted, uint64_t bytes) {
  uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                    static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t room = memory / 2 / std::max<uint64_t>(bytes, 1);
  return static_cast<unsigned>(
      std::min<uint64_t>(wanted, std::max<uint64_t>(room, 1) - 1));
}

llvm::Expected<llvm::json::Object> pp::measure(const CompileOptions &options,
                                               ModelImport &import,
                                               const MeasureOptions &settings,
                                               mlir::MLIRContext &context,
                                               uint64_t *peakBytes) {
  TemporaryFile program, costs;
  for (TemporaryFile *file : {&program, &costs})
    if (auto error = file->create("pp-profile"))
      return std::move(error);
  if (auto error = makeProgram(options, import, program.path, settings.linkFile,
                               context))
    return std::move(error);
  std::string repetitions = std::to_string(std::max(3U, settings.repetitions));
  Copies copies;
  if (auto error = copies.start(settings.copies, program.path, repetitions))
    return std::move(error);
  auto memory = runProgram(
      program.path, {"profile", "-o", costs.path, "--repetitions", repetitions},
      "the model cannot be measured");
  if (!memory)
    return memory.takeError();
  if (peakBytes)
    *peakBytes = *memory;
  return readJsonObject(costs.path);
}

double pp::stepOf(const llvm::json::Object &costs) {
  const llvm::json::Object *steps = costs.getObject("step_seconds");
  if (auto training = steps->getNumber("training"))
    return *training;
  return *steps->getNumber("inference");
}

void pp::markAlone(llvm::json::Object &costs) {
  llvm::json::Object kernels;
  for (auto &[key, value] : *costs.getObject("kernels"))
    kernels[key.str() + " alone"] = value;
  costs["kernels"] = std::move(kernels);
  auto rename = [](llvm::json::Object &object) {
    if (auto update = object.getNumber("update_seconds_per_byte"))
      object["update_alone_seconds_per_byte"] = *update;
    object.erase("update_seconds_per_byte");
  };
  rename(costs);
  if (llvm::json::Object *threads = costs.getObject("threads"))
    for (auto &[count, object] : *threads)
      rename(*object.getAsObject());
  costs.erase("transfer_latency_seconds");
  costs.erase("step_seconds");
}

llvm::Expected<std::vector<std::string>>
pp::listKernels(const CompileOptions &options, ModelImport &import,
                mlir::MLIRContext &context) {
  Compilation compilation(&context, options);
  if (auto error = compilation.readOnnx(import))
    return std::move(error);
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Kernels,
                                   [](mlir::PassManager &) {}))
    return std::move(error);
  std::vector<std::string> keys;
  compilation.getModule().walk(
      [&](nn::KernelOp kernel) { keys.push_back(kernel.getCostKey()); });
  llvm::sort(keys);
  keys.erase(llvm::unique(keys), keys.end());
  return keys;
}

void pp::mergeCosts(llvm::json::Object &costs, llvm::json::Object more) {
  for (auto &[key, value] : more) {
    llvm::json::Object *known = costs.getObject(key),
                       *added = value.getAsObject();
    if (known && added)
      mergeCosts(*known, std::move(*added));
    else
      costs.try_emplace(key, std::move(value));
  }
}
