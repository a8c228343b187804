//===- DeviceKernelTest.cpp - The plugin's own kernels against oneDNN -----===//
#include "cuda/DeviceKernel.h"
#include "HostKernels.h"
#include "cpu/LibraryKernel.h"
#include "cuda/ConvMapping.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;
using pp::runtime::LibraryKernel;

static_assert(sizeof(hostkernels::PoolShape) == sizeof(pp::cuda::PoolShape));
static_assert(sizeof(hostkernels::BatchNormShape) ==
              sizeof(pp::cuda::BatchNormShape));

namespace {

using Values = std::vector<float>;

/// Values with many ties, so that the choice among equal maxima counts.
Values randomValues(size_t count, std::mt19937 &random) {
  Values values(count);
  for (float &value : values)
    value = float(int(random() % 9) - 4) / 4;
  return values;
}

/// Returns false where oneDNN has no kernel for the shapes.
bool runOnProcessor(const std::string &descriptor,
                    const std::vector<Values *> &tensors) {
  std::string error;
  pp::runtime::setKernelThreads(1);
  auto kernel = LibraryKernel::create(descriptor, error);
  if (!kernel) {
    EXPECT_NE(error.find("oneDNN refuses"), std::string::npos) << error;
    return false;
  }
  EXPECT_EQ(kernel->tensorCount(), tensors.size());
  std::vector<void *> pointers;
  for (Values *values : tensors)
    pointers.push_back(values->data());
  std::unique_ptr<void, decltype(&std::free)> scratchpad(
      std::aligned_alloc(64, kernel->scratchpadBytes() + 64), std::free);
  EXPECT_TRUE(kernel->execute(pointers.data(), scratchpad.get()));
  return true;
}

void expectNear(const Values &actual, const Values &expected,
                const std::string &what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 2e-5f * (1 + std::abs(expected[i])))
        << what << " at " << i;
}

hostkernels::PoolShape convert(const pp::cuda::PoolShape &shape) {
  hostkernels::PoolShape result;
  std::memcpy(&result, &shape, sizeof(result));
  return result;
}

struct RandomPool {
  std::string keys;
  size_t srcSize, dstSize;

  explicit RandomPool(std::mt19937 &random) {
    size_t spatial = random() % 3 + 1;
    int samples = random() % 2 + 1, channels = random() % 3 + 1;
    std::string src = std::to_string(samples) + "x" + std::to_string(channels);
    std::string dst = src, kernel, strides, dilations, low, high;
    srcSize = dstSize = size_t(samples) * channels;
    for (size_t i = 0; i < spatial; ++i) {
      int k = random() % 3 + 1, d = random() % 2 + 1, s = random() % 3 + 1;
      int reach = (k - 1) * d + 1;
      // A window never lies in the padding as a whole.
      int pl = d == 1 ? random() % k : 0, ph = d == 1 ? random() % k : 0;
      int in = reach + random() % 5;
      int out = (in + pl + ph - reach) / s + 1;
      srcSize *= in;
      dstSize *= out;
      auto add = [&](std::string &to, int value, bool first) {
        to += (first ? "" : "x") + std::to_string(value);
      };
      add(src, in, false);
      add(dst, out, false);
      add(kernel, k, i == 0);
      add(strides, s, i == 0);
      add(dilations, d, i == 0);
      add(low, pl, i == 0);
      add(high, ph, i == 0);
    }
    keys = " src=" + src + " dst=" + dst + " kernel=" + kernel +
           " strides=" + strides + " dilations=" + dilations +
           " pad_lo=" + low + " pad_hi=" + high;
  }
};

