//===- ImportFlags.cpp - Command-line flags of the ONNX importer ----------===//

#include "pp/Driver/ImportFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Planner/JsonDepth.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/MemoryBuffer.h"

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
      cl::init(BatchNormMode::Micro), cl::cat(category)};
  cl::list<std::string> dims{
      "dim",
      cl::desc("Size of a symbolic dimension of the ONNX model, or, of those "
               "without a name, of the axis with this number; several sizes "
               "of one dimension, joined by commas, give a program that takes "
               "the smallest that fits its data"),
      cl::value_desc("name=size"), cl::cat(category)};
  cl::list<std::string> shapes{
      "shape", cl::desc("Sizes of all axes of an input, such as x=1x3x224x224"),
      cl::value_desc("input=sizes"), cl::cat(category)};
  cl::list<std::string> values{
      "value",
      cl::desc("Value of an input, such as rate=16000, which the program then "
               "does not read: a number for all of its elements, or one for "
               "each, joined by commas"),
      cl::value_desc("input=numbers"), cl::cat(category)};
  cl::list<std::string> batchAxes{
      "batch-axis",
      cl::desc("Axis of an input or output that has the samples, or none "
               "(default: 0; none where another size is there than that of "
               "the samples). The program has it first"),
      cl::value_desc("name=axis"), cl::cat(category)};
  cl::opt<int64_t> batch{"batch",
                         cl::desc("Samples of one step: the mini-batch"),
                         cl::init(0), cl::cat(category)};
  cl::list<std::string> freeze{
      "freeze",
      cl::desc("Initializers that are not trained; * and ? stand for others"),
      cl::value_desc("patterns"), cl::CommaSeparated, cl::cat(category)};
  cl::list<std::string> trainOnly{
      "train-only",
      cl::desc("The only initializers that are trained; * and ? stand for "
               "others"),
      cl::value_desc("patterns"), cl::CommaSeparated, cl::cat(category)};
  cl::list<std::string> paddingIndices{
      "padding-index",
      cl::desc("Row of an embedding that is not trained: PyTorch's "
               "padding_idx, which files of its older exporter do not have"),
      cl::value_desc("initializer=row"), cl::cat(category)};
  cl::opt<std::string> parameterNames{
      "parameter-names",
      cl::desc("Train what has a name in this safetensors file, such as "
               "dict(model.named_parameters())"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<bool> allowHardlinks{
      "allow-hardlinks",
      cl::desc("Read external data from files with several hard links"),
      cl::cat(category)};
};

llvm::ManagedStatic<Flags> flags;

} // namespace

/// The names of the tensors of a safetensors file: the keys of its header.
static llvm::Error readNames(const std::string &path,
                             llvm::StringSet<> &names) {
  auto refuse = [&](const llvm::Twine &why) {
    return makeError(exitInvalid, "--parameter-names: '" + path + "' " + why);
  };
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + path +
                                          "': " + buffer.getError().message());
  llvm::StringRef data = (*buffer)->getBuffer();
  if (data.size() < 8)
    return refuse("is no safetensors file");
  uint64_t length = llvm::support::endian::read64le(data.data());
  if (length > data.size() - 8)
    return refuse("is no safetensors file");
  if (planner::isNestedTooDeep(data.substr(8, length)))
    return refuse("has a header that is nested too deep");
  auto header = llvm::json::parse(data.substr(8, length));
  if (!header)
    return refuse("has a header that is no JSON: " +
                  llvm::toString(header.takeError()));
  const llvm::json::Object *object = header->getAsObject();
  if (!object || object->empty())
    return refuse("names no tensors");
  for (const auto &[key, value] : *object)
    if (llvm::StringRef(key) != "__metadata__")
      names.insert(key);
  return llvm::Error::success();
}

void pp::registerImportFlags() { *flags; }

cl::OptionCategory &pp::getImportCategory() { return flags->category; }

bool pp::isBatchGiven() { return flags->batch.getNumOccurrences() > 0; }

/// Numbers of 1 or more between `separator`; empty where one is none.
static std::vector<int64_t> readSizes(llvm::StringRef list, char separator) {
  llvm::SmallVector<llvm::StringRef> words;
  list.split(words, separator);
  std::vector<int64_t> sizes;
  for (llvm::StringRef word : words) {
    int64_t size;
    if (word.getAsInteger(10, size) || size < 1)
      return {};
    sizes.push_back(size);
  }
  return sizes;
}

