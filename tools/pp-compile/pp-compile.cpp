//===- pp-compile.cpp - From an ONNX model to a pipeline binary -----------===//

#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/InitAll.h"
#include "pp/Driver/ProgramRun.h"
#include "pp/Driver/Report.h"
#include "pp/Driver/ToolContext.h"
#include "pp/Target/KernelReport.h"
#include "pp/Target/ObjectEmitter.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace pp;
namespace cl = llvm::cl;

namespace {

struct Flags {
  cl::OptionCategory phases{"Phases and output"};

  cl::opt<std::string> input{cl::Positional, cl::Required,
                             cl::desc("<model.onnx>"), cl::cat(phases)};
  cl::opt<std::string> output{"o", cl::desc("The binary to write"),
                              cl::value_desc("file"), cl::cat(phases)};
  cl::opt<CompilePhase> compileTo{
      "compile-to", cl::desc("Stop after a phase and print its IR"),
      cl::init(CompilePhase::Binary), cl::cat(phases)};
  cl::opt<CompilePhase> compileFrom{
      "compile-from",
      cl::desc("The phase after which the input, a .mlir, was printed"),
      cl::init(CompilePhase::Import), cl::cat(phases)};
  cl::opt<BinaryKind> emit{"emit", cl::desc("The binary"),
                           cl::init(BinaryKind::Program), cl::cat(phases)};
  cl::opt<bool> dryRun{"dry-run",
                       cl::desc("Print the plan: stages, memory and timeline"),
                       cl::cat(phases)};
  cl::opt<bool> kernelReport{
      "kernel-report",
      cl::desc("For a GPU: print what ptxas says about each kernel"),
      cl::cat(phases)};
  cl::list<std::string> linkDevices{
      "link-device",
      cl::desc("Devices of the runtime to link with, besides cpu and cuda and "
               "the target's: " PP_DEVICES),
      cl::value_desc("name"), cl::CommaSeparated, cl::cat(phases)};
  cl::opt<std::string> linkFile{
      "link-file", cl::desc("Arguments that link with the runtime"),
      cl::init(defaultLinkFile()), cl::Hidden, cl::cat(phases)};
};

/// Faults that would show only after the work is done.
llvm::Error checkFlags(const Flags &flags) {
  if (flags.compileFrom == CompilePhase::Binary)
    return makeError(exitUsage, "--compile-from=binary: a binary is compiled");
  if (flags.compileTo < flags.compileFrom)
    return makeError(exitUsage,
                     "--compile-to=" + getName(flags.compileTo.getValue()) +
                         " comes before --compile-from=" +
                         getName(flags.compileFrom.getValue()));
  if (flags.compileTo == CompilePhase::Binary && !flags.dryRun &&
      flags.output.empty())
    return makeError(exitUsage, "no output file; name one with -o");
  return llvm::Error::success();
}

llvm::Error printModule(mlir::ModuleOp module, llvm::StringRef path) {
  std::error_code code;
  llvm::ToolOutputFile file(path.empty() ? "-" : path, code,
                            llvm::sys::fs::OF_None);
  if (code)
    return makeError(exitInputOutput,
                     "cannot write '" + path + "': " + code.message());
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo();
  module->print(file.os(), flags);
  file.os() << "\n";
  file.keep();
  return llvm::Error::success();
}

/// Reads the input and runs the phases up to the last one that is asked for.
llvm::Error lower(const Flags &flags, Compilation &compilation) {
  bool fromOnnx = llvm::StringRef(flags.input).ends_with(".onnx");
  if (auto error = fromOnnx ? compilation.readOnnx(flags.input)
                            : compilation.readMlir(flags.input))
    return error;

  int first = static_cast<int>(fromOnnx ? CompilePhase::Import
                                        : flags.compileFrom.getValue()) +
              1;
  CompilePhase last = std::min(flags.compileTo.getValue(), CompilePhase::Lower);
  auto configure = [](mlir::PassManager &pm) {
    (void)mlir::applyPassManagerCLOptions(pm);
    mlir::applyDefaultTimingPassManagerCLOptions(pm);
  };
  return compilation.run(static_cast<CompilePhase>(first), last, configure);
}

/// One compilation, or one for each of several sizes of a dimension.
llvm::Expected<std::vector<std::unique_ptr<Compilation>>>
makeCompilations(const Flags &flags, const CompileOptions &options,
                 mlir::MLIRContext &context) {
  const ImportOptions::Buckets &buckets = options.import.buckets;
  std::vector<std::unique_ptr<Compilation>> result;
  if (buckets.dim.empty()) {
    result.push_back(std::make_unique<Compilation>(&context, options));
    return result;
  }
  bool isWhole = llvm::StringRef(flags.input).ends_with(".onnx") &&
                 flags.compileTo == CompilePhase::Binary;
  if (!isWhole || flags.dryRun)
    return makeError(exitUsage, "--dim=" + buckets.dim +
                                    " with several sizes makes a program of a "
                                    ".onnx file; IR and --dry-run are of one "
                                    "size");
  if (options.plan)
    return makeError(exitUsage, "--plan is for one size of '" + buckets.dim +
                                    "'; give --dim one");
  for (int64_t size : buckets.sizes) {
    CompileOptions own = options;
    own.import.dims[buckets.dim] = size;
    result.push_back(std::make_unique<Compilation>(&context, std::move(own)));
  }
  return result;
}

llvm::Error compile(const Flags &flags, mlir::MLIRContext &context) {
  if (auto error = checkFlags(flags))
    return error;
  auto options = getCompileOptions();
  if (!options)
    return options.takeError();
  auto compilations = makeCompilations(flags, *options, context);
  if (!compilations)
    return compilations.takeError();
  llvm::SmallVector<Compilation *> buckets;
  for (auto &each : *compilations) {
    if (auto error = lower(flags, *each))
      return error;
    buckets.push_back(each.get());
  }
  Compilation &compilation = *buckets.back();
  if (flags.dryRun)
    return printReport(compilation.getModule(), llvm::outs());
  if (flags.compileTo != CompilePhase::Binary)
    return printModule(compilation.getModule(), flags.output);
  auto objects = emit(buckets);
  if (!objects)
    return objects.takeError();
  if (flags.kernelReport) {
    if (compilation.getDeviceReport().empty())
      return makeError(
          exitUsage, findPtxas().empty()
                         ? "--kernel-report: no ptxas found; install the CUDA "
                           "toolkit, or name one with PP_PTXAS"
                         : "--kernel-report: there are no kernels for a GPU; "
                           "see --target");
    printKernelReport(parseKernelReport(compilation.getDeviceReport()),
                      llvm::outs());
  }
  std::vector<std::string> devices(flags.linkDevices.begin(),
                                   flags.linkDevices.end());
  if (compilation.getTarget().isMock() && !llvm::is_contained(devices, "mock"))
    devices.push_back("mock");
  if (flags.emit == BinaryKind::Library && !devices.empty())
    return makeError(exitUsage, "--emit=library: the device '" +
                                    devices.front() +
                                    "' is linked with programs only");
  if (auto error = linkBinary(*objects, flags.output, flags.linkFile, devices,
                              flags.emit))
    return makeError(exitInputOutput, llvm::toString(std::move(error)));
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Flags flags;
  registerAllPasses();
  registerCompileFlags();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  ToolContext tool(
      argc, argv, flags.phases,
      "pp-compile: an ONNX model in, a pipeline-parallel binary out\n");
  return tool.run(
      [&](mlir::MLIRContext &context) { return compile(flags, context); });
}
