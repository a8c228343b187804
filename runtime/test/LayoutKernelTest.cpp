//===- LayoutKernelTest.cpp - Library kernels in layouts beside plain ones ===//
#include "cpu/LibraryKernel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>
#include <string>

using namespace pp::runtime;

namespace {

using Values = std::vector<float>;

Values randomValues(size_t size, uint32_t seed) {
  Values values(size);
  uint32_t state = seed * 2654435761u + 12345u;
  for (float &value : values) {
    state = state * 1664525u + 1013904223u;
    value = float(state >> 8) / float(1 << 23) - 1.0f;
  }
  return values;
}

void runAt(const std::string &descriptor, std::vector<void *> pointers) {
  setKernelThreads(1);
  std::string error;
  auto kernel = LibraryKernel::create(descriptor, error);
  ASSERT_TRUE(kernel) << error;
  ASSERT_EQ(kernel->tensorCount(), pointers.size());
  std::vector<char> scratchpad(kernel->scratchpadBytes() + 64);
  auto aligned = (reinterpret_cast<uintptr_t>(scratchpad.data()) + 63) & ~63;
  ASSERT_TRUE(
      kernel->execute(pointers.data(), reinterpret_cast<void *>(aligned)));
}

void run(const std::string &descriptor, const std::vector<Values *> &tensors) {
  std::vector<void *> pointers;
  for (Values *tensor : tensors)
    pointers.push_back(tensor->data());
  runAt(descriptor, pointers);
}

/// N x C x H x W.
struct Image {
  int64_t n, c, h, w;

  size_t count() const { return n * c * h * w; }
  std::string text() const {
    return std::to_string(n) + "x" + std::to_string(c) + "x" +
           std::to_string(h) + "x" + std::to_string(w);
  }
  /// Where the plain element `i` lies.
  size_t placeOf(size_t i, const std::string &layout) const {
    size_t x = i % w, y = i / w % h, channel = i / (w * h) % c,
           sample = i / (w * h * c);
    if (layout == "channels_last")
      return ((sample * h + y) * w + x) * c + channel;
    size_t block = layout == "blocked8" ? 8 : layout == "blocked16" ? 16 : 0;
    if (block == 0 || c % block != 0)
      return i;
    return (((sample * (c / block) + channel / block) * h + y) * w + x) *
               block +
           channel % block;
  }
  Values moved(const Values &plain, const std::string &layout) const {
    Values result(plain.size());
    for (size_t i = 0; i < plain.size(); ++i)
      result[placeOf(i, layout)] = plain[i];
    return result;
  }
  Values plain(const Values &moved, const std::string &layout) const {
    Values result(moved.size());
    for (size_t i = 0; i < moved.size(); ++i)
      result[i] = moved[placeOf(i, layout)];
    return result;
  }
};

void expectNear(const Values &actual, const Values &expected,
                float tolerance = 2e-4f) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i],
                tolerance * (1 + std::fabs(expected[i])))
        << "at " << i;
}

const std::string layouts[] = {"channels_last", "blocked8", "blocked16"};

TEST(LayoutKernel, ReordersToAndFro) {
  Image image{2, 32, 3, 5};
  Values plain = randomValues(image.count(), 1);
  for (const std::string &layout : layouts) {
    Values there(image.count()), back(image.count());
    run("reorder src=" + image.text() + " from=plain to=" + layout,
        {&plain, &there});
    EXPECT_EQ(there, image.moved(plain, layout)) << layout;
    run("reorder src=" + image.text() + " from=" + layout + " to=plain",
        {&there, &back});
    EXPECT_EQ(back, plain) << layout;
  }
}

/// All three directions; `src` may have channels that fit into no block.
void checkConvolution(const Image &src, const Image &dst,
                      const std::string &layout, const std::string &algorithm,
                      int kernel = 3) {
  // Of as much on either side as the sizes say.
  int64_t padding = (dst.h - src.h + kernel - 1) / 2;
  auto twice = [](int64_t size) {
    return std::to_string(size) + "x" + std::to_string(size);
  };
  std::string text =
      " src=" + src.text() + " weights=" + std::to_string(dst.c) + "x" +
      std::to_string(src.c) + "x" + twice(kernel) + " dst=" + dst.text() +
      " strides=1x1 dilations=1x1 pad_lo=" + twice(padding) +
      " pad_hi=" + twice(padding) + " groups=1";
  std::string moved = text + " layout=" + layout + algorithm;
  Values x = randomValues(src.count(), 2), g = randomValues(dst.count(), 3);
  Values w = randomValues(dst.c * src.c * kernel * kernel, 4);
  Values xMoved = src.moved(x, layout), gMoved = dst.moved(g, layout);

  Values y(dst.count()), yMoved(dst.count());
  run("conv_forward" + text + " bias=0", {&x, &w, &y});
  run("conv_forward" + moved + " bias=0", {&xMoved, &w, &yMoved});
  expectNear(dst.plain(yMoved, layout), y);

  Values dx(src.count()), dxMoved(src.count());
  run("conv_backward_data" + text, {&g, &w, &dx});
  run("conv_backward_data" + moved, {&gMoved, &w, &dxMoved});
  expectNear(src.plain(dxMoved, layout), dx);

  Values dw(w.size()), dwMoved(w.size());
  run("conv_backward_weights" + text, {&x, &g, &dw});
  run("conv_backward_weights" + moved, {&xMoved, &gMoved, &dwMoved});
  expectNear(dwMoved, dw, 1e-3f);
}

