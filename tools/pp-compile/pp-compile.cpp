//===- pp-compile.cpp - From an ONNX model to a pipeline binary -----------===//

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "pp/Driver/Compiler.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ImportFlags.h"
#include "pp/Driver/InitAll.h"
#include "pp/Driver/Report.h"
#include "pp/Target/ObjectEmitter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace pp;
namespace cl = llvm::cl;

namespace {

struct Flags {
  cl::OptionCategory main{"Pipeline options"};
  cl::OptionCategory training{"Training options"};
  cl::OptionCategory phases{"Phases and output"};

  cl::opt<std::string> input{cl::Positional, cl::Required,
                             cl::desc("<model.onnx>"), cl::cat(main)};
  cl::opt<std::string> output{"o", cl::desc("The binary to write"),
                              cl::value_desc("file"), cl::cat(phases)};

  cl::opt<int64_t> stages{
      "stages",
      cl::desc("Number of stages (default: as the model's pipeline_stage "
               "annotations say, else 1)"),
      cl::init(0), cl::cat(main)};
  cl::opt<int64_t> microbatches{"microbatches",
                                cl::desc("Micro-batches of a step"),
                                cl::init(1), cl::cat(main)};
  cl::opt<std::string> schedule{"schedule", cl::desc("gpipe or 1f1b"),
                                cl::init("1f1b"), cl::cat(main)};
  cl::opt<std::string> checkpoint{
      "checkpoint",
      cl::desc("What is recomputed: always, except_last or never"),
      cl::init("never"), cl::cat(main)};
  cl::opt<std::string> objective{"objective",
                                 cl::desc("Balance stages by time or memory"),
                                 cl::init("time"), cl::cat(main)};
  cl::list<std::string> cuts{
      "cuts", cl::desc("ONNX nodes that begin stages 1, 2, ..."),
      cl::CommaSeparated, cl::cat(main)};
  cl::opt<bool> ignoreHints{
      "ignore-hints", cl::desc("Ignore the model's pipeline_stage"),
      cl::cat(main)};
  cl::opt<std::string> costFile{
      "cost-file", cl::desc("Measured kernel times (JSON)"), cl::cat(main)};
  cl::opt<std::string> cpu{"cpu", cl::desc("Processor to compile for"),
                           cl::init("native"), cl::cat(main)};

  cl::opt<std::string> loss{
      "loss",
      cl::desc("cross_entropy or mse; without it, only inference is compiled"),
      cl::cat(training)};
  cl::opt<std::string> lossOutput{
      "loss-output", cl::desc("Model output the loss is computed from"),
      cl::cat(training)};
  cl::opt<int64_t> classAxis{"class-axis",
                             cl::desc("Axis of the classes in that output"),
                             cl::init(-1), cl::cat(training)};
  cl::opt<std::string> optimizer{"optimizer", cl::desc("sgd or adamw"),
                                 cl::init("sgd"), cl::cat(training)};
  cl::opt<double> learningRate{"learning-rate", cl::desc("Learning rate"),
                               cl::init(0.01), cl::cat(training)};
  cl::opt<double> momentum{"momentum", cl::desc("Momentum of sgd"),
                           cl::init(0), cl::cat(training)};
  cl::opt<double> weightDecay{"weight-decay", cl::desc("Weight decay"),
                              cl::init(0), cl::cat(training)};
  cl::opt<double> beta1{"beta1", cl::desc("adamw: decay of the mean"),
                        cl::init(0.9), cl::cat(training)};
  cl::opt<double> beta2{"beta2", cl::desc("adamw: decay of the square"),
                        cl::init(0.999), cl::cat(training)};
  cl::opt<double> epsilon{"epsilon", cl::desc("adamw: added to the root"),
                          cl::init(1e-8), cl::cat(training)};

