//===- CostFile.cpp - Measured times --------------------------------------===//

#include "pp/Interfaces/CostFile.h"

#include "pp/Planner/JsonDepth.h"
#include "pp/Planner/RepeatedKeys.h"
#include "pprt/pprt.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace pp;

static constexpr llvm::StringLiteral updateField = "update_seconds_per_byte";
/// Behind the key of a kernel.
static constexpr llvm::StringLiteral threadsSuffix = " threads=",
                                     aloneSuffix = " alone";
static constexpr llvm::StringLiteral aloneField =
    "update_alone_seconds_per_byte";
static constexpr llvm::StringLiteral threadsField = "threads";
static constexpr llvm::StringLiteral latencyField = "transfer_latency_seconds";

llvm::Expected<CostFile> CostFile::read(llvm::StringRef path,
                                        llvm::StringRef target) {
  auto fail = [&](const llvm::Twine &message) {
    return llvm::createStringError("cost file '" + path + "': " + message);
  };
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError("cannot read cost file '" + path +
                                   "': " + buffer.getError().message());
  if (planner::isNestedTooDeep((*buffer)->getBuffer()))
    return fail("nested too deep");
  auto json = llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return fail(llvm::toString(json.takeError()));
  // Files are merged by hand.
  if (auto fault = planner::findRepeatedKeys((*buffer)->getBuffer()))
    return fail(*fault);
  auto *root = json->getAsObject();
  auto *kernels = root ? root->getObject("kernels") : nullptr;
  if (!root || root->getInteger("version") != 1 || !kernels)
    return fail("expected {\"version\": 1, \"kernels\": {...}}");
  // Older files do not say.
  if (const llvm::json::Value *value = root->get("target")) {
    auto measured = value->getAsString();
    if (!measured)
      return fail("target must be a string");
    if (measured->split(':').first != target.split(':').first)
      return fail(
          "its times are those of the target " + *measured + ", not " + target +
          "; measure with pp-profile --target=" + target.split(':').first);
  }
  // Not a number: what is none.
  auto seconds = [](const llvm::json::Value &value) -> std::optional<double> {
    auto number = value.getAsNumber();
    return number && *number >= 0 ? number : std::nullopt;
  };
  CostFile file;
  for (auto &[name, value] : *kernels) {
    auto time = seconds(value);
    if (!time)
      return fail("kernels['" + name.str() +
                  "'] must be a number of seconds from 0 on");
    file.kernels[name.str()] = *time;
    llvm::StringRef key = name;
    const bool isAlone = key.consume_back(aloneSuffix);
    int64_t threads = 1;
    if (auto [kernel, count] = key.rsplit(threadsSuffix);
        count.getAsInteger(10, threads))
      threads = 1;
    (isAlone ? file.alone : file.threads).insert(threads);
  }
  auto read = [&](const llvm::json::Object &object, llvm::StringRef name,
                  std::optional<double> &field) {
    const llvm::json::Value *value = object.get(name);
    if (value)
      field = seconds(*value);
    return !value || field;
  };
  constexpr const char *expected = " must be a number of seconds from 0 on";
  if (!read(*root, latencyField, file.transferLatency))
    return fail(latencyField + expected);
  auto readUpdates = [&](const llvm::json::Object &object, int64_t threads,
                         const std::string &where) -> llvm::Error {
    std::optional<double> alone;
    if (!read(object, updateField, file.updateSecondsPerByte[threads]))
      return fail(where + updateField + expected);
    if (!read(object, aloneField, alone))
      return fail(where + aloneField + expected);
    file.threads.insert(threads);
    if (alone) {
      file.updateAlone[threads] = *alone;
      file.alone.insert(threads);
    }
    return llvm::Error::success();
  };
  if (auto error = readUpdates(*root, 1, ""))
    return std::move(error);
  const llvm::json::Value *several = root->get(threadsField);
  if (!several)
    return file;
  if (!several->getAsObject())
    return fail(threadsField + " must be an object");
  for (auto &[name, value] : *several->getAsObject()) {
    std::string where = (threadsField + "['" + name.str() + "']").str();
    int64_t threads = 0;
    if (llvm::StringRef(name.str()).getAsInteger(10, threads) || threads < 2 ||
        threads > PP_MOST_THREADS)
      return fail(where + ": expected a number of threads from 2 to " +
                  llvm::Twine(PP_MOST_THREADS));
    const llvm::json::Object *object = value.getAsObject();
    if (!object)
      return fail(where + " must be an object");
    if (auto error = readUpdates(*object, threads, where + "."))
      return std::move(error);
  }
  return file;
}

std::string CostFile::keyIn(int64_t threads, const std::string &kernel) {
  if (threads == 1)
    return kernel;
  return kernel + threadsSuffix.str() + std::to_string(threads);
}

std::optional<double> CostFile::findKernel(int64_t threads,
                                           const std::string &kernel,
                                           Others others) const {
  std::string key = keyIn(threads, kernel);
  auto known = kernels.end();
  if (others == Others::Idle)
    known = kernels.find(key + aloneSuffix.str());
  if (known == kernels.end())
    known = kernels.find(key);
  return known == kernels.end() ? std::nullopt : std::optional(known->second);
}

std::optional<double> CostFile::findUpdate(int64_t threads,
                                           Others others) const {
  if (auto alone = updateAlone.find(threads);
      others == Others::Idle && alone != updateAlone.end())
    return alone->second;
  auto known = updateSecondsPerByte.find(threads);
  return known == updateSecondsPerByte.end() ? std::nullopt : known->second;
}
