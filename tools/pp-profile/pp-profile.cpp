//===- pp-profile.cpp - Measures the kernels of a model -------------------===//
//
// Writes a cost file for `pp-compile --cost-file` and `pp-plan --cost-file`:
// the time of every kernel that the model would run, of the library or
// generated, on this machine, with one thread.
//
//===----------------------------------------------------------------------===//

#include "GeneratedKernels.h"
#include "KernelTimer.h"
#include "cpu/LibraryKernel.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ToolContext.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/KernelOpInterface.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ToolOutputFile.h"
#include <map>

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
  cl::opt<unsigned> repetitions{"repetitions",
                                cl::desc("Runs of each kernel; the median "
                                         "counts"),
                                cl::init(9), cl::cat(category)};
};

std::map<std::string, TensorSizes> findKernels(mlir::ModuleOp module) {
  std::map<std::string, TensorSizes> kernels;
  module.walk([&](mlir::Operation *op) {
    auto kernel = llvm::dyn_cast<KernelOpInterface>(op);
    if (!kernel || kernel.getKernelClass() != KernelClass::Library)
      return;
    TensorSizes sizes;
    for (mlir::Value operand : op->getOperands())
      sizes.push_back(getTensorBytes(operand.getType()));
    for (mlir::Value result : op->getResults())
      sizes.push_back(getTensorBytes(result.getType()));
    kernels.emplace(kernel.getLibraryDescriptor(), std::move(sizes));
  });
  return kernels;
}

llvm::Expected<double> measure(const std::string &descriptor,
                               const TensorSizes &sizes, unsigned repetitions) {
  std::string message;
  auto kernel = runtime::LibraryKernel::create(descriptor, message);
  if (!kernel)
    return makeError(exitUnsupported, "'" + descriptor + "': " + message);
  return timeKernel(sizes, kernel->scratchpadBytes(), repetitions,
                    [&](void **tensors, void *scratchpad) {
                      kernel->execute(tensors, scratchpad);
                    });
}

llvm::Error profile(const Flags &flags, mlir::MLIRContext &context) {
  auto options = getCompileOptions();
  if (!options)
    return options.takeError();
  Compilation compilation(&context, *options);
  if (auto error = compilation.readOnnx(flags.input))
    return error;
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Kernels,
                                   [](mlir::PassManager &) {}))
    return error;
  runtime::setKernelThreads(1);
  llvm::json::Object kernels;
  for (auto &[descriptor, sizes] : findKernels(compilation.getModule())) {
    auto seconds = measure(descriptor, sizes, flags.repetitions);
    if (!seconds)
      return seconds.takeError();
    kernels[descriptor] = *seconds;
  }
  for (bool training : {true, false})
    if (mlir::ModuleOp program = compilation.getProgram(training))
      if (auto error = profileGenerated(program, options->cpu,
                                        flags.repetitions, kernels))
        return error;
  std::error_code code;
  llvm::ToolOutputFile file(flags.output, code, llvm::sys::fs::OF_Text);
  if (code)
    return makeError(exitInputOutput,
                     "cannot write '" + flags.output + "': " + code.message());
  llvm::json::OStream json(file.os(), /*IndentSize=*/1);
  json.object([&] {
    json.attribute("version", 1);
    json.attribute("kernels", std::move(kernels));
  });
  file.os() << "\n";
  file.keep();
  return llvm::Error::success();
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