TEST(DeviceKernels, PoolsAgreeWithOneDnn) {
  std::mt19937 random(3);
  int compared = 0;
  for (int i = 0; i < 400; ++i) {
    RandomPool pool(random);
    bool isAverage = random() % 2;
    std::string keys =
        pool.keys +
        (isAverage ? " include_pad=" + std::to_string(random() % 2) : "");
    std::string kind = isAverage ? "avg_pool" : "max_pool";
    Values src = randomValues(pool.srcSize, random);
    Values diffDst = randomValues(pool.dstSize, random);
    Values dst(pool.dstSize), diffSrc(pool.srcSize);
    Values expectedDst = dst, expectedDiffSrc = diffSrc;
    std::string text = kind + "_forward" + keys;
    Descriptor descriptor(text);
    auto shape = convert(pp::cuda::readPool(descriptor, isAverage));
    descriptor.checkAllUsed();
    unsigned grid = (pool.dstSize + 31) / 32;
    hostkernels::launch(isAverage ? hostkernels::avg_pool_forward
                                  : hostkernels::max_pool_forward,
                        grid, 32, shape, src.data(), dst.data());
    if (runOnProcessor(text, {&src, &expectedDst})) {
      expectNear(dst, expectedDst, text);
      ++compared;
    }

    text = kind + "_backward" + keys;
    grid = (pool.srcSize + 31) / 32;
    if (isAverage) {
      hostkernels::launch(hostkernels::avg_pool_backward, grid, 32, shape,
                          diffDst.data(), diffSrc.data());
      if (!runOnProcessor(text, {&diffDst, &expectedDiffSrc}))
        continue;
    } else {
      hostkernels::launch(hostkernels::max_pool_backward, grid, 32, shape,
                          src.data(), diffDst.data(), diffSrc.data());
      Values byPlanes(pool.srcSize);
      hostkernels::launchTogether(hostkernels::max_pool_backward_planes,
                                  shape.channels, 4, shape, src.data(),
                                  diffDst.data(), byPlanes.data());
      ASSERT_EQ(byPlanes, diffSrc) << text;
      if (!runOnProcessor(text, {&src, &diffDst, &expectedDiffSrc}))
        continue;
    }
    expectNear(diffSrc, expectedDiffSrc, text);
    ++compared;
  }
  EXPECT_GT(compared, 600);
}

/// Both give a window with what is not a number that as its maximum, and leave
/// the others.
TEST(DeviceKernels, NoMaximumHidesWhatIsNoNumber) {
  std::mt19937 random(5);
  int compared = 0;
  for (int i = 0; i < 100; ++i) {
    RandomPool pool(random);
    std::string text = "max_pool_forward" + pool.keys;
    Values src = randomValues(pool.srcSize, random);
    src[random() % src.size()] = std::numeric_limits<float>::quiet_NaN();
    Values dst(pool.dstSize), expected = dst;
    Descriptor descriptor(text);
    auto shape = convert(pp::cuda::readPool(descriptor, /*isAverage=*/false));
    hostkernels::launch(hostkernels::max_pool_forward, (pool.dstSize + 31) / 32,
                        32, shape, src.data(), dst.data());
    if (!runOnProcessor(text, {&src, &expected}))
      continue;
    for (size_t j = 0; j < dst.size(); ++j) {
      ASSERT_EQ(std::isnan(dst[j]), std::isnan(expected[j])) << text << j;
      if (!std::isnan(dst[j]))
        ASSERT_EQ(dst[j], expected[j]) << text << j;
      compared += std::isnan(dst[j]);
    }
  }
  EXPECT_GT(compared, 30);
}

