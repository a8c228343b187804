//===- DeviceKernels.cpp - Compiles DeviceKernels.inc ---------------------===//
#include "Libraries.h"
#include "SharedLibrary.h"

#include <cuda.h>
#include <nvrtc.h>

using namespace pp::cuda;

#define PP_DEVICE_CODE(...) #__VA_ARGS__
static const char *const source =
#include "DeviceKernels.inc"
    ;
#undef PP_DEVICE_CODE

namespace {
struct Nvrtc {
  SharedLibrary library{"libnvrtc.so." + std::to_string(CUDA_VERSION / 1000),
                        "the model has pooling, batch normalisation, loss "
                        "scaling, replicas or gradients of mixed convolutions, "
                        "whose kernels are compiled for the GPU: it"};
// A declaration takes no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define PP_NVRTC(name)                                                         \
  decltype(&::name) name =                                                     \
      reinterpret_cast<decltype(&::name)>(library.getSymbol(#name))
  // NOLINTEND(bugprone-macro-parentheses)
  PP_NVRTC(nvrtcCreateProgram);
  PP_NVRTC(nvrtcCompileProgram);
  PP_NVRTC(nvrtcDestroyProgram);
  PP_NVRTC(nvrtcGetPTX);
  PP_NVRTC(nvrtcGetPTXSize);
  PP_NVRTC(nvrtcGetProgramLog);
  PP_NVRTC(nvrtcGetProgramLogSize);
  PP_NVRTC(nvrtcGetErrorString);
#undef PP_NVRTC
};
} // namespace

std::string pp::cuda::compileDeviceKernels(int architecture) {
  Nvrtc nvrtc;
  nvrtcProgram program = nullptr;
  auto check = [&](nvrtcResult result) {
    if (result == NVRTC_SUCCESS)
      return;
    std::string text = nvrtc.nvrtcGetErrorString(result);
    size_t size = 0;
    if (program &&
        nvrtc.nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS) {
      std::string log(size, 0);
      nvrtc.nvrtcGetProgramLog(program, log.data());
      text += "\n" + log;
    }
    nvrtc.nvrtcDestroyProgram(&program);
    throw Failure(Failure::Internal,
                  "NVRTC does not compile the plugin's kernels: " + text);
  };
  check(nvrtc.nvrtcCreateProgram(&program, source, "DeviceKernels.inc", 0,
                                 nullptr, nullptr));
  std::string target =
      "--gpu-architecture=compute_" + std::to_string(architecture);
  // No contraction, so that the arithmetic is that of the source.
  const char *options[] = {target.c_str(), "--std=c++17", "--fmad=false"};
  check(nvrtc.nvrtcCompileProgram(program, 3, options));
  size_t size = 0;
  check(nvrtc.nvrtcGetPTXSize(program, &size));
  std::string text(size, 0);
  check(nvrtc.nvrtcGetPTX(program, text.data()));
  nvrtc.nvrtcDestroyProgram(&program);
  return text;
}
