//===- CudnnTest.cpp - The real cuDNN builds our graphs without a GPU -----===//
//
// Given the properties of a GPU that is not there, cuDNN chooses and compiles a
// kernel, and says what workspace it wants.
//
//===----------------------------------------------------------------------===//
#include "AttentionGraph.h"
#include "Failure.h"
#include "SharedLibrary.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

using namespace pp::cuda;
using pp::runtime::Descriptor;

namespace {

std::string getProperties(int architecture, int multiprocessors,
                          int sharedMemory) {
  return R"({"maxGridSize":[2147483647,65535,65535],)"
         R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
         R"("multiProcessorCount":)" +
         std::to_string(multiprocessors) +
         R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
         R"("maxSharedMemoryPerBlockOptin":)" +
         std::to_string(sharedMemory) +
         R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
         R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
         R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"totalGlobalMem":85028896768,)"
         R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
         R"("l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":)" +
         std::to_string(architecture * 10) +
         R"(,"driverVer":13000,"deviceName":"none"})";
}

/// What the compiler plans; see docs/plan-format.md.
uint64_t getPlanned(const AttentionMapping &map) {
  constexpr uint64_t rest = 64 << 10;
  if (!map.isBackward)
    return rest;
  const auto &q = map.tensors[AttentionMapping::Q].dims,
             &k = map.tensors[AttentionMapping::K].dims;
  uint64_t heads = q[0] * q[1], rows = (q[2] + 63) / 64 * 64,
           columns = (k[2] + 127) / 128 * 128;
  return 2 * heads * rows * columns + 4 * heads * q[2] + rest;
}

class CudnnTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    ASSERT_TRUE(dlopen(PP_FAKE_LOADER, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
    try {
      library = SharedLibrary("libcudnn.so." + std::to_string(CUDNN_MAJOR),
                              "this test")
                    .getHandle();
    } catch (const Failure &e) {
      GTEST_SKIP() << e.what();
    }
  }
  void *library = nullptr;
};

TEST_P(CudnnTest, BuildsItForEachChipInThePlannedScratchpad) {
  struct Chip {
    int architecture, multiprocessors, sharedMemory;
  };
  for (const char *kind : {"attention_forward ", "attention_backward "}) {
    Descriptor descriptor(kind + std::string(GetParam()));
    AttentionMapping map = mapAttention(descriptor);
    for (const Chip &chip : {Chip{80, 108, 166912}, Chip{89, 142, 101376},
                             Chip{90, 132, 232448}, Chip{100, 148, 232448}}) {
      AttentionGraph graph(
          map, {library, chip.architecture, nullptr,
                getProperties(chip.architecture, chip.multiprocessors,
                              chip.sharedMemory)});
      // The plugin itself takes 256 bytes to align the rest.
      EXPECT_LE(graph.getWorkspaceBytes() + 256, getPlanned(map))
          << kind << GetParam() << " for sm_" << chip.architecture;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudnnTest,
    testing::Values(
        // GPT-2 small with q, k and v in one tensor of the projection.
        "q=8x12x1024x64 k=8x12x1024x64 v=8x12x1024x64 scale=0.125 causal=1 "
        "types=bf16 qs=2359296x64x2304x1 ks=2359296x64x2304x1 "
        "vs=2359296x64x2304x1 os=786432x64x768x1",
        "q=1x12x1024x64 k=1x12x1024x64 v=1x12x1024x64 scale=0.125 causal=1 "
        "types=f16",
        "q=2x3x37x24 k=2x3x51x24 v=2x3x51x40 scale=0.3 causal=0 types=bf16",
        "q=2x2x16x8 k=2x2x16x8 v=2x2x16x8 scale=1 causal=1 types=bf16",
        "q=1x4x2048x128 k=1x4x2048x128 v=1x4x2048x128 scale=0.1 causal=0 "
        "types=bf16"));

} // namespace