TEST(DeviceKernels, BatchNormalisationAgreesWithOneDnn) {
  std::mt19937 random(4);
  // The last one's rows are longer than a block.
  for (const char *dims : {"2x3", "4x2x5", "3x2x4x5", "2x2x3x2x7", "2x1x1x1",
                           "5x3x11x13", "3x2x17x16"}) {
    std::string keys = std::string(" src=") + dims + " epsilon=1e-05";
    std::string forward = "batch_norm_forward" + keys;
    Descriptor descriptor(forward);
    hostkernels::BatchNormShape shape;
    auto read = pp::cuda::readBatchNorm(descriptor);
    descriptor.checkAllUsed();
    std::memcpy(&shape, &read, sizeof(shape));
    size_t channels = shape.channels;
    size_t size = channels * shape.samples * shape.area;
    Values src = randomValues(size, random),
           diffDst = randomValues(size, random);
    Values scale = randomValues(channels, random);
    Values shift = randomValues(channels, random);
    Values dst(size), mean(channels), variance(channels);
    Values expectedDst = dst, expectedMean = mean, expectedVariance = variance;
    hostkernels::launchTogether(hostkernels::batch_norm_forward, channels, 256,
                                shape, src.data(), scale.data(), shift.data(),
                                dst.data(), mean.data(), variance.data());
    ASSERT_TRUE(runOnProcessor(forward, {&src, &scale, &shift, &expectedDst,
                                         &expectedMean, &expectedVariance}));
    expectNear(dst, expectedDst, forward + " dst");
    expectNear(mean, expectedMean, forward + " mean");
    expectNear(variance, expectedVariance, forward + " variance");

    std::string backward = "batch_norm_backward" + keys;
    Values diffSrc(size), diffScale(channels), diffShift(channels);
    Values expectedSrc = diffSrc, expectedScale = diffScale,
           expectedShift = diffShift;
    hostkernels::launchTogether(hostkernels::batch_norm_backward, channels, 256,
                                shape, src.data(), diffDst.data(), mean.data(),
                                variance.data(), scale.data(), diffSrc.data(),
                                diffScale.data(), diffShift.data());
    ASSERT_TRUE(runOnProcessor(
        backward, {&src, &diffDst, &expectedMean, &expectedVariance, &scale,
                   &expectedSrc, &expectedScale, &expectedShift}));
    expectNear(diffSrc, expectedSrc, backward + " diff_src");
    expectNear(diffScale, expectedScale, backward + " diff_scale");
    expectNear(diffShift, expectedShift, backward + " diff_shift");
  }
}

pp::cuda::ConvMapping mapConv(const std::string &text) {
  Descriptor descriptor(text);
  auto map = pp::cuda::mapConv(descriptor);
  descriptor.checkAllUsed();
  return map;
}

using Ints = std::vector<int>;

TEST(ConvMapping, OneDimensionGetsALeadingOne) {
  auto map = mapConv("conv_forward src=2x6x8 weights=4x3x3 dst=2x4x4 strides=2 "
                     "dilations=1 pad_lo=1 pad_hi=0 groups=2 bias=1");
  EXPECT_EQ(map.src, (Ints{2, 6, 1, 8}));
  EXPECT_EQ(map.srcStrides, (Ints{48, 8, 8, 1}));
  EXPECT_EQ(map.weights, (Ints{4, 3, 1, 3}));
  EXPECT_EQ(map.dst, (Ints{2, 4, 1, 4}));
  EXPECT_EQ(map.dstStrides, (Ints{16, 4, 4, 1}));
  EXPECT_EQ(map.pad, (Ints{0, 1}));
  EXPECT_EQ(map.strides, (Ints{1, 2}));
  EXPECT_EQ(map.dilations, (Ints{1, 1}));
  EXPECT_EQ(map.groups, 2);
  EXPECT_TRUE(map.hasBias);
}

