//===- pp-profile.cpp - Measures the kernels of a model -------------------===//
//
// Writes a cost file for `pp-compile --cost-file` and `pp-plan --cost-file`:
// the time of every kernel, of the library or generated, on this machine. The
// model runs as a pipeline while its kernels are timed, so each finds the
// caches as its predecessors leave them, and all cores busy.
//
//===----------------------------------------------------------------------===//

#include "JitBinary.h"
#include "ProgramRun.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/PP/Transforms/CostFile.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/Format.h"
#include "pp/Driver/ToolContext.h"
#include "pp/Interfaces/KernelOpInterface.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"
#include <thread>

using namespace pp;
namespace cl = llvm::cl;

namespace {

struct Flags {
  cl::OptionCategory category{"Profile options"};
  cl::opt<std::string> input{cl::Positional, cl::Required,
                             cl::desc("<model.onnx>"), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::Required,
                              cl::desc("The cost file to write"),
                              cl::value_desc("file"), cl::cat(category)};
  cl::opt<unsigned> repetitions{
      "repetitions", cl::desc("Steps to run; the middle half counts"),
      cl::init(50), cl::cat(category)};
};

/// The sum of the times of all kernels with one key, and their number.
using KernelSums = llvm::StringMap<std::pair<double, unsigned>>;

/// The cost key of each kernel, by its number.
std::vector<std::string> keysOf(mlir::ModuleOp program) {
  std::vector<std::string> keys;
  program.walk([&](mlir::Operation *op) {
    auto mark = op->getAttrOfType<mlir::IntegerAttr>(markAttrName);
    if (!mark)
      return;
    keys.resize(std::max<size_t>(keys.size(), mark.getInt() + 1));
    keys[mark.getInt()] = llvm::cast<KernelOpInterface>(op).getCostKey();
  });
  return keys;
}

/// Runs a program and adds the times of its kernels to `kernels`, the others to
/// `costs`.
llvm::Error measure(mlir::ModuleOp module, const pp_program &program,
                    unsigned steps, KernelSums &kernels,
                    pipeline::CostFile &costs) {
  std::vector<std::string> keys = keysOf(module);
  ProgramTimes times;
  std::string message;
  if (!runProgram(program, static_cast<unsigned>(keys.size()), steps, times,
                  message))
    return makeError(exitUnsupported, "the model cannot run: " + message);
  for (auto [key, seconds] : llvm::zip(keys, times.kernels)) {
    auto &[sum, count] = kernels[key];
    sum += seconds;
    ++count;
  }
  if (times.update > 0 && times.parameterBytes > 0)
    costs.updateSecondsPerByte = times.update / times.parameterBytes;
  if (times.latency && !costs.transferLatency)
    costs.transferLatency = times.latency;
  llvm::outs() << module.getName().value_or("program") << ": "
               << formatTime(times.step) << " per step\n";
  return llvm::Error::success();
}

llvm::Error write(const Flags &flags, const pipeline::CostFile &costs) {
  std::error_code code;
  llvm::ToolOutputFile file(flags.output, code, llvm::sys::fs::OF_Text);
  if (code)
    return makeError(exitInputOutput,
                     "cannot write '" + flags.output + "': " + code.message());
  costs.write(file.os());
  file.keep();
  return llvm::Error::success();
}

llvm::Error profile(const Flags &flags, mlir::MLIRContext &context) {
  auto options = getCompileOptions();
  if (!options)
    return options.takeError();
  options->markKernels = true;
  if (options->stages == 0 && options->plan.empty()) {
    // The most that can be hoped for in every model; more than cores would
    // take turns.
    options->stages = std::thread::hardware_concurrency() > 1 ? 2 : 1;
    options->ignoreHints = true;
  }
  Compilation compilation(&context, *options);
  if (auto error = compilation.readOnnx(flags.input))
    return error;
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Lower,
                                   [](mlir::PassManager &) {}))
    return error;
  auto object = compilation.emit();
  if (!object)
    return object.takeError();
  auto binary = JitBinary::load(*object);
  if (!binary)
    return binary.takeError();
  KernelSums kernels;
  pipeline::CostFile costs;
  for (bool training : {true, false})
    if (const pp_program *program =
            training ? binary->get().training : binary->get().inference)
      if (auto error = measure(compilation.getProgram(training), *program,
                               std::max(4U, flags.repetitions.getValue()),
                               kernels, costs))
        return error;
  for (const auto &kernel : kernels)
    costs.kernels[kernel.getKey()] =
        kernel.getValue().first / kernel.getValue().second;
  return write(flags, costs);
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Flags flags;
  registerCompileFlags();
  ToolContext tool(argc, argv, flags.category,
                   "pp-profile: measures the kernels of a model\n");
  return tool.run(
      [&](mlir::MLIRContext &context) { return profile(flags, context); });
}
