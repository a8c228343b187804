//===- LibraryScratchpad.cpp - Memory of library kernels ------------------===//

#include "LibraryScratchpad.h"
#include "cpu/Descriptor.h"
#include "cpu/LibraryKernel.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
#include <mutex>

using namespace mlir;
using namespace pp;

/// To add up in a fixed order, cuDNN 9 keeps the gradient of the scores, in 16
/// bits and whole tiles, and a float for each row; see runtime-cudnn-test.
static int64_t getAttentionScratchpadBytes(const std::string &text) {
  runtime::Descriptor descriptor(text);
  auto q = descriptor.getDims("q", 4, 1), k = descriptor.getDims("k", 4, 1);
  int64_t heads = q[0] * q[1];
  int64_t tiles = llvm::alignTo(q[2], 64) * llvm::alignTo(k[2], 128);
  return llvm::alignTo(2 * heads * tiles + 4 * heads * q[2] + (64 << 10), 256);
}

/// cuBLASLt and cuDNN choose an algorithm that fits; 32 MiB is what the fastest
/// GEMMs of a Hopper want.
static int64_t getGpuScratchpadBytes(Operation *op, const std::string &text) {
  llvm::StringRef descriptor = text;
  constexpr int64_t mebibyte = 1 << 20;
  if (descriptor.starts_with("matmul"))
    return 32 * mebibyte;
  if (descriptor.starts_with("attention_forward"))
    return 64 << 10;
  if (descriptor.starts_with("attention_backward"))
    return getAttentionScratchpadBytes(text);
  if (!descriptor.starts_with("conv"))
    return 0;
  // The plugin widens the factors of a result that is longer than they are.
  int64_t bytes = 64 * mebibyte;
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  for (Type type : op->getOperandTypes()) {
    auto factor = cast<RankedTensorType>(type);
    if (factor.getElementTypeBitWidth() < result.getElementTypeBitWidth())
      bytes += llvm::alignTo(
          factor.getNumElements() * result.getElementTypeBitWidth() / 8, 256);
  }
  return bytes;
}

FailureOr<int64_t>
pp::pipeline::getScratchpadBytes(Operation *op, const std::string &descriptor) {
  auto module = op->getParentOfType<ModuleOp>();
  if (isGpuTarget(module) && !isEmulatedTarget(module))
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