/// A convolution takes in a residual and its activation with the bits that they
/// have apart, and what is not a number stays so.
void checkActivation(const std::string &convolution, const Image &src,
                     const Image &dst, int64_t groups,
                     const std::string &activation,
                     const std::function<float(float)> &apply, bool isPacked,
                     bool hasResidual) {
  SCOPED_TRACE(convolution + activation);
  std::string packed, pack = "pack_" + convolution + " bias=0";
  Values w = randomValues(dst.c * src.c / groups * 9, 4),
         bias = randomValues(dst.c, 5);
  if (isPacked) {
    uint64_t bytes = getPackedBytes(convolution + " bias=0");
    if (bytes == 0)
      return; // not on this processor
    packed = " packed=" + std::to_string(bytes);
    Values plain = w;
    w.assign(bytes / sizeof(float), 0);
    run(pack + packed, {&plain, &w});
  }
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (float odd : {0.0F, nan, infinity, -infinity}) {
    Values x = randomValues(src.count(), 2);
    if (odd != 0)
      x[src.count() / 2] = odd;
    Values sums(dst.count()), y(dst.count());
    run(convolution + " bias=1" + packed, {&x, &w, &bias, &sums});
    std::vector<Values *> tensors{&x, &w, &bias, &y};
    std::string keys = " bias=1";
    Values residual(y.size());
    if (hasResidual) {
      residual = randomValues(y.size(), 6);
      residual[7] = odd;
      keys += " residual=1";
      tensors.insert(tensors.end() - 1, &residual);
    }
    run(convolution + keys + activation + packed, tensors);
    size_t nans = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      float expected = apply(sums[i] + residual[i]);
      nans += std::isnan(expected);
      ASSERT_EQ(std::isnan(y[i]), std::isnan(expected)) << i;
      if (!std::isnan(expected))
        ASSERT_EQ(y[i], expected) << i;
    }
    if (!std::isinf(odd)) // an infinity need not meet another one
      EXPECT_EQ(nans > 0, std::isnan(odd));
    EXPECT_LT(nans, y.size());
  }
}

TEST(LayoutKernel, AConvolutionTakesInItsResidualAndItsActivation) {
  Image src{2, 32, 12, 12}, dst{2, 16, 12, 12};
  auto relu = [](float x) { return x <= 0 ? 0 : x; };
  auto clip = [](float x) { return x <= -0.5F ? -0.5F : x >= 2 ? 2 : x; };
  for (const std::string layout :
       {"plain", "channels_last", "blocked8", "blocked16"})
    for (auto [isPacked, hasResidual] :
         {std::pair{false, false}, {false, true}, {true, false}, {true, true}})
      for (const std::string end :
           {"1", "2", "1 algorithm=winograd", "1 algorithm=winograd2",
            "1 algorithm=winograd4"}) {
        const int64_t groups = end == "2" ? 2 : 1;
        std::string text = "conv_forward src=" + src.text() + " weights=16x" +
                           std::to_string(src.c / groups) +
                           "x3x3 dst=" + dst.text() +
                           " strides=1x1 dilations=1x1 pad_lo=1x1 "
                           "pad_hi=1x1 layout=" +
                           layout + " groups=" + end;
        checkActivation(text, src, dst, groups, " activation=relu", relu,
                        isPacked, hasResidual);
        checkActivation(text, src, dst, groups,
                        " activation=clip low=-0.5 high=2", clip, isPacked,
                        hasResidual);
        if (hasResidual)
          checkActivation(
              text, src, dst, groups, "", [](float x) { return x; }, isPacked,
              hasResidual);
      }
}

