//===- KernelTimes.cpp - Measured times of library kernels ----------------===//

#include "KernelTimes.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

FailureOr<KernelTimes> KernelTimes::read(Operation *where,
                                         llvm::StringRef path) {
  KernelTimes times;
  if (path.empty())
    return times;
  auto file = CostFile::read(path, "cpu");
  if (!file)
    return where->emitError() << llvm::toString(file.takeError());
  times.file = std::move(*file);
  return times;
}

std::optional<double>
KernelTimes::findPlain(const std::string &descriptor) const {
  auto found = file.kernels.find(descriptor);
  if (descriptor.empty() || found == file.kernels.end())
    return std::nullopt;
  return found->second;
}

std::optional<double>
KernelTimes::findWithBytes(const std::string &prefix) const {
  auto found = file.kernels.lower_bound(prefix);
  if (found == file.kernels.end() ||
      !llvm::StringRef(found->first).starts_with(prefix))
    return std::nullopt;
  return found->second;
}

std::optional<double> KernelTimes::findPacked(const std::string &descriptor,
                                              int64_t uses) const {
  if (descriptor.empty())
    return std::nullopt;
  auto time = findWithBytes(descriptor + " packed=");
  if (!time || uses == 0)
    return time;
  auto packing = findWithBytes("pack_" + descriptor + " packed=");
  if (!packing)
    return std::nullopt;
  return *time + *packing / static_cast<double>(uses);
}

std::optional<double> KernelTimes::findFastest(const std::string &descriptor,
                                               int64_t uses) const {
  auto plain = findPlain(descriptor), packed = findPacked(descriptor, uses);
  if (plain && packed)
    return std::min(*plain, *packed);
  return plain ? plain : packed;
}
