//===- LayoutKernelTest.cpp - Library kernels in layouts beside plain ones ===//
#include "cpu/LibraryKernel.h"

#include <gtest/gtest.h>

#include <cmath>
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

void run(const std::string &descriptor, const std::vector<Values *> &tensors) {
  setKernelThreads(1);
  std::string error;
  auto kernel = LibraryKernel::create(descriptor, error);
  ASSERT_TRUE(kernel) << error;
  ASSERT_EQ(kernel->tensorCount(), tensors.size());
  std::vector<char> scratchpad(kernel->scratchpadBytes() + 64);
  auto aligned = (reinterpret_cast<uintptr_t>(scratchpad.data()) + 63) & ~63;
  std::vector<void *> pointers;
  for (Values *tensor : tensors)
    pointers.push_back(tensor->data());
  ASSERT_TRUE(
      kernel->execute(pointers.data(), reinterpret_cast<void *>(aligned)));
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
                      const std::string &layout, const std::string &algorithm) {
  std::string text =
      " src=" + src.text() + " weights=" + std::to_string(dst.c) + "x" +
      std::to_string(src.c) + "x3x3 dst=" + dst.text() +
      " strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1";
  std::string moved = text + " layout=" + layout + algorithm;
  Values x = randomValues(src.count(), 2), g = randomValues(dst.count(), 3);
  Values w = randomValues(dst.c * src.c * 9, 4);
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

TEST(LayoutKernel, ConvolvesAsThePlainOne) {
  for (const std::string &layout : layouts)
    checkConvolution({2, 32, 12, 12}, {2, 16, 12, 12}, layout, "");
}

TEST(LayoutKernel, LeavesTensorsPlainThatDoNotFit) {
  for (const std::string &layout : layouts)
    checkConvolution({2, 3, 12, 12}, {2, 16, 12, 12}, layout, "");
}

TEST(LayoutKernel, ConvolvesWithWinogradInAnyLayout) {
  checkConvolution({2, 32, 16, 16}, {2, 32, 16, 16}, "plain",
                   " algorithm=winograd");
  for (const std::string &layout : layouts)
    checkConvolution({2, 32, 16, 16}, {2, 32, 16, 16}, layout,
                     " algorithm=winograd");
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

TEST(LayoutKernel, NamesAnUnknownLayout) {
  std::string error;
  EXPECT_FALSE(LibraryKernel::create(
      "batch_norm_forward src=1x16x2x2 epsilon=1e-5 layout=sideways", error));
  EXPECT_NE(error.find("layout: unknown word 'sideways'"), std::string::npos)
      << error;
}

} // namespace
