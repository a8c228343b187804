//===- ImportFlags.cpp - Command-line flags of the ONNX importer ----------===//

#include "pp/Driver/ImportFlags.h"
#include "pp/Driver/Errors.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ManagedStatic.h"

using namespace pp;
namespace cl = llvm::cl;

namespace {

struct Flags {
  cl::OptionCategory category{"ONNX import options"};
  cl::opt<bool> training{"training",
                         cl::desc("Import .onnx for training: parameters are "
                                  "trained, batch norm uses batch statistics"),
                         cl::cat(category)};
  cl::opt<BatchNormMode> batchNorm{
      "batch-norm", cl::desc("Batch normalisation in training"),
      cl::values(clEnumValN(BatchNormMode::Micro, "micro",
                            "statistics of each micro-batch; running "
                            "statistics move once per step"),
                 clEnumValN(BatchNormMode::Frozen, "frozen",
                            "the running statistics, unchanged")),
      cl::init(BatchNormMode::Micro), cl::cat(category)};
  cl::list<std::string> dims{
      "dim", cl::desc("Size of a symbolic dimension of the ONNX model"),
      cl::value_desc("name=size"), cl::cat(category)};
  cl::opt<int64_t> batch{"batch",
                         cl::desc("Samples of one step: the mini-batch"),
                         cl::init(0), cl::cat(category)};
  cl::list<std::string> freeze{
      "freeze", cl::desc("Initializers that are not trained"),
      cl::value_desc("names"), cl::CommaSeparated, cl::cat(category)};
  cl::opt<bool> allowHardlinks{
      "allow-hardlinks",
      cl::desc("Read external data from files with several hard links"),
      cl::cat(category)};
};

llvm::ManagedStatic<Flags> flags;

} // namespace

void pp::registerImportFlags() { *flags; }

cl::OptionCategory &pp::getImportCategory() { return flags->category; }

bool pp::isBatchGiven() { return flags->batch.getNumOccurrences() > 0; }

llvm::Expected<ImportOptions> pp::getImportOptions() {
  ImportOptions options;
  options.training = flags->training;
  options.batchNorm = flags->batchNorm;
  options.allowHardlinks = flags->allowHardlinks;
  if (flags->batch < 0 || (isBatchGiven() && flags->batch == 0))
    return makeError(exitUsage, "--batch=" + llvm::Twine(flags->batch) +
                                    ": must be 1 or more");
  options.batch = flags->batch == 0 ? 1 : flags->batch;
  for (const std::string &name : flags->freeze)
    options.frozen.insert(name);
  for (const std::string &dim : flags->dims) {
    auto [name, size] = llvm::StringRef(dim).split('=');
    int64_t value;
    if (name.empty() || size.getAsInteger(10, value) || value < 1)
      return makeError(exitUsage, "--dim=" + dim +
                                      ": expected NAME=SIZE with "
                                      "a size of 1 or more");
    options.dims[name] = value;
  }
  return options;
}