/// cuDNN's result, by its documentation, against oneDNN's.
TEST(ConvMapping, AgreesWithOneDnnOrRefusesThePadding) {
  std::mt19937 random(5);
  int expressed = 0, refused = 0;
  for (int i = 0; i < 300; ++i) {
    int n = random() % 2 + 1, groups = random() % 2 + 1;
    int ci = groups * (random() % 2 + 1), co = groups * (random() % 2 + 1);
    int in[2], out[2], k[2], s[2], d[2], low[2], high[2];
    auto pair = [](const int (&values)[2]) {
      return std::to_string(values[0]) + "x" + std::to_string(values[1]);
    };
    for (int j = 0; j < 2; ++j) {
      k[j] = random() % 3 + 1;
      s[j] = random() % 2 + 1;
      d[j] = random() % 2 + 1;
      low[j] = random() % 2;
      high[j] = random() % 2;
      int reach = (k[j] - 1) * d[j] + 1;
      in[j] = reach + random() % 4;
      out[j] = (in[j] + low[j] + high[j] - reach) / s[j] + 1;
    }
    std::string first = std::to_string(n) + "x" + std::to_string(ci);
    std::string second = std::to_string(n) + "x" + std::to_string(co);
    std::string text = "conv_forward src=" + first + "x" + pair(in) +
                       " weights=" + std::to_string(co) + "x" +
                       std::to_string(ci / groups) + "x" + pair(k) +
                       " dst=" + second + "x" + pair(out) +
                       " strides=" + pair(s) + " dilations=" + pair(d) +
                       " pad_lo=" + pair(low) + " pad_hi=" + pair(high) +
                       " groups=" + std::to_string(groups) + " bias=0";
    pp::cuda::ConvMapping map;
    try {
      map = mapConv(text);
    } catch (const DescriptorError &e) {
      EXPECT_NE(std::string(e.what()).find("pad_hi"), std::string::npos)
          << text << ": " << e.what();
      EXPECT_NE(pair(low), pair(high));
      ++refused;
      continue;
    }
    ++expressed;
    Values src = randomValues(n * ci * in[0] * in[1], random);
    Values weights = randomValues(co * ci / groups * k[0] * k[1], random);
    Values actual(n * co * out[0] * out[1]), expected = actual;
    int perGroup = map.weights[1];
    for (int b = 0; b < map.dst[0]; ++b)
      for (int o = 0; o < map.dst[1]; ++o)
        for (int y = 0; y < map.dst[2]; ++y)
          for (int x = 0; x < map.dst[3]; ++x) {
            float sum = 0;
            for (int c = 0; c < perGroup; ++c)
              for (int ky = 0; ky < map.weights[2]; ++ky)
                for (int kx = 0; kx < map.weights[3]; ++kx) {
                  int sy =
                      y * map.strides[0] - map.pad[0] + ky * map.dilations[0];
                  int sx =
                      x * map.strides[1] - map.pad[1] + kx * map.dilations[1];
                  if (sy < 0 || sx < 0 || sy >= map.src[2] || sx >= map.src[3])
                    continue;
                  int channel = o / (map.dst[1] / map.groups) * perGroup + c;
                  sum +=
                      src[b * map.srcStrides[0] + channel * map.srcStrides[1] +
                          sy * map.srcStrides[2] + sx * map.srcStrides[3]] *
                      weights[((o * perGroup + c) * map.weights[2] + ky) *
                                  map.weights[3] +
                              kx];
                }
            actual[b * map.dstStrides[0] + o * map.dstStrides[1] +
                   y * map.dstStrides[2] + x * map.dstStrides[3]] = sum;
          }
    ASSERT_TRUE(runOnProcessor(text, {&src, &weights, &expected}));
    expectNear(actual, expected, text);
  }
  EXPECT_GT(expressed, 100);
  EXPECT_GT(refused, 20);
}

TEST(ConvMapping, FaultsAreNamed) {
  auto message = [](const char *text) {
    try {
      mapConv(text);
    } catch (const DescriptorError &e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("conv_forward src=1x2x5 weights=2x2x3 dst=1x2x4 strides=1 "
                    "dilations=1 pad_lo=0 pad_hi=0 groups=1"),
            "dst: is not what the other keys make");
  EXPECT_EQ(message("conv_forward src=1x3x5 weights=2x2x3 dst=1x2x3 strides=1 "
                    "dilations=1 pad_lo=0 pad_hi=0 groups=1"),
            "groups: does not divide the channels");
  EXPECT_EQ(message("conv_forward src=1x2x5 weights=2x2x3 dst=1x2x4 strides=1 "
                    "dilations=1 pad_lo=0 pad_hi=1 groups=1"),
            "pad_hi: cuDNN pads both sides by the same");
  EXPECT_EQ(message("conv_forward src=1x1x70000x70000 weights=1x1x1x1 "
                    "dst=1x1x70000x70000 strides=1x1 dilations=1x1 pad_lo=0x0 "
                    "pad_hi=0x0 groups=1"),
            "src: the tensor is too large");
}

} // namespace