TEST(LayoutKernel, NoMaximumHidesWhatIsNoNumber) {
  Image src{2, 32, 9, 9}, dst{2, 32, 5, 5};
  std::string text = "max_pool_forward src=" + src.text() +
                     " dst=" + dst.text() +
                     " kernel=3x3 strides=2x2 dilations=1x1 pad_lo=1x1 "
                     "pad_hi=1x1 layout=";
  constexpr int64_t channel = 17, row = 3, column = 4;
  for (const std::string layout :
       {"plain", "channels_last", "blocked8", "blocked16"}) {
    Values x = randomValues(src.count(), 2), y(dst.count());
    Values clean = y, xMoved = src.moved(x, layout);
    run(text + layout, {&xMoved, &clean});
    x[((src.c + channel) * src.h + row) * src.w + column] =
        std::numeric_limits<float>::quiet_NaN();
    xMoved = src.moved(x, layout);
    run(text + layout, {&xMoved, &y});
    Values found = dst.plain(y, layout), expected = dst.plain(clean, layout);
    for (int64_t i = 0; i < int64_t(found.size()); ++i) {
      int64_t atColumn = i % dst.w, atRow = i / dst.w % dst.h;
      bool isInWindow = i / (dst.w * dst.h) == dst.c + channel &&
                        std::abs(2 * atRow - row) <= 1 &&
                        std::abs(2 * atColumn - column) <= 1;
      if (isInWindow)
        EXPECT_TRUE(std::isnan(found[i])) << layout << i;
      else
        EXPECT_EQ(found[i], expected[i]) << layout << i;
    }
  }
}

TEST(LayoutKernel, RefusesActivationsThatItHasNot) {
  std::string convolution =
      "conv_forward src=1x16x4x4 weights=16x16x1x1 dst=1x16x4x4 strides=1x1 "
      "dilations=1x1 pad_lo=0x0 pad_hi=0x0 groups=1 bias=1";
  auto errorOf = [&](const std::string &keys) {
    std::string error;
    EXPECT_FALSE(LibraryKernel::create(convolution + keys, error)) << keys;
    EXPECT_FALSE(isFused(convolution + keys));
    return error;
  };
  EXPECT_NE(errorOf(" activation=tanh").find("unknown word 'tanh'"),
            std::string::npos);
  EXPECT_NE(errorOf(" activation=clip low=0").find("high"), std::string::npos);
  EXPECT_NE(errorOf(" activation=clip low=2 high=1").find("more than high"),
            std::string::npos);
  EXPECT_NE(
      errorOf(" activation=relu types=bf16xbf16xbf16").find("only of f32"),
      std::string::npos);
}

TEST(LayoutKernel, ConvolvesAsThePlainOne) {
  for (const std::string &layout : layouts)
    checkConvolution({2, 32, 12, 12}, {2, 16, 12, 12}, layout, "");
}

/// The gradient of the weights is made some output channels at a time.
TEST(LayoutKernel, ConvolvesWithLargeWeights) {
  for (const std::string &layout : layouts)
    checkConvolution({2, 160, 12, 12}, {2, 192, 12, 12}, layout, "");
}

/// The gradient of the weights is a product.
TEST(LayoutKernel, ConvolvesFewPixels) {
  for (const std::string &layout : layouts)
    for (int samples : {1, 3})
      checkConvolution({samples, 160, 4, 5}, {samples, 192, 4, 5}, layout, "");
}

TEST(LayoutKernel, LeavesTensorsPlainThatDoNotFit) {
  for (const std::string &layout : layouts)
    checkConvolution({2, 3, 12, 12}, {2, 16, 12, 12}, layout, "");
}

/// With channels last, the gradient of the weights is a product.
TEST(LayoutKernel, ConvolvesPixelsAlone) {
  for (const std::string &layout : layouts)
    checkConvolution({2, 32, 9, 7}, {2, 48, 9, 7}, layout, "", /*kernel=*/1);
  checkConvolution({3, 5, 9, 7}, {3, 11, 9, 7}, "channels_last", "",
                   /*kernel=*/1);
}

TEST(LayoutKernel, ConvolvesWithWinogradInAnyLayout) {
  checkConvolution({2, 32, 16, 16}, {2, 32, 16, 16}, "plain",
                   " algorithm=winograd");
  for (const std::string &layout : layouts)
    checkConvolution({2, 32, 16, 16}, {2, 32, 16, 16}, layout,
                     " algorithm=winograd");
}

