//===- pp-profile.cpp - Measures the kernels of a model -------------------===//
//
// Writes a cost file for `pp-compile --cost-file`: the time of every library
// kernel that the model would run, on this machine, with one thread. Buffers
// are rotated so that a kernel finds them outside of the caches, as it does in
// a step (kernels timed on warm buffers promise up to a third too much).
//
//===----------------------------------------------------------------------===//

#include "cpu/LibraryKernel.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/InitAll.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/KernelOpInterface.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ToolOutputFile.h"
#include <chrono>
#include <map>
#include <memory>

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

/// The bytes of the tensors that a library kernel is handed, in its order.
using TensorSizes = std::vector<uint64_t>;

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

/// One set of buffers of a kernel, filled with numbers.
class Buffers {
public:
  Buffers(const TensorSizes &sizes, uint64_t scratchpad) {
    uint64_t total = 0;
    auto take = [&](uint64_t bytes) {
      uint64_t offset = total;
      total += llvm::alignTo(std::max<uint64_t>(bytes, 64), 64);
      return offset;
    };
    std::vector<uint64_t> offsets;
    for (uint64_t size : sizes)
      offsets.push_back(take(size));
    uint64_t scratch = take(scratchpad);
    storage.resize((total + 64) / sizeof(float));
    // The same numbers in every run: only their kind matters to the time.
    for (size_t i = 0; i < storage.size(); ++i)
      storage[i] = static_cast<float>(i % 251) / 125.0F - 1.0F;
    void *base = storage.data();
    size_t space = storage.size() * sizeof(float);
    base = std::align(64, total, base, space);
    for (uint64_t offset : offsets)
      tensors.push_back(static_cast<char *>(base) + offset);
    scratchpadAddress = static_cast<char *>(base) + scratch;
  }

  std::vector<void *> tensors;
  void *scratchpadAddress;

private:
  std::vector<float> storage;
};

llvm::Expected<double> measure(const std::string &descriptor,
                               const TensorSizes &sizes, unsigned repetitions) {
  std::string message;
  auto kernel = runtime::LibraryKernel::create(descriptor, message);
  if (!kernel)
    return makeError(exitUnsupported, "'" + descriptor + "': " + message);
  uint64_t bytes = kernel->scratchpadBytes();
  for (uint64_t size : sizes)
    bytes += size;
  // More than the last-level cache in all, but not without end.
  constexpr uint64_t coldBytes = 64 << 20;
  size_t sets =
      std::clamp<uint64_t>(coldBytes / std::max<uint64_t>(bytes, 1), 2, 64);
  std::vector<Buffers> buffers;
  for (size_t i = 0; i < sets; ++i)
    buffers.emplace_back(sizes, kernel->scratchpadBytes());
  kernel->execute(buffers[0].tensors.data(), buffers[0].scratchpadAddress);
  std::vector<double> seconds;
  for (unsigned run = 0; run < std::max(1u, repetitions); ++run) {
    Buffers &set = buffers[(run + 1) % sets];
    auto start = std::chrono::steady_clock::now();
    kernel->execute(set.tensors.data(), set.scratchpadAddress);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2,
                   seconds.end());
  return seconds[seconds.size() / 2];
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
  llvm::SmallVector<const cl::OptionCategory *> categories = {&flags.category};
  llvm::append_range(categories, getCompileCategories());
  cl::HideUnrelatedOptions(categories);
  cl::ParseCommandLineOptions(argc, argv,
                              "pp-profile: measures the kernels of a model\n");
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(&context, llvm::errs());
  if (llvm::Error error = profile(flags, context))
    return reportError(std::move(error));
  return exitSuccess;
}