/// One flag --dim.
static llvm::Error readDim(llvm::StringRef text, ImportOptions &options) {
  auto [name, list] = text.split('=');
  std::vector<int64_t> sizes = readSizes(list, ',');
  if (name.empty() || sizes.empty())
    return makeError(exitUsage,
                     "--dim=" + text +
                         ": expected NAME=SIZE with a size of 1 or more, or "
                         "NAME=SIZE,SIZE,... with several");
  llvm::sort(sizes);
  sizes.erase(llvm::unique(sizes), sizes.end());
  // Tools that make one program make that of the largest.
  options.dims[name] = sizes.back();
  if (sizes.size() == 1)
    return llvm::Error::success();
  if (!options.buckets.dim.empty())
    return makeError(exitUsage, "--dim=" + text + ": '" + options.buckets.dim +
                                    "' has several sizes already; one "
                                    "dimension can have them");
  options.buckets = {name.str(), std::move(sizes)};
  return llvm::Error::success();
}

/// One flag --shape.
static llvm::Error readShape(llvm::StringRef text, ImportOptions &options) {
  auto [name, list] = text.rsplit('=');
  std::vector<int64_t> sizes = readSizes(list, 'x');
  if (name.empty() || sizes.empty())
    return makeError(exitUsage, "--shape=" + text +
                                    ": expected INPUT=SIZExSIZE, with a size "
                                    "of 1 or more for each axis");
  if (!options.shapes.try_emplace(name, std::move(sizes)).second)
    return makeError(exitUsage,
                     "--shape=" + text + ": '" + name + "' has one already");
  return llvm::Error::success();
}

/// One flag --value.
static llvm::Error readValue(llvm::StringRef text, ImportOptions &options) {
  auto [name, list] = text.rsplit('=');
  llvm::SmallVector<llvm::StringRef> numbers;
  list.split(numbers, ',');
  if (name.empty() || llvm::is_contained(numbers, ""))
    return makeError(exitUsage, "--value=" + text +
                                    ": expected INPUT=NUMBER, or "
                                    "INPUT=NUMBER,NUMBER,...");
  std::vector<std::string> given(numbers.begin(), numbers.end());
  if (!options.values.try_emplace(name, std::move(given)).second)
    return makeError(exitUsage,
                     "--value=" + text + ": '" + name + "' has one already");
  return llvm::Error::success();
}

/// One flag --batch-axis.
static llvm::Error readBatchAxis(llvm::StringRef text, ImportOptions &options) {
  auto [name, word] = text.rsplit('=');
  int64_t axis = ImportOptions::noBatchAxis;
  if (name.empty() ||
      (word != "none" && (word.getAsInteger(10, axis) || axis < 0)))
    return makeError(exitUsage,
                     "--batch-axis=" + text +
                         ": expected NAME=AXIS with an axis of 0 or more, or "
                         "NAME=none");
  if (!options.batchAxes.try_emplace(name, axis).second)
    return makeError(exitUsage, "--batch-axis=" + text + ": '" + name +
                                    "' has one already");
  return llvm::Error::success();
}

static llvm::Error readPaddingIndex(llvm::StringRef text,
                                    ImportOptions &options) {
  auto [name, word] = text.rsplit('=');
  int64_t row = 0;
  if (name.empty() || word.getAsInteger(10, row) || row < 0)
    return makeError(exitUsage, "--padding-index=" + text +
                                    ": expected NAME=ROW with a row of 0 or "
                                    "more");
  if (!options.paddingIndices.try_emplace(name.str(), row).second)
    return makeError(exitUsage, "--padding-index=" + text + ": '" + name +
                                    "' has one already");
  return llvm::Error::success();
}

llvm::Expected<ImportOptions> pp::getImportOptions() {
  ImportOptions options;
  options.training = flags->training;
  options.batchNorm = flags->batchNorm;
  options.allowHardlinks = flags->allowHardlinks;
  if (flags->batch < 0 || (isBatchGiven() && flags->batch == 0))
    return makeError(exitUsage, "--batch=" + llvm::Twine(flags->batch) +
                                    ": must be 1 or more");
  options.batch = flags->batch == 0 ? 1 : flags->batch;
  options.freeze.assign(flags->freeze.begin(), flags->freeze.end());
  options.trainOnly.assign(flags->trainOnly.begin(), flags->trainOnly.end());
  if (!flags->parameterNames.empty())
    if (llvm::Error error =
            readNames(flags->parameterNames, options.parameterNames))
      return std::move(error);
  for (const std::string &index : flags->paddingIndices)
    if (llvm::Error error = readPaddingIndex(index, options))
      return std::move(error);
  for (const std::string &dim : flags->dims)
    if (llvm::Error error = readDim(dim, options))
      return std::move(error);
  for (const std::string &shape : flags->shapes)
    if (llvm::Error error = readShape(shape, options))
      return std::move(error);
  for (const std::string &value : flags->values)
    if (llvm::Error error = readValue(value, options))
      return std::move(error);
  for (const std::string &axis : flags->batchAxes)
    if (llvm::Error error = readBatchAxis(axis, options))
      return std::move(error);
  return options;
}
