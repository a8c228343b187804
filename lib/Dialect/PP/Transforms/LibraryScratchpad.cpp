//===- LibraryScratchpad.cpp - Memory of library kernels ------------------===//

#include "LibraryScratchpad.h"
#include "cpu/Descriptor.h"
#include "cpu/DivideKernel.h"
#include "cpu/LibraryKernel.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <mutex>

using namespace mlir;
using namespace pp;

static constexpr int64_t mebibyte = 1 << 20;

/// To add up in a fixed order, cuDNN 9 keeps the gradient of the scores, in 16
/// bits and whole tiles, and a float for each row; see runtime-cudnn-test.
static int64_t getAttentionScratchpadBytes(const std::string &text) {
  runtime::Descriptor descriptor(text);
  auto q = descriptor.getDims("q", 4, 1), k = descriptor.getDims("k", 4, 1);
  int64_t heads = q[0] * q[1];
  int64_t tiles = llvm::alignTo(q[2], 64) * llvm::alignTo(k[2], 128);
  return llvm::alignTo(2 * heads * tiles + 4 * heads * q[2] + (64 << 10), 256);
}

/// cuDNN's kernels for tensor cores want the channels last, and transpose all
/// tensors in the scratchpad; what they want beside that is less than 32 MiB.
/// Exact products of f32 use no tensor cores.
static int64_t getGpuConvScratchpadBytes(Operation *op,
                                         llvm::StringRef descriptor) {
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  unsigned bits = result.getElementTypeBitWidth();
  auto getBytes = [&](RankedTensorType type) {
    return static_cast<int64_t>(
        llvm::alignTo(type.getNumElements() * bits / 8, 256));
  };
  int64_t widened = 0, transposed = getBytes(result);
  for (Type type : op->getOperandTypes()) {
    auto factor = cast<RankedTensorType>(type);
    transposed += getBytes(factor);
    // The plugin widens the factors of a result that is longer than they are.
    if (factor.getElementTypeBitWidth() < bits)
      widened += getBytes(factor);
  }
  bool usesTensorCores =
      bits < 32 || widened > 0 || descriptor.contains("compute=tf32");
  int64_t least = 64 * mebibyte;
  return widened + (usesTensorCores
                        ? std::max(least, transposed + 32 * mebibyte)
                        : least);
}

/// cuBLASLt and cuDNN choose an algorithm that fits; 32 MiB is what the fastest
/// GEMMs of a Hopper want.
static int64_t getGpuScratchpadBytes(Operation *op, const std::string &text) {
  llvm::StringRef descriptor = text;
  if (descriptor.starts_with("matmul"))
    return 32 * mebibyte;
  if (descriptor.starts_with("conv"))
    return getGpuConvScratchpadBytes(op, descriptor);
  if (descriptor.starts_with("attention_forward"))
    return 64 << 10;
  if (descriptor.starts_with("attention_backward"))
    return getAttentionScratchpadBytes(text);
  return 0;
}

FailureOr<int64_t>
pp::pipeline::getScratchpadBytes(Operation *op, const std::string &descriptor) {
  auto module = op->getParentOfType<ModuleOp>();
  if (getTarget(module).getArchitecture())
    return getGpuScratchpadBytes(op, descriptor);
  static std::mutex mutex;
  static llvm::StringMap<int64_t> known;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find(descriptor);
  if (found != known.end())
    return found->second;
  runtime::setKernelThreads(1);
  std::string error;
  auto kernel = runtime::LibraryKernel::create(descriptor, error);
  if (!kernel)
    return op->emitOpError() << "cannot be run by the library: " << error;
  return known[descriptor] = kernel->scratchpadBytes();
}

std::string pp::pipeline::divideKernel(const std::string &descriptor,
                                       int64_t parts) {
  if (parts == 1)
    return descriptor;
  static std::mutex mutex;
  static llvm::StringMap<std::string> known;
  std::lock_guard<std::mutex> lock(mutex);
  auto [entry, isNew] =
      known.try_emplace(descriptor + " " + std::to_string(parts));
  if (isNew) {
    runtime::setKernelThreads(1);
    entry->second =
        runtime::divideKernel(descriptor, static_cast<unsigned>(parts));
  }
  return entry->second;
}

std::string pp::pipeline::addTogether(const std::string &descriptor,
                                      int64_t microbatches) {
  if (microbatches == 1 || !runtime::addsTogether(descriptor))
    return descriptor;
  return descriptor + " together=" + std::to_string(microbatches);
}
