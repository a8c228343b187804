//===- LibraryScratchpad.cpp - Memory of library kernels ------------------===//

#include "LibraryScratchpad.h"
#include "cpu/LibraryKernel.h"
#include "llvm/ADT/StringMap.h"
#include <mutex>

using namespace mlir;
using namespace pp;

FailureOr<int64_t>
pp::pipeline::getScratchpadBytes(Operation *op, const std::string &descriptor) {
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