  cl::opt<CompilePhase> compileTo{
      "compile-to", cl::desc("Stop after a phase and print its IR"),
      cl::values(clEnumValN(CompilePhase::Import, "import", "ONNX read"),
                 clEnumValN(CompilePhase::Graph, "graph",
                            "static shapes of a micro-batch"),
                 clEnumValN(CompilePhase::Differentiate, "differentiate",
                            "with the backward pass"),
                 clEnumValN(CompilePhase::Kernels, "kernels", "fused"),
                 clEnumValN(CompilePhase::Cost, "cost", "with costs"),
                 clEnumValN(CompilePhase::Partition, "partition", "stages"),
                 clEnumValN(CompilePhase::Schedule, "schedule",
                            "with a proven schedule"),
                 clEnumValN(CompilePhase::Lower, "lower", "LLVM dialect"),
                 clEnumValN(CompilePhase::Binary, "binary", "the binary")),
      cl::init(CompilePhase::Binary), cl::cat(phases)};
  cl::opt<CompilePhase> compileFrom{
      "compile-from",
      cl::desc("The phase after which the input, a .mlir, was printed"),
      cl::values(clEnumValN(CompilePhase::Import, "import", ""),
                 clEnumValN(CompilePhase::Graph, "graph", ""),
                 clEnumValN(CompilePhase::Differentiate, "differentiate", ""),
                 clEnumValN(CompilePhase::Kernels, "kernels", ""),
                 clEnumValN(CompilePhase::Cost, "cost", ""),
                 clEnumValN(CompilePhase::Partition, "partition", ""),
                 clEnumValN(CompilePhase::Schedule, "schedule", ""),
                 clEnumValN(CompilePhase::Lower, "lower", "")),
      cl::init(CompilePhase::Import), cl::cat(phases)};
  cl::opt<bool> dryRun{
      "dry-run", cl::desc("Print the plan: stages, memory and timeline"),
      cl::cat(phases)};
  cl::opt<std::string> linkFile{
      "link-file", cl::desc("Arguments that link with the runtime"),
      cl::init(PP_LINK_FILE), cl::Hidden, cl::cat(phases)};
};

CompileOptions getOptions(const Flags &flags, const ImportOptions &import,
                          int64_t batch) {
  CompileOptions options;
  options.import = import;
  options.batch = batch;
  options.microbatches = flags.microbatches;
  options.stages = flags.stages;
  options.schedule = flags.schedule;
  options.checkpoint = flags.checkpoint;
  options.objective = flags.objective;
  options.cuts.assign(flags.cuts.begin(), flags.cuts.end());
  options.ignoreHints = flags.ignoreHints;
  options.costFile = flags.costFile;
  options.cpu = flags.cpu;
  options.loss = flags.loss;
  options.output = flags.lossOutput;
  options.classAxis = flags.classAxis;
  options.optimizer = flags.optimizer;
  options.learningRate = flags.learningRate;
  options.momentum = flags.momentum;
  options.weightDecay = flags.weightDecay;
  options.beta1 = flags.beta1;
  options.beta2 = flags.beta2;
  options.epsilon = flags.epsilon;
  return options;
}

/// Faults that passes would find too, but with the name of the flag.
llvm::Error checkFlags(const Flags &flags) {
  auto oneOf = [](llvm::StringRef flag, llvm::StringRef value,
                  llvm::ArrayRef<llvm::StringRef> known) -> llvm::Error {
    if (llvm::is_contained(known, value))
      return llvm::Error::success();
    return makeError(exitUsage, "--" + flag + "=" + value + ": expected " +
                                    llvm::join(known, ", "));
  };
  auto positive = [](llvm::StringRef flag, int64_t value) -> llvm::Error {
    if (value >= 1 && value <= (1 << 20))
      return llvm::Error::success();
    return makeError(exitUsage, "--" + flag + "=" + llvm::Twine(value) +
                                    ": must be from 1 to 1048576");
  };
  if (flags.stages.getNumOccurrences())
    if (auto e = positive("stages", flags.stages))
      return e;
  if (auto e = positive("microbatches", flags.microbatches))
    return e;
  if (auto e = oneOf("schedule", flags.schedule, {"gpipe", "1f1b"}))
    return e;
  if (auto e = oneOf("checkpoint", flags.checkpoint,
                     {"always", "except_last", "never"}))
    return e;
  if (auto e = oneOf("objective", flags.objective, {"time", "memory"}))
    return e;
  if (auto e = oneOf("optimizer", flags.optimizer, {"sgd", "adamw"}))
    return e;
  if (!flags.loss.empty())
    if (auto e = oneOf("loss", flags.loss, {"cross_entropy", "mse"}))
      return e;
  if (flags.compileTo < flags.compileFrom)
    return makeError(exitUsage, "--compile-to=" + getName(flags.compileTo) +
                                    " comes before --compile-from=" +
                                    getName(flags.compileFrom));
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

llvm::Error compile(const Flags &flags, mlir::MLIRContext &context) {
  if (auto error = checkFlags(flags))
    return error;
  auto import = getImportOptions();
  if (!import)
    return import.takeError();
  int64_t batch = isBatchGiven() ? import->batch : 0;
  Compilation compilation(&context, getOptions(flags, *import, batch));
  bool fromOnnx = llvm::StringRef(flags.input).ends_with(".onnx");
  if (auto error = fromOnnx ? compilation.readOnnx(flags.input)
                            : compilation.readMlir(flags.input))
    return error;

  int first = static_cast<int>(fromOnnx ? CompilePhase::Import
                                        : flags.compileFrom.getValue()) +
              1;
  CompilePhase last =
      std::min(flags.compileTo.getValue(), CompilePhase::Lower);
  auto configure = [](mlir::PassManager &pm) {
    (void)mlir::applyPassManagerCLOptions(pm);
    mlir::applyDefaultTimingPassManagerCLOptions(pm);
  };
  if (auto error = compilation.run(static_cast<CompilePhase>(first), last,
                                   configure))
    return error;
  if (flags.dryRun)
    return printReport(compilation.getModule(), llvm::outs());
  if (flags.compileTo != CompilePhase::Binary)
    return printModule(compilation.getModule(), flags.output);
  if (flags.output.empty())
    return makeError(exitUsage, "no output file; name one with -o");
  auto object = compilation.emit();
  if (!object)
    return object.takeError();
  return linkBinary(*object, flags.output, flags.linkFile);
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Flags flags;
  registerImportFlags();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  cl::HideUnrelatedOptions({&flags.main, &flags.training, &flags.phases,
                            &getImportCategory()});
  cl::ParseCommandLineOptions(
      argc, argv,
      "pp-compile: an ONNX model in, a pipeline-parallel binary out\n");

  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(&context, llvm::errs());
  if (llvm::Error error = compile(flags, context))
    return reportError(std::move(error));
  return exitSuccess;
}
