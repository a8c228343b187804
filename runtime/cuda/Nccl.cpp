//===- Nccl.cpp -----------------------------------------------------------===//
#include "Nccl.h"
#include "Failure.h"

#include <cstdlib>

using namespace pp::cuda;

/// Before NCCL is loaded, which reads the environment then.
static std::string prepare() {
  // A process has a communicator for each link. Their kernels must start in the
  // order of the host's calls, or two of them can wait for each other.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  return "libnccl.so.2";
}

Nccl::Nccl() : library(prepare(), "--transport nccl") {
#define PP_LOAD(name)                                                          \
  name = reinterpret_cast<decltype(name)>(library.getSymbol(#name));
  PP_NCCL_FUNCTIONS(PP_LOAD)
#undef PP_LOAD
}

void Nccl::check(ncclResult_t result, const char *what) const {
  if (result != ncclSuccess && result != ncclInProgress)
    throw Failure(Failure::System, std::string("NCCL: ") + what + ": " +
                                       this->ncclGetErrorString(result));
}