/// More terms than a block has, more tiles than are made at once, outputs that
/// fill no block, sizes that are no multiple of a tile's.
TEST(LayoutKernel, ConvolvesInTiles) {
  for (const std::string &layout : layouts)
    for (const std::string algorithm :
         {" algorithm=winograd2", " algorithm=winograd4"}) {
      checkConvolution({1, 272, 9, 7}, {1, 80, 9, 7}, layout, algorithm);
      checkConvolution({3, 160, 14, 13}, {3, 192, 14, 13}, layout, algorithm);
      checkConvolution({2, 48, 8, 6}, {2, 32, 6, 4}, layout, algorithm);
      checkConvolution({2, 32, 5, 4}, {2, 48, 7, 6}, layout, algorithm);
    }
}

TEST(LayoutKernel, PoolsAndNormalizesAsThePlainOne) {
  Image src{2, 32, 8, 8}, dst{2, 32, 4, 4};
  Values x = randomValues(src.count(), 5), g = randomValues(dst.count(), 6);
  Values gain = randomValues(src.c, 7), shift = randomValues(src.c, 8);
  for (const std::string &layout : layouts) {
    Values xMoved = src.moved(x, layout), gMoved = dst.moved(g, layout);
    for (const std::string kind : {"max_pool", "avg_pool"}) {
      std::string text = " src=" + src.text() + " dst=" + dst.text() +
                         " kernel=2x2 strides=2x2 dilations=1x1 pad_lo=0x0 "
                         "pad_hi=0x0" +
                         (kind == "avg_pool" ? " include_pad=0" : "");
      Values y(dst.count()), yMoved(dst.count());
      run(kind + "_forward" + text, {&x, &y});
      run(kind + "_forward" + text + " layout=" + layout, {&xMoved, &yMoved});
      expectNear(dst.plain(yMoved, layout), y);
      Values dx(src.count()), dxMoved(src.count());
      std::vector<Values *> plain = {&g, &dx}, moved = {&gMoved, &dxMoved};
      if (kind == "max_pool") {
        plain.insert(plain.begin(), &x);
        moved.insert(moved.begin(), &xMoved);
      }
      run(kind + "_backward" + text, plain);
      run(kind + "_backward" + text + " layout=" + layout, moved);
      expectNear(src.plain(dxMoved, layout), dx);
    }
    std::string text = " src=" + src.text() + " epsilon=1e-5";
    Values y(src.count()), mean(src.c), variance(src.c);
    Values yMoved(src.count()), meanMoved(src.c), varianceMoved(src.c);
    run("batch_norm_forward" + text, {&x, &gain, &shift, &y, &mean, &variance});
    run("batch_norm_forward" + text + " layout=" + layout,
        {&xMoved, &gain, &shift, &yMoved, &meanMoved, &varianceMoved});
    expectNear(src.plain(yMoved, layout), y);
    expectNear(meanMoved, mean);
    expectNear(varianceMoved, variance);
  }
}

/// Ties go to the first, and what is no number is a maximum, as forward.
TEST(LayoutKernel, GradientsOfMaximaGoToTheFirst) {
  struct Case {
    Image src, dst;
    int64_t kernel, stride, dilation, padding;
  };
  for (const Case &c : {Case{{2, 32, 9, 7}, {2, 32, 5, 4}, 3, 2, 1, 1},
                        // Rows that no window sees, and windows far apart.
                        Case{{1, 16, 11, 9}, {1, 16, 3, 2}, 2, 4, 1, 0},
                        // A window that sees nothing but padding.
                        Case{{2, 48, 4, 3}, {2, 48, 6, 5}, 2, 1, 2, 2}}) {
    Values x = randomValues(c.src.count(), 2);
    for (float &number : x)
      number = std::floor(3 * number);
    x[5] = x[c.src.count() - 3] = std::numeric_limits<float>::quiet_NaN();
    Values g = randomValues(c.dst.count(), 3), expected(x.size());
    for (int64_t plane = 0; plane < c.src.n * c.src.c; ++plane)
      for (int64_t i = 0; i < c.dst.h * c.dst.w; ++i) {
        int64_t best = -1;
        for (int64_t tap = 0; tap < c.kernel * c.kernel; ++tap) {
          int64_t row =
              i / c.dst.w * c.stride + tap / c.kernel * c.dilation - c.padding;
          int64_t column =
              i % c.dst.w * c.stride + tap % c.kernel * c.dilation - c.padding;
          if (row < 0 || row >= c.src.h || column < 0 || column >= c.src.w)
            continue;
          int64_t at = (plane * c.src.h + row) * c.src.w + column;
          if (best < 0 || x[at] > x[best] || std::isnan(x[at]))
            best = at;
        }
        if (best >= 0)
          expected[best] += g[plane * c.dst.h * c.dst.w + i];
      }
    auto twice = [](int64_t value) {
      return std::to_string(value) + "x" + std::to_string(value);
    };
    std::string text =
        "max_pool_backward src=" + c.src.text() + " dst=" + c.dst.text() +
        " kernel=" + twice(c.kernel) + " strides=" + twice(c.stride) +
        " dilations=" + twice(c.dilation) + " pad_lo=" + twice(c.padding) +
        " pad_hi=" + twice(c.padding) + " layout=channels_last";
    Values xMoved = c.src.moved(x, "channels_last");
    Values gMoved = c.dst.moved(g, "channels_last");
    Values dx(x.size(), 9.0f);
    run(text, {&xMoved, &gMoved, &dx});
    EXPECT_EQ(c.src.plain(dx, "channels_last"), expected) << text;
  }
}

