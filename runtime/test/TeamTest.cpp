//===- TeamTest.cpp - Threads that compute kernels together ---------------===//
#include "exec/Team.h"
#include "cpu/DivideKernel.h"
#include "cpu/LibraryKernel.h"
#include "cpu/PartClaims.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"
#include "kernel/Part.h"
#include "pprt/pprt.h"
#include "support/Error.h"
#include "support/Thread.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

using namespace pp::runtime;

namespace {

TEST(Team, RunsEveryPartOnce) {
  for (unsigned size : {1u, 2u, 3u, 8u}) {
    Team team(size, "test");
    std::vector<int> runs(size);
    for (int i = 0; i < 100; ++i)
      team.run([&](unsigned part) {
        EXPECT_EQ(currentPart().index, part);
        EXPECT_EQ(currentPart().count, size);
        ++runs[part];
      });
    EXPECT_EQ(runs, std::vector<int>(size, 100));
    EXPECT_EQ(currentPart().count, 1u);
  }
}

/// In each round a thread adds up what all wrote in the round before.
static void addUpInRounds(unsigned spins) {
  constexpr unsigned size = 4, rounds = 200;
  Team team(size, "test", /*cores=*/{}, spins);
  std::array<std::array<uint64_t, size>, 2> values{};
  values[0].fill(1);
  team.run([&](unsigned part) {
    pp_phase_arguments arguments{};
    arguments.team = &team;
    for (unsigned round = 0; round < rounds; ++round) {
      const auto &from = values[round % 2];
      uint64_t sum = std::accumulate(from.begin(), from.end(), uint64_t{0});
      values[(round + 1) % 2][part] = sum % 1000003;
      pp_join_parts(&arguments);
    }
  });
  uint64_t expected = 1;
  for (unsigned round = 0; round < rounds; ++round)
    expected = expected * size % 1000003;
  for (uint64_t value : values[rounds % 2])
    EXPECT_EQ(value, expected);
}

TEST(Team, SeesWhatOthersWroteBeforeTheyMet) {
  for (unsigned spins : {0u, 20u, 10'000u})
    addUpInRounds(spins);
}

TEST(Team, HandsOverTheErrorOfAnyThread) {
  Team team(3, "test");
  for (unsigned failing = 0; failing < 3; ++failing) {
    team.run([&](unsigned part) {
      if (part == failing)
        keepKernelError("thread " + std::to_string(part));
    });
    EXPECT_EQ(takeKernelError(), "thread " + std::to_string(failing));
  }
  team.run([](unsigned) {});
  EXPECT_EQ(takeKernelError(), "");
}

TEST(Team, EndsWhereAThreadDoesNotStart) {
  failThreadStart(2);
  try {
    Team team(4, "rank 7");
    FAIL();
  } catch (const Error &e) {
    EXPECT_EQ(e.getKind(), ErrorKind::IO);
    EXPECT_NE(std::string(e.what()).find("rank 7, thread 2"), std::string::npos)
        << e.what();
  }
  failThreadStart(0);
}

struct Divided {
  const char *descriptor;
  std::vector<size_t> floats; // of each tensor
};

void PrintTo(const Divided &divided, std::ostream *out) {
  *out << divided.descriptor;
}

class DividedTest : public ::testing::TestWithParam<Divided> {};

/// The tensors after a run in `threads` threads, which start from the same
/// numbers.
std::vector<std::vector<float>> runIn(unsigned threads,
                                      const std::string &descriptor,
                                      const std::vector<size_t> &floats) {
  setKernelThreads(1);
  std::string error;
  auto kernel = LibraryKernel::create(descriptor, error);
  EXPECT_TRUE(kernel) << error;
  std::minstd_rand random;
  const bool hasShorts = descriptor.find("bf16") != std::string::npos;
  std::vector<std::vector<float>> tensors;
  std::vector<void *> pointers;
  for (size_t count : floats) {
    tensors.emplace_back(count);
    for (float &value : tensors.back()) {
      value = static_cast<float>(random()) /
                  static_cast<float>(std::minstd_rand::max()) -
              0.5f;
      // As bf16 such a number is a 0 and itself.
      if (hasShorts)
        value = std::round(value * 128) / 128;
    }
    pointers.push_back(tensors.back().data());
  }
  if (!kernel)
    return tensors;
  constexpr size_t line = 64;
  std::vector<char> scratchpad(kernel->scratchpadBytes() + line);
  auto start = reinterpret_cast<uintptr_t>(scratchpad.data());
  void *aligned = scratchpad.data() + (line - start % line);
  Team team(threads, "test");
  team.run([&](unsigned) {
    pp_execute_kernel(kernel.get(), pointers.data(), aligned);
  });
  EXPECT_EQ(takeKernelError(), "");
  return tensors;
}

/// A convolution of bf16 applies its activation where it has code for that. The
/// gradient of one image with windows of 1 is divided where it is a product
/// (ConvPixelProduct.h), and those of some weights are where they are computed
/// pixel by pixel (ConvGradientPixels.h).
static bool canRun(const std::string &descriptor) {
  if (descriptor.starts_with("conv_backward_data src=1x544x"))
    return hasAvx512();
  if (descriptor.starts_with("conv_backward_weights src=2x20x9x9") ||
      descriptor.starts_with("conv_backward_weights src=2x48x9x9"))
    return TiledProduct::isPossible() && !hasAvx512();
  return descriptor.find("activation=") == std::string::npos ||
         descriptor.find("bf16") == std::string::npos || isFused(descriptor);
}

TEST_P(DividedTest, HasTheBitsOfTheWhole) {
  const auto &[descriptor, floats] = GetParam();
  const std::string text = descriptor;
  if (!canRun(text))
    GTEST_SKIP() << "this processor has no such kernel";
  auto expected = runIn(1, descriptor, floats);
  // A kernel without parts is run once.
  EXPECT_EQ(runIn(3, descriptor, floats), expected);
  for (unsigned parts : {2u, 3u}) {
    std::string divided = divideKernel(descriptor, parts, parts);
    ASSERT_EQ(divided, text + " parts=" + std::to_string(parts));
    for (unsigned threads : {1u, 2u, 4u})
      EXPECT_EQ(runIn(threads, divided, floats), expected)
          << parts << " parts in " << threads << " threads";
  }
}

TEST_P(DividedTest, HasTheBitsOfTheWholeInMoreParts) {
  const auto &[descriptor, floats] = GetParam();
  if (!canRun(descriptor))
    GTEST_SKIP() << "this processor has no such kernel";
  setKernelThreads(1);
  std::string divided = divideKernel(descriptor, /*threads=*/2, /*parts=*/3);
  ASSERT_EQ(divided, std::string(descriptor) + " parts=3 threads=2");
  auto expected = runIn(1, descriptor, floats);
  for (unsigned threads : {1u, 2u, 3u})
    EXPECT_EQ(runIn(threads, divided, floats), expected)
        << "in " << threads << " threads";
}

/// Rows of a gradient of one image are sums of several rows of dY: strides,
/// strides of a single place, few pixels for many weights; and a single place.
TEST(Divided, LeavesOneImageWholeWhereItsRowsMeet) {
  setKernelThreads(1);
  for (const auto &[keys, floats] :
       {Divided{"conv_backward_data src=1x32x9x9 weights=32x32x3x3 "
                "dst=1x32x5x5 strides=2x2 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 types=bf16xbf16xbf16 layout=channels_last",
                {400, 4608, 1296}},
        Divided{"conv_backward_data src=1x32x7x8 weights=32x32x1x1 "
                "dst=1x32x4x4 strides=2x2 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 types=bf16xbf16xbf16 "
                "layout=channels_last",
                {256, 512, 896}},
        Divided{"conv_backward_data src=1x128x4x2 weights=128x128x3x3 "
                "dst=1x128x4x2 strides=1x1 dilations=1x1 pad_lo=1x1 "
                "pad_hi=1x1 groups=1 types=bf16xbf16xbf16 "
                "layout=channels_last",
                {512, 73728, 512}},
        Divided{"conv_backward_data src=1x32x8x8 weights=32x32x1x1 "
                "dst=1x32x8x8 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 types=bf16xbf16xbf16 "
                "layout=channels_last",
                {1024, 512, 1024}},
        Divided{"conv_forward src=1x512x14x14 weights=512x512x1x1 "
                "dst=1x512x14x14 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 bias=0 layout=blocked16",
                {100352, 262144, 100352}},
        Divided{"conv_forward src=1x32x19x15 weights=64x32x3x3 dst=1x64x19x15 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=0 layout=blocked16 algorithm=winograd2",
                {9120, 18432, 18240}},
        Divided{"conv_backward_data src=1x32x12x4 weights=48x32x3x3 "
                "dst=1x48x12x4 strides=1x1 dilations=1x1 pad_lo=1x1 "
                "pad_hi=1x1 groups=1 layout=channels_last algorithm=winograd2",
                {2304, 13824, 1536}},
        Divided{"conv_backward_data src=1x32x12x4 weights=48x32x3x3 "
                "dst=1x48x12x4 strides=1x1 dilations=1x1 pad_lo=1x1 "
                "pad_hi=1x1 groups=1 types=bf16xbf16xbf16 "
                "layout=channels_last algorithm=winograd2_bf16",
                {1152, 6912, 768}}}) {
    uint64_t bytes = getPackedBytes(keys);
    for (bool isPacked : {false, true}) {
      std::string text = keys;
      std::vector<size_t> sizes = floats;
      if (isPacked && bytes != 0) {
        text += " packed=" + std::to_string(bytes);
        sizes[1] = bytes / sizeof(float);
      }
      auto expected = runIn(1, text, sizes);
      for (unsigned threads : {2u, 3u})
        EXPECT_EQ(runIn(threads, divideKernel(text, threads), sizes), expected)
            << text << " in " << threads << " threads";
    }
  }
}

/// Those that try a kernel out would write beyond what it does not name.
TEST_P(DividedTest, DescribesItsTensors) {
  const auto &[descriptor, floats] = GetParam();
  if (!canRun(descriptor))
    GTEST_SKIP() << "this processor has no such kernel";
  std::string error;
  auto kernel = LibraryKernel::create(descriptor, error);
  ASSERT_TRUE(kernel) << error;
  const std::vector<KernelTensor> described = kernel->describeTensors();
  ASSERT_EQ(described.size(), floats.size());
  ASSERT_EQ(described.size(), kernel->tensorCount());
  for (size_t i = 0; i < floats.size(); ++i)
    EXPECT_EQ(alignUp(described[i].bytes), alignUp(floats[i] * sizeof(float)))
        << "tensor " << i;
}

/// Two halves would add up in another order than the whole.
TEST(Divided, SharesInSmallerParts) {
  if (!hasAvx512())
    GTEST_SKIP() << "this processor has no such kernel";
  setKernelThreads(1);
  const std::string text =
      "conv_forward src=1x1024x14x14 weights=512x1024x1x1 dst=1x512x14x14 "
      "strides=1x1 dilations=1x1 pad_lo=0x0 pad_hi=0x0 groups=1 bias=0 "
      "layout=channels_last";
  for (unsigned threads : {2u, 3u})
    EXPECT_NE(divideKernel(text, threads), text);
}

/// Samples, outputs where there are too few, and rows of one image: few pixels
/// for many weights.
TEST(Divided, SharesConvolutionsInMatrixTiles) {
  if (!hasMatrixTiles())
    GTEST_SKIP() << "this processor has no such kernel";
  setKernelThreads(1);
  for (const auto &[keys, floats] :
       {Divided{"conv_forward src=2x512x4x4 weights=256x512x3x3 dst=2x256x4x4 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1 types=bf16xbf16xbf16 layout=channels_last",
                {8192, 589824, 256, 4096}},
        Divided{"conv_forward src=1x512x9x8 weights=256x512x3x3 dst=1x256x5x4 "
                "strides=2x2 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1 activation=relu types=bf16xbf16xbf16 "
                "layout=channels_last",
                {18432, 589824, 256, 2560}}}) {
    const std::string text = keys;
    const auto expected = runIn(1, text, floats);
    for (unsigned parts : {2u, 3u}) {
      const std::string divided = divideKernel(text, parts, parts);
      ASSERT_EQ(divided, text + " parts=" + std::to_string(parts));
      EXPECT_EQ(runIn(parts, divided, floats), expected) << divided;
    }
    // Weights in tiles lie outputs after outputs, as parts of them expect.
    std::string alone = text.substr(0, text.find("bias=1")) + "bias=0 " +
                        text.substr(text.find("types="));
    const uint64_t bytes = getPackedBytes(alone);
    alone += " packed=" + std::to_string(bytes);
    const std::vector<size_t> sizes{floats[0], bytes / sizeof(float),
                                    floats[3]};
    for (unsigned parts : {2u, 3u})
      EXPECT_EQ(runIn(parts, divideKernel(alone, parts, parts), sizes),
                runIn(1, alone, sizes))
          << alone << " in " << parts << " parts";
  }
}

/// A part whose numbers have those of others between them, and which is
/// widened: other threads write there at the same time. What is not a number
/// would come back with other bits.
TEST(Divided, LeavesWhatOtherPartsWriteBetweenItsNumbers) {
  setKernelThreads(1);
  std::string error;
  auto kernel = LibraryKernel::create(
      "conv_forward src=2x16x5x5 weights=48x16x3x3 dst=2x48x5x5 strides=1x1 "
      "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 types=f16xf16xf16 "
      "parts=3",
      error);
  ASSERT_TRUE(kernel) << error;
  constexpr size_t image = 25, outputs = 48, part = 16;
  constexpr uint16_t signaling = 0x7d01, one = 0x3c00;
  std::vector<uint16_t> x(2 * 16 * image, one), weights(outputs * 16 * 9, one),
      y(2 * outputs * image, signaling);
  void *tensors[] = {x.data(), weights.data(), y.data()};
  std::vector<char> scratchpad(kernel->scratchpadBytes() + 64);
  void *aligned = scratchpad.data() + 64 -
                  reinterpret_cast<uintptr_t>(scratchpad.data()) % 64;
  Team team(3, "test");
  team.run([&](unsigned index) {
    FixedParts own;
    if (index == 1)
      kernel->execute(tensors, aligned);
  });
  EXPECT_EQ(takeKernelError(), "");
  for (size_t i = 0; i < y.size(); ++i)
    ASSERT_EQ(y[i] != signaling, i / image % outputs / part == 1) << i;
}

TEST(CheckFinite, FindsANumberInAnyPart) {
  constexpr size_t count = 100'003;
  const std::string whole = "check_finite count=" + std::to_string(count);
  const std::string divided = divideKernel(whole, /*threads=*/2);
  EXPECT_EQ(divided, whole + " parts=8 threads=2");
  // Threads are not worth it.
  EXPECT_EQ(divideKernel("check_finite count=1", 2), "check_finite count=1");
  std::string error;
  auto kernel = LibraryKernel::create(divided, error);
  ASSERT_TRUE(kernel) << error;
  Team team(2, "test");
  auto find = [&](std::vector<float> &values) {
    float flag = 0;
    void *tensors[] = {values.data(), &flag};
    team.run([&](unsigned) { kernel->execute(tensors, nullptr); });
    return flag;
  };
  std::vector<float> values(count, 3);
  EXPECT_EQ(find(values), 0);
  for (size_t at : {0, 4100, 12499, 12500, 50001, 99999, 100002})
    for (float number : {HUGE_VALF, -HUGE_VALF, NAN}) {
      const float before = std::exchange(values[at], number);
      EXPECT_EQ(find(values), 1) << number << " at " << at;
      values[at] = before;
    }
  EXPECT_EQ(find(values), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, DividedTest,
    ::testing::Values(
        Divided{"matmul a=200x64 b=64x48 c=200x48", {12800, 3072, 9600}},
        // The gradient of weights, which is added to.
        Divided{"matmul a=96x128 as=1x96 b=128x160 c=96x160 accumulate=1",
                {12288, 20480, 15360}},
        // A larger one, for which oneDNN has code that wants dense factors.
        Divided{"matmul a=768x512 as=1x768 b=512x768 c=768x768",
                {393216, 393216, 589824}},
        Divided{"matmul a=768x512 as=1x768 b=512x768 c=768x768 accumulate=1",
                {393216, 393216, 589824}},
        // Of bf16 in pairs; and one of which only parts have whole blocks.
        Divided{"matmul a=96x128 as=1x96 b=128x160 c=96x160 accumulate=1 "
                "types=bf16xbf16xf32",
                {6144, 10240, 15360}},
        Divided{"matmul a=104x128 as=1x104 b=128x160 c=104x160 accumulate=1 "
                "types=bf16xbf16xf32",
                {6656, 10240, 16640}},
        // Of bf16 in tiles: parts of columns, and of rows, share a factor.
        Divided{"matmul a=96x320 b=320x1300 c=96x1300 "
                "types=bf16xbf16xbf16",
                {15360, 208000, 62400}},
        Divided{"matmul a=1300x96 as=1x1300 b=96x200 c=1300x200 "
                "types=bf16xbf16xf32",
                {62400, 9600, 260000}},
        Divided{"matmul a=1300x160 b=160x200 c=1300x200",
                {208000, 32000, 260000}},
        // Few rows, many columns.
        Divided{"matmul a=1x64 b=64x256 c=1x256", {64, 16384, 256}},
        // Matrices of several heads, one factor shared.
        Divided{"matmul a=6x20x8 b=1x8x20 c=6x20x20", {960, 160, 2400}},
        Divided{"conv_forward src=6x16x9x9 weights=32x16x3x3 dst=6x32x9x9 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1",
                {7776, 4608, 32, 15552}},
        // A single sample: output channels.
        Divided{"conv_forward src=1x16x9x9 weights=64x16x3x3 dst=1x64x9x9 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1",
                {1296, 9216, 64, 5184}},
        Divided{"conv_forward src=1x16x9x9 weights=64x16x3x3 dst=1x64x9x9 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=0 layout=channels_last",
                {1296, 9216, 5184}},
        Divided{"conv_forward src=1x16x9x9 weights=64x16x3x3 dst=1x64x9x9 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1 layout=blocked16 activation=relu",
                {1296, 9216, 64, 5184}},
        Divided{"conv_forward src=6x16x9x9 weights=32x16x3x3 dst=6x32x9x9 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1 activation=clip low=-0.25 high=0.5",
                {7776, 4608, 32, 15552}},
        // With a residual.
        Divided{"conv_forward src=6x16x9x9 weights=32x16x1x1 dst=6x32x9x9 "
                "strides=1x1 dilations=1x1 pad_lo=0x0 pad_hi=0x0 groups=1 "
                "bias=1 residual=1 layout=blocked16 activation=relu",
                {7776, 512, 32, 15552, 15552}},
        Divided{"conv_forward src=1x16x9x9 weights=64x16x1x1 dst=1x64x9x9 "
                "strides=1x1 dilations=1x1 pad_lo=0x0 pad_hi=0x0 groups=1 "
                "bias=0 residual=1 layout=blocked16",
                {1296, 1024, 5184, 5184}},
        Divided{"conv_forward src=1x512x14x14 weights=512x512x1x1 "
                "dst=1x512x14x14 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 bias=1 residual=1 layout=blocked16 "
                "activation=relu",
                {100352, 262144, 512, 100352, 100352}},
        Divided{"conv_forward src=1x32x9x6 weights=64x32x3x3 dst=1x64x9x6 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1 residual=1 layout=channels_last algorithm=winograd4",
                {1728, 18432, 64, 3456, 3456}},
        // With a residual that follows some pixels at a time, and of one image
        // that parts share.
        Divided{"conv_forward src=1x64x33x31 weights=128x64x1x1 "
                "dst=1x128x33x31 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 bias=1 residual=1 layout=channels_last "
                "activation=relu",
                {65472, 8192, 128, 130944, 130944}},
        Divided{"conv_forward src=3x64x33x31 weights=128x64x1x1 "
                "dst=3x128x33x31 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 bias=0 residual=1 layout=channels_last",
                {196416, 8192, 392832, 392832}},
        // Few pixels for large weights: outputs.
        Divided{"conv_forward src=1x512x7x7 weights=544x512x1x1 "
                "dst=1x544x7x7 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 bias=1 residual=1 layout=channels_last "
                "activation=relu",
                {25088, 278528, 544, 26656, 26656}},
        Divided{"conv_forward src=3x512x8x7 weights=544x512x1x1 "
                "dst=3x544x4x4 strides=2x2 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 bias=0 layout=channels_last",
                {86016, 278528, 26112}},
        // The gradient of the image, in blocks, too.
        Divided{"conv_backward_data src=1x544x7x7 weights=512x544x1x1 "
                "dst=1x512x7x7 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 layout=blocked16",
                {25088, 278528, 26656}},
        // A single sample with channels last: rows, with more and less padding.
        Divided{"conv_forward src=1x16x9x9 weights=24x16x3x3 dst=1x24x5x9 "
                "strides=2x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=0 layout=channels_last",
                {1296, 3456, 1080}},
        // The same of each channel alone, with a dilation.
        Divided{"conv_forward src=1x16x12x9 weights=16x1x3x3 dst=1x16x12x9 "
                "strides=1x1 dilations=2x1 pad_lo=2x1 pad_hi=2x1 groups=16 "
                "bias=0 layout=channels_last",
                {1728, 144, 1728}},
        // There are channels enough, but rows are shared where they lie
        // together.
        Divided{"conv_forward src=1x96x13x12 weights=96x1x3x3 dst=1x96x6x12 "
                "strides=2x1 dilations=1x1 pad_lo=0x1 pad_hi=0x1 groups=96 "
                "bias=0 layout=channels_last",
                {14976, 864, 6912}},
        Divided{"conv_backward_data src=1x96x3x12x6 weights=96x1x3x3x3 "
                "dst=1x96x3x12x6 strides=1x1x1 dilations=1x1x1 "
                "pad_lo=1x1x1 pad_hi=1x1x1 groups=96 layout=channels_last",
                {20736, 2592, 20736}},
        // So many outputs at a time as parts may have.
        Divided{"conv_forward src=1x512x14x14 weights=512x512x1x1 "
                "dst=1x512x14x14 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1 bias=1 layout=blocked16 activation=relu",
                {100352, 262144, 512, 100352}},
        // In tiles that parts of one image share.
        Divided{"conv_backward_data src=1x32x19x15 weights=64x32x3x3 "
                "dst=1x64x19x15 strides=1x1 dilations=1x1 pad_lo=1x1 "
                "pad_hi=1x1 groups=1 layout=channels_last "
                "algorithm=winograd2",
                {18240, 18432, 9120}},
        // In tiles: output channels, rows of whole tiles, samples.
        Divided{"conv_forward src=1x32x7x6 weights=64x32x3x3 dst=1x64x7x6 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1 layout=blocked16 activation=relu algorithm=winograd2",
                {1344, 18432, 64, 2688}},
        Divided{"conv_forward src=1x32x9x6 weights=64x32x3x3 dst=1x64x9x6 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=0 layout=channels_last algorithm=winograd2",
                {1728, 18432, 3456}},
        Divided{"conv_forward src=1x32x13x6 weights=64x32x3x3 dst=1x64x13x6 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=0 layout=channels_last algorithm=winograd4",
                {2496, 18432, 4992}},
        Divided{"conv_backward_weights src=3x32x9x6 weights=64x32x3x3 "
                "dst=3x64x9x6 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 layout=channels_last algorithm=winograd4",
                {5184, 10368, 18432}},
        Divided{"conv_backward_weights src=1x32x9x6 weights=64x32x3x3 "
                "dst=1x64x9x6 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 layout=blocked16 algorithm=winograd2",
                {1728, 3456, 18432}},
        Divided{"conv_backward_data src=3x32x5x4 weights=48x32x3x3 "
                "dst=3x48x5x4 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 algorithm=winograd2",
                {2880, 13824, 1920}},
        Divided{"conv_backward_data src=3x32x5x4 weights=48x32x3x3 "
                "dst=3x48x5x4 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 types=bf16xbf16xbf16 algorithm=winograd2_bf16",
                {1440, 6912, 960}},
        Divided{"conv_backward_weights src=3x32x9x6 weights=64x32x3x3 "
                "dst=3x64x9x6 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 types=bf16xf32xbf16 layout=channels_last "
                "algorithm=winograd2_bf16",
                {2592, 5184, 18432}},
        // Few pixels of bf16: output channels, samples, rows.
        Divided{"conv_forward src=1x256x7x6 weights=512x256x3x3 dst=1x512x7x6 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=1 layout=blocked16 activation=relu "
                "types=bf16xbf16xbf16",
                {5376, 589824, 512, 10752}},
        Divided{"conv_forward src=3x256x7x4 weights=512x256x3x3 dst=3x512x4x2 "
                "strides=2x2 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=0 layout=blocked16 types=bf16xbf16xbf16",
                {10752, 589824, 6144}},
        Divided{"conv_forward src=1x256x9x4 weights=512x256x3x3 dst=1x512x9x4 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
                "bias=0 layout=channels_last types=bf16xbf16xbf16",
                {4608, 589824, 9216}},
        Divided{"conv_backward_weights src=3x48x9x9 weights=96x48x1x1 "
                "dst=3x96x5x5 strides=2x2 dilations=1x1 pad_lo=0x0 pad_hi=0x0 "
                "groups=1 layout=blocked16 types=bf16xf32xbf16 accumulate=1",
                {5832, 3600, 4608}},
        Divided{"conv_backward_data src=6x16x9x9 weights=32x16x3x3 "
                "dst=6x32x9x9 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1",
                {15552, 4608, 7776}},
        // Pixel by pixel: outputs that fill no block, and groups.
        Divided{"conv_backward_weights src=2x20x9x9 weights=28x20x3x3 "
                "dst=2x28x9x9 strides=1x1 dilations=2x2 pad_lo=2x2 pad_hi=2x2 "
                "groups=1 accumulate=1",
                {3240, 4536, 5040}},
        Divided{"conv_backward_weights src=2x48x9x9 weights=48x12x3x3 "
                "dst=2x48x9x9 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=4 layout=blocked8",
                {7776, 7776, 5184}},
        Divided{"conv_backward_weights src=4x16x9x9 weights=64x16x3x3 "
                "dst=4x64x9x9 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1",
                {5184, 20736, 9216}},
        Divided{"conv_backward_weights src=4x16x9x9 weights=64x16x3x3 "
                "dst=4x64x9x9 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 layout=channels_last",
                {5184, 20736, 9216}},
        // Some output channels at a time.
        Divided{"conv_backward_weights src=2x160x12x12 weights=192x160x3x3 "
                "dst=2x192x12x12 strides=1x1 dilations=1x1 pad_lo=1x1 "
                "pad_hi=1x1 groups=1 layout=channels_last",
                {46080, 55296, 276480}},
        // A product, of which parts are too small to be one.
        Divided{"conv_backward_weights src=2x160x4x4 weights=192x160x3x3 "
                "dst=2x192x4x4 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 layout=channels_last",
                {5120, 6144, 276480}},
        Divided{"conv_backward_weights src=2x160x4x4 weights=192x160x3x3 "
                "dst=2x192x4x4 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 layout=blocked16",
                {5120, 6144, 276480}},
        Divided{"conv_backward_weights src=2x160x4x4 weights=192x160x3x3 "
                "dst=2x192x4x4 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1",
                {5120, 6144, 276480}},
        // Gradients that are added to.
        Divided{"conv_backward_weights src=2x160x4x4 weights=192x160x3x3 "
                "dst=2x192x4x4 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 accumulate=1",
                {5120, 6144, 276480}},
        Divided{"conv_backward_weights src=4x16x9x9 weights=64x16x3x3 "
                "dst=4x64x9x9 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 layout=channels_last accumulate=1",
                {5184, 20736, 9216}},
        Divided{"conv_backward_weights src=3x32x9x6 weights=64x32x3x3 "
                "dst=3x64x9x6 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "groups=1 layout=channels_last algorithm=winograd4 "
                "accumulate=1",
                {5184, 10368, 18432}},
        Divided{"scatter_add rows=40 count=90 width=100 accumulate=1",
                {180, 9000, 4000}},
        Divided{"scatter_add rows=40 count=90 width=100", {180, 9000, 4000}},
        // A sum over all pixels, as a product.
        Divided{"conv_backward_weights src=3x40x9x9 weights=96x40x1x1 "
                "dst=3x96x9x9 strides=1x1 dilations=1x1 pad_lo=0x0 pad_hi=0x0 "
                "groups=1 layout=channels_last",
                {9720, 23328, 3840}},
        Divided{"max_pool_forward src=6x16x8x8 dst=6x16x4x4 kernel=2x2 "
                "strides=2x2 dilations=1x1 pad_lo=0x0 pad_hi=0x0",
                {6144, 1536}},
        // Of one image, channels.
        Divided{"max_pool_forward src=1x48x8x8 dst=1x48x4x4 kernel=2x2 "
                "strides=2x2 dilations=1x1 pad_lo=0x0 pad_hi=0x0 "
                "layout=blocked16",
                {3072, 768}},
        Divided{"max_pool_backward src=1x48x8x8 dst=1x48x4x4 kernel=2x2 "
                "strides=2x2 dilations=1x1 pad_lo=0x0 pad_hi=0x0 "
                "layout=blocked16",
                {3072, 768, 3072}},
        Divided{"avg_pool_forward src=1x48x8x8 dst=1x48x4x4 kernel=2x2 "
                "strides=2x2 dilations=1x1 pad_lo=0x0 pad_hi=0x0 "
                "include_pad=0",
                {3072, 768}},
        // Or rows, of which some see padding.
        Divided{"max_pool_forward src=1x24x9x7 dst=1x24x5x4 kernel=3x3 "
                "strides=2x2 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "layout=channels_last",
                {1512, 480}},
        Divided{"max_pool_forward src=1x3x11x7 dst=1x3x9x7 kernel=3x3 "
                "strides=1x1 dilations=2x1 pad_lo=1x1 pad_hi=1x1 "
                "layout=channels_last",
                {231, 189}},
        Divided{"avg_pool_forward src=1x20x9x7 dst=1x20x9x7 kernel=3x3 "
                "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
                "include_pad=0 layout=channels_last",
                {1260, 1260}},
        Divided{"avg_pool_forward src=1x20x8x7 dst=1x20x4x3 kernel=3x3 "
                "strides=2x2 dilations=1x1 pad_lo=1x0 pad_hi=0x0 "
                "include_pad=1 layout=channels_last",
                {1120, 240}},
        Divided{"max_pool_backward src=6x16x8x8 dst=6x16x4x4 kernel=2x2 "
                "strides=2x2 dilations=1x1 pad_lo=0x0 pad_hi=0x0",
                {6144, 1536, 6144}},
        Divided{"avg_pool_backward src=6x16x8x8 dst=6x16x4x4 kernel=2x2 "
                "strides=2x2 dilations=1x1 pad_lo=0x0 pad_hi=0x0 "
                "include_pad=0",
                {1536, 6144}},
        Divided{"reorder src=4x16x5x5 from=plain to=blocked16", {1600, 1600}},
        // Of one image, rows, or blocks of channels; the last has one of 8.
        Divided{"reorder src=1x3x7x5 from=plain to=channels_last", {105, 105}},
        Divided{"reorder src=1x40x5x4 from=channels_last to=plain", {800, 800}},
        Divided{"reorder src=1x48x5x4 from=plain to=blocked16", {960, 960}},
        Divided{"reorder src=1x40x5x4 from=blocked8 to=channels_last",
                {800, 800}},
        Divided{"attention_forward q=2x3x12x8 k=2x3x12x8 v=2x3x12x8 scale=0.5 "
                "causal=1 qs=288x96x8x1 ks=288x96x8x1 vs=288x96x8x1 "
                "os=288x96x8x1",
                {576, 576, 576, 576, 72}},
        Divided{"attention_forward q=1x1x150x8 k=1x1x150x8 v=1x1x150x8 "
                "scale=0.5 causal=1",
                {1200, 1200, 1200, 1200, 150}}));

TEST(Divided, SharesThePackingOfWeights) {
  for (std::string keys : {"matmul a=8x64 b=64x384 c=8x384",
                           "matmul a=8x64 b=64x384 c=8x384 bs=1x64"}) {
    uint64_t bytes = getPackedBytes(keys);
    if (bytes == 0)
      continue; // not on this processor
    std::string pack = "pack_" + keys + " packed=" + std::to_string(bytes);
    std::vector<size_t> floats{64 * 384, bytes / sizeof(float)};
    auto expected = runIn(1, pack, floats);
    for (unsigned parts : {2u, 3u}) {
      ASSERT_NE(divideKernel(pack, parts, parts), "") << keys << parts;
      EXPECT_EQ(runIn(parts, pack + " parts=" + std::to_string(parts), floats),
                expected)
          << keys << parts;
    }
    // There are six panels.
    EXPECT_EQ(divideKernel(pack, 7, 7), "");
  }
}

/// There are two samples, and too little for the others.
TEST(Divided, HasFewerPartsThanThreadsWhereThereIsNotMore) {
  setKernelThreads(1);
  const std::string text =
      "conv_backward_data src=2x24x9x9 weights=16x24x3x3 dst=2x16x5x5 "
      "strides=2x2 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1";
  const std::vector<size_t> floats{800, 3456, 3888};
  const auto expected = runIn(1, text, floats);
  for (unsigned threads : {2u, 3u, 4u, 16u}) {
    const std::string divided = divideKernel(text, threads);
    ASSERT_EQ(divided, text + " parts=2");
    EXPECT_EQ(runIn(threads, divided, floats), expected) << threads;
  }
}

/// There is one sample. Of a gradient, pieces of channels are shared, also by
/// more threads than there are pieces.
TEST(Divided, SharesTheGradientOfOneImage) {
  setKernelThreads(1);
  const std::string keys =
      "conv_backward_data src=1x128x14x14 weights=80x128x5x5 dst=1x80x12x12 "
      "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
      "layout=blocked" +
      std::string(hasAvx512() ? "16" : "8");
  const uint64_t bytes = getPackedBytes(keys);
  ASSERT_NE(bytes, 0u);
  const std::string packed = keys + " packed=" + std::to_string(bytes);
  for (unsigned threads : {2u, 3u, 6u})
    for (const std::string &text : {keys, packed, "pack_" + packed})
      EXPECT_NE(divideKernel(text, threads, threads), "") << text;
}

/// Without AVX-512, a window of one place is a product of planes; elsewhere the
/// library decides what can be shared.
TEST(Divided, SharesSamplesOrPixelsOfPlanes) {
  if (hasAvx512())
    return;
  setKernelThreads(1);
  for (const auto &[text, floats] :
       {Divided{"conv_forward src=1x40x10x11 weights=37x40x1x1 dst=1x37x10x11 "
                "strides=1x1 dilations=1x1 pad_lo=0x0 pad_hi=0x0 groups=1 "
                "bias=1 residual=1 activation=relu",
                {4400, 1480, 37, 4070, 4070}},
        Divided{"conv_backward_data src=3x40x10x11 weights=37x40x1x1 "
                "dst=3x37x10x11 strides=1x1 dilations=1x1 pad_lo=0x0 "
                "pad_hi=0x0 groups=1",
                {12210, 1480, 13200}}}) {
    const auto expected = runIn(1, text, floats);
    for (unsigned parts : {2u, 3u, 5u}) {
      const std::string divided = divideKernel(text, parts, parts);
      ASSERT_NE(divided, "") << text << parts;
      EXPECT_EQ(runIn(parts, divided, floats), expected) << divided;
    }
  }
}

/// A part has the rows that its strides leave out, too: the gradient writes
/// zeros there.
TEST(Divided, SharesAnImageOfWhichStridesLeaveRowsOut) {
  setKernelThreads(1);
  const std::string rest =
      " src=1x64x14x12 weights=48x64x1x1 dst=1x48x7x6 strides=2x2 "
      "dilations=1x1 pad_lo=0x0 pad_hi=0x0 groups=1 layout=channels_last";
  for (const auto &[keys, floats] :
       {Divided{"conv_forward", {10752, 3072, 2016}},
        Divided{"conv_backward_data", {2016, 3072, 10752}}}) {
    const std::string text =
        keys + rest + (floats.back() == 2016 ? " bias=0" : "");
    const auto expected = runIn(1, text, floats);
    for (unsigned parts : {2u, 3u}) {
      const std::string divided = divideKernel(text, parts, parts);
      // With AVX-512, some of the library's sums depend on the rows.
      if (divided.empty() && hasAvx512())
        continue;
      ASSERT_EQ(divided, text + " parts=" + std::to_string(parts));
      EXPECT_EQ(runIn(parts, divided, floats), expected) << divided;
    }
  }
}

/// Groups, and outputs of which the last are no whole block.
TEST(Divided, SharesGroupsAndOutputsOfOneImage) {
  if (hasAvx512())
    GTEST_SKIP() << "this processor has larger blocks";
  setKernelThreads(1);
  const std::string rest = " strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 ";
  for (const std::string &keys :
       {"conv_forward src=1x96x14x14 weights=96x1x11x11 dst=1x96x6x6" + rest +
            "groups=96 bias=0 layout=blocked8",
        "conv_backward_weights src=1x128x7x7 weights=128x32x3x3 "
        "dst=1x128x7x7" +
            rest + "groups=4 accumulate=1 layout=blocked8",
        "conv_forward src=1x32x14x14 weights=50x32x5x5 dst=1x50x12x12" + rest +
            "groups=1 bias=0"})
    for (unsigned threads : {2u, 3u})
      EXPECT_NE(divideKernel(keys, threads, threads), "") << keys;
}

TEST(Divided, HasSeveralPartsForEachThreadWhereTheyCostNothing) {
  setKernelThreads(1);
  const std::string heads = "attention_forward q=2x4x12x8 k=2x4x12x8 "
                            "v=2x4x12x8 scale=0.5 causal=1 qs=384x96x8x1 "
                            "ks=384x96x8x1 vs=384x96x8x1 os=384x96x8x1";
  EXPECT_EQ(divideKernel(heads, 2), heads + " parts=8 threads=2");
  EXPECT_EQ(divideKernel(heads, 3), heads + " parts=6 threads=3");
  const std::string weights = "conv_backward_weights src=4x16x9x9 "
                              "weights=64x16x3x3 dst=4x64x9x9 strides=1x1 "
                              "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1";
  EXPECT_EQ(divideKernel(weights, 2), weights + " parts=2");
  EXPECT_EQ(divideKernel("nonsense", 2), "nonsense");
}

TEST(PartClaims, LetsFastThreadsTakeMore) {
  constexpr unsigned launches = 50;
  for (unsigned size : {2u, 3u})
    for (unsigned parts : {size, 4 * size, 4 * size + 1}) {
      Team team(size, "test");
      PartClaims claims(parts, size);
      std::vector<std::atomic<unsigned>> runs(parts), counts(size);
      std::atomic<unsigned> taken{0};
      team.run([&](unsigned index) {
        // All others together could take all parts before the first thread
        // begins.
        while (index != 0 && counts[0] == 0)
          std::this_thread::yield();
        for (unsigned launch = 0; launch < launches; ++launch)
          claims.runEach({index, size}, [&](unsigned part) {
            ++runs[part];
            if (launch > 0)
              return;
            ++counts[index];
            ++taken;
            // The first thread takes longer for one than all others.
            while (index == 0 && taken < parts)
              std::this_thread::yield();
          });
      });
      EXPECT_EQ(counts[0], 1u) << parts << " parts, " << size << " threads";
      for (const std::atomic<unsigned> &count : runs)
        EXPECT_EQ(count, launches);
    }
}

/// The next run of a kernel may read what the last one wrote, without a meeting
/// in between.
TEST(PartClaims, LeavesAThreadItsPartsWhereTheyAreFixed) {
  constexpr unsigned size = 2, parts = 8;
  Team team(size, "test");
  PartClaims claims(parts, size);
  std::vector<std::vector<unsigned>> taken(size);
  team.run([&](unsigned index) {
    FixedParts fixed;
    const Part own = currentPart();
    // Without the other thread, too, which may be late.
    if (index == 1)
      std::this_thread::yield();
    for (int run = 0; run < 2; ++run)
      claims.runEach(own, [&](unsigned part) { taken[index].push_back(part); });
  });
  EXPECT_EQ(taken[0], (std::vector<unsigned>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(taken[1], (std::vector<unsigned>{4, 5, 6, 7, 4, 5, 6, 7}));
  EXPECT_FALSE(currentPart().isFixed);
}

/// Two threads add several micro-batches, of more parts than threads, in a
/// kernel that has no way to add them at once.
TEST(Divided, AddsOneMicroBatchAfterTheOther) {
  setKernelThreads(1);
  const std::string text = "matmul a=256x40 as=1x256 b=40x256 c=256x256 "
                           "accumulate=1 parts=8 threads=2";
  std::string error;
  auto kernel = LibraryKernel::create(text, error);
  ASSERT_TRUE(kernel) << error;
  constexpr size_t runs = 5;
  std::minstd_rand random(1);
  auto make = [&](size_t count) {
    std::vector<float> result(count);
    for (float &number : result)
      number = static_cast<float>(random() % 2001) / 1000 - 1;
    return result;
  };
  std::vector<std::vector<float>> factors;
  for (size_t i = 0; i < 2 * runs; ++i)
    factors.push_back(make(40 * 256));
  std::vector<char> scratchpad(kernel->scratchpadBytes() + 64);
  void *aligned = scratchpad.data() + 64 -
                  reinterpret_cast<uintptr_t>(scratchpad.data()) % 64;
  auto sum = [&](unsigned threads) {
    std::vector<float> result(256 * 256, 1);
    std::array<std::array<void *, 3>, runs> tensors;
    std::array<void *const *, runs> all;
    for (size_t i = 0; i < runs; ++i) {
      tensors[i] = {factors[2 * i].data(), factors[2 * i + 1].data(),
                    result.data()};
      all[i] = tensors[i].data();
    }
    Team team(threads, "test");
    team.run([&](unsigned) { kernel->executeTogether(all, nullptr, aligned); });
    EXPECT_EQ(takeKernelError(), "");
    return result;
  };
  const std::vector<float> expected = sum(1);
  for (int round = 0; round < 20; ++round)
    ASSERT_EQ(sum(2), expected);
}

TEST(PartClaims, GivesAThreadThatIsAloneAllPartsInTheirOrder) {
  PartClaims claims(4, 2);
  std::vector<unsigned> order;
  claims.runEach({0, 1}, [&](unsigned part) { order.push_back(part); });
  EXPECT_EQ(order, (std::vector<unsigned>{0, 1, 2, 3}));
}

TEST(Divided, SaysWhatHasNoParts) {
  // Its statistics are sums over samples.
  EXPECT_EQ(divideKernel("batch_norm_forward src=4x8x4x4 epsilon=1e-5", 2, 2),
            "");
  // Too little.
  EXPECT_EQ(divideKernel("matmul a=8x8 b=8x8 c=8x8", 2, 2), "");
  EXPECT_EQ(divideKernel("nonsense", 2, 2), "");
  std::string error;
  EXPECT_FALSE(LibraryKernel::create(
      "batch_norm_forward src=4x8x4x4 epsilon=1e-5 parts=2", error));
  EXPECT_NE(error.find("parts: such a kernel has none"), std::string::npos)
      << error;
}

} // namespace
