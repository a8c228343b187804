//===- CudnnTest.cpp - The real cuDNN builds our graphs without a GPU -----===//
//
// Given the properties of a GPU that is not there, cuDNN chooses and compiles a
// kernel, and says what workspace it wants. Only its graph interface takes such
// properties: convolutions, for which the plugin uses the older one, are
// described a second time.
//
//===----------------------------------------------------------------------===//
#include "ConvGraph.h"
#include "Failure.h"
#include "SharedLibrary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <dlfcn.h>

using namespace pp::cuda;
using pp::runtime::Descriptor;

namespace {

struct Chip {
  int architecture, multiprocessors, sharedMemory;
};
constexpr Chip chips[] = {{80, 108, 166912},
                          {89, 142, 101376},
                          {90, 132, 232448},
                          {100, 148, 232448}};

std::string getProperties(const Chip &chip) {
  return R"({"maxGridSize":[2147483647,65535,65535],)"
         R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
         R"("multiProcessorCount":)" +
         std::to_string(chip.multiprocessors) +
         R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
         R"("maxSharedMemoryPerBlockOptin":)" +
         std::to_string(chip.sharedMemory) +
         R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
         R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
         R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"totalGlobalMem":85028896768,)"
         R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,)"
         R"("l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":)" +
         std::to_string(chip.architecture * 10) +
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
  AttentionTarget getTarget(const Chip &chip) const {
    return {library, chip.architecture, nullptr, getProperties(chip)};
  }

private:
  void *library = nullptr;
};

class AttentionTest : public CudnnTest {};
class ConvTest : public CudnnTest {};

TEST_P(AttentionTest, BuildsItForEachChipInThePlannedScratchpad) {
  for (const char *kind : {"attention_forward ", "attention_backward "}) {
    Descriptor descriptor(kind + std::string(GetParam()));
    AttentionMapping map = mapAttention(descriptor);
    for (const Chip &chip : chips) {
      AttentionGraph graph(map, getTarget(chip));
      // The plugin itself takes 256 bytes to align the rest.
      EXPECT_LE(graph.getWorkspaceBytes() + 256, getPlanned(map))
          << kind << GetParam() << " for sm_" << chip.architecture;
    }
  }
}

/// What the compiler plans beside the copies of widened factors.
uint64_t getPlanned(const ConvMapping &map) {
  constexpr uint64_t mebibyte = 1 << 20;
  auto isF32 = [](ElementType type) { return type == ElementType::F32; };
  bool isWide =
      isF32(map.srcType) || isF32(map.weightsType) || isF32(map.dstType);
  if (isF32(map.srcType) && isF32(map.dstType) && !map.allowsTf32)
    return 64 * mebibyte;
  uint64_t numbers = 0;
  for (const auto *dims : {&map.src, &map.weights, &map.dst}) {
    uint64_t count = 1;
    for (int dim : *dims)
      count *= dim;
    numbers += count;
  }
  return std::max(64 * mebibyte, numbers * (isWide ? 4 : 2) + 32 * mebibyte);
}

TEST_P(ConvTest, FirstDeterministicEngineFitsIntoThePlannedScratchpad) {
  for (const char *kind :
       {"conv_forward", "conv_backward_data", "conv_backward_weights"}) {
    for (const char *types : {"", "compute=tf32", "bf16", "f16"}) {
      std::string text = std::string(kind) + " " + GetParam() + " ",
                  type = types;
      bool isWeights = std::string(kind) == "conv_backward_weights";
      if (type == "bf16" || type == "f16")
        type = "types=" + type + "x" + (isWeights ? "f32" : type) + "x" + type;
      Descriptor descriptor(text + type);
      ConvMapping map = mapConv(descriptor);
      for (const Chip &chip : chips)
        EXPECT_LE(getConvWorkspaceBytes(kind, map, getTarget(chip)) + 256,
                  getPlanned(map))
            << text << type << " for sm_" << chip.architecture;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
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

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvTest,
    testing::Values(
        // ResNet-50: the first, one that needs most, and one with strides.
        "src=64x3x224x224 weights=64x3x7x7 dst=64x64x112x112 strides=2x2 "
        "dilations=1x1 pad_lo=3x3 pad_hi=3x3 groups=1",
        "src=64x64x56x56 weights=64x64x3x3 dst=64x64x56x56 strides=1x1 "
        "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1",
        "src=64x256x56x56 weights=512x256x1x1 dst=64x512x28x28 strides=2x2 "
        "dilations=1x1 pad_lo=0x0 pad_hi=0x0 groups=1",
        // Small, one-dimensional, depthwise, and three-dimensional in groups.
        "src=2x1x8x8 weights=8x1x3x3 dst=2x8x8x8 strides=1x1 dilations=1x1 "
        "pad_lo=1x1 pad_hi=1x1 groups=1",
        "src=2x3x11 weights=6x3x3 dst=2x6x9 strides=1 dilations=1 pad_lo=0 "
        "pad_hi=0 groups=1",
        "src=2x8x20x20 weights=8x1x3x3 dst=2x8x18x18 strides=1x1 "
        "dilations=2x2 pad_lo=1x1 pad_hi=1x1 groups=8",
        "src=2x4x7x8x9 weights=6x2x3x3x3 dst=2x6x4x4x5 strides=2x2x2 "
        "dilations=1x1x1 pad_lo=1x1x1 pad_hi=1x1x1 groups=2"));

} // namespace