/// A tensor of bf16 of these numbers, which it rounds, as bits.
std::vector<uint16_t> shortened(const Values &numbers) {
  std::vector<uint16_t> bits;
  for (float number : numbers) {
    uint32_t all = std::bit_cast<uint32_t>(number);
    const uint32_t rounded = (all + 0x7fff + (all >> 16 & 1)) >> 16;
    bits.push_back(std::isnan(number) ? 0x7fc0 : rounded);
  }
  return bits;
}

Values widened(const std::vector<uint16_t> &bits) {
  Values numbers;
  for (uint16_t each : bits)
    numbers.push_back(std::bit_cast<float>(uint32_t(each) << 16));
  return numbers;
}

/// Maxima of bf16 are those of f32, and gradients are rounded once.
TEST(LayoutKernel, PoolsShortNumbersAsLongOnes) {
  struct Case {
    Image src, dst;
    std::string window;
  };
  for (const Case &c :
       {Case{{2, 32, 9, 7}, {2, 32, 5, 4}, "3x3 2x2 1x1 1x1"},
        Case{{2, 16, 8, 8}, {2, 16, 4, 4}, "2x2 2x2 1x1 0x0"},
        // Channels in eights only, and in no such number.
        Case{{1, 24, 6, 6}, {1, 24, 6, 6}, "3x3 1x1 1x1 1x1"},
        Case{{1, 5, 6, 6}, {1, 5, 3, 3}, "2x2 2x2 1x1 0x0"},
        // Rows that no window sees, and windows far apart.
        Case{{1, 16, 11, 9}, {1, 16, 3, 2}, "2x2 4x4 1x1 0x0"},
        // A window that sees nothing but padding.
        Case{{2, 48, 4, 3}, {2, 48, 6, 5}, "2x2 1x1 2x2 2x2"}}) {
    std::istringstream words(c.window);
    std::string kernel, strides, dilations, padding;
    words >> kernel >> strides >> dilations >> padding;
    for (const std::string &layout :
         {std::string("plain"), layouts[0], layouts[1], layouts[2]}) {
      if (layout.starts_with("blocked") && c.src.c % 16 != 0)
        continue;
      const std::string text = " src=" + c.src.text() + " dst=" + c.dst.text() +
                               " kernel=" + kernel + " strides=" + strides +
                               " dilations=" + dilations +
                               " pad_lo=" + padding + " pad_hi=" + padding +
                               " layout=" + layout;
      Values plain = widened(shortened(randomValues(c.src.count(), 2)));
      for (float &number : plain)
        number = std::floor(8 * number) / 8; // with ties
      plain[3] = std::numeric_limits<float>::quiet_NaN();
      Values x = c.src.moved(plain, layout);
      Values g = widened(shortened(randomValues(c.dst.count(), 3)));
      Values y(g.size()), dx(x.size(), 9.0f);
      run("max_pool_forward" + text, {&x, &y});
      run("max_pool_backward" + text, {&x, &g, &dx});
      auto xShort = shortened(x), gShort = shortened(g);
      std::vector<uint16_t> yShort(y.size()), dxShort(x.size(), 9);
      runAt("max_pool_forward" + text + " types=bf16",
            {xShort.data(), yShort.data()});
      runAt("max_pool_backward" + text + " types=bf16",
            {xShort.data(), gShort.data(), dxShort.data()});
      EXPECT_EQ(yShort, shortened(y)) << text;
      EXPECT_EQ(dxShort, shortened(dx)) << text;
    }
  }
}

TEST(LayoutKernel, NamesAnUnknownLayout) {
  std::string error;
  EXPECT_FALSE(LibraryKernel::create(
      "batch_norm_forward src=1x16x2x2 epsilon=1e-5 layout=sideways", error));
  EXPECT_NE(error.find("layout: unknown word 'sideways'"), std::string::npos)
      << error;
}

} // namespace
