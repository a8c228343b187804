//===- AccumulationTest.cpp - Kernels that add to a gradient --------------===//
#include "cpu/LibraryKernel.h"
#include "cpu/PairProduct.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace pp::runtime;

namespace {

/// A kernel that writes a gradient, and how many bytes its factors have.
struct Writer {
  const char *name;
  std::string descriptor;
  uint64_t first, second, gradient;
};

std::string conv(const std::string &sizes, const std::string &rest) {
  return "conv_backward_weights " + sizes +
         " strides=1x1 dilations=1x1 groups=1 " + rest;
}

/// Multiples of a power of two, so that no bits depend on an order, but for
/// what Winograd's transforms round.
std::vector<uint16_t> makeShorts(std::minstd_rand &random, uint64_t count) {
  std::vector<uint16_t> result(count);
  for (uint16_t &number : result)
    number = static_cast<uint16_t>(0x3f00 + random() % 0x200); // 0.5 to 2, bf16
  return result;
}
std::vector<float> makeFloats(std::minstd_rand &random, uint64_t count) {
  std::vector<float> result(count);
  for (float &number : result)
    number = static_cast<float>(random() % 2001) / 1000 - 1;
  return result;
}

class AccumulationTest : public testing::TestWithParam<Writer> {
protected:
  void run(const std::string &descriptor, float *gradient) {
    std::string error;
    auto kernel = LibraryKernel::create(descriptor, error);
    ASSERT_TRUE(kernel) << error;
    std::unique_ptr<void, decltype(&std::free)> scratchpad(
        std::aligned_alloc(64, kernel->scratchpadBytes() + 64), std::free);
    std::memset(scratchpad.get(), 0xff, kernel->scratchpadBytes());
    void *tensors[] = {first.data(), second.data(), gradient};
    ASSERT_TRUE(kernel->execute(tensors, scratchpad.get()))
        << takeKernelError();
  }

  std::vector<float> first, second;
};

/// The bits are those of a kernel that writes and another one that adds.
TEST_P(AccumulationTest, HasTheBitsOfAnAdditionAfterwards) {
  const auto &[name, descriptor, firstCount, secondCount, count] = GetParam();
  setKernelThreads(1);
  std::minstd_rand random(7);
  const bool isShort = descriptor.find("bf16") != std::string::npos;
  for (auto [to, size] :
       {std::pair{&first, firstCount}, {&second, secondCount}}) {
    *to = makeFloats(random, size);
    if (isShort) {
      std::vector<uint16_t> shorts = makeShorts(random, size);
      std::memcpy(to->data(), shorts.data(), size * sizeof(uint16_t));
    }
  }
  std::vector<float> written(count), gradient = makeFloats(random, count);
  std::vector<float> expected = gradient;
  run(descriptor, written.data());
  for (int times = 0; times < 2; ++times) {
    run(descriptor + " accumulate=1", gradient.data());
    for (uint64_t i = 0; i < count; ++i)
      expected[i] += written[i];
    ASSERT_EQ(0, std::memcmp(gradient.data(), expected.data(),
                             count * sizeof(float)));
  }
}

/// Several micro-batches at once have the bits of one after the other, also
/// where another kernel writes for the first.
TEST_P(AccumulationTest, AddsSeveralAtOnce) {
  const auto &[name, descriptor, firstCount, secondCount, count] = GetParam();
  const std::string adds = descriptor + " accumulate=1";
  setKernelThreads(1);
  std::string error;
  auto writer = LibraryKernel::create(descriptor, error);
  auto kernel = LibraryKernel::create(
      addsTogether(adds) ? adds + " together=3" : adds, error);
  ASSERT_TRUE(writer && kernel) << error;
  const uint64_t bytes =
      std::max(writer->scratchpadBytes(), kernel->scratchpadBytes());
  std::unique_ptr<void, decltype(&std::free)> scratchpad(
      std::aligned_alloc(64, bytes + 64), std::free);
  std::minstd_rand random(9);
  const bool isShort = descriptor.find("bf16") != std::string::npos;
  std::vector<std::vector<float>> factors;
  for (int i = 0; i < 6; ++i) {
    const uint64_t size = i % 2 == 0 ? firstCount : secondCount;
    factors.push_back(makeFloats(random, size));
    if (isShort) {
      std::vector<uint16_t> shorts = makeShorts(random, size);
      std::memcpy(factors.back().data(), shorts.data(),
                  size * sizeof(uint16_t));
    }
  }
  for (Kernel *first :
       {static_cast<Kernel *>(nullptr), static_cast<Kernel *>(writer.get())}) {
    std::vector<float> found = makeFloats(random, count), expected = found;
    std::vector<std::array<void *, 3>> tensors, alone;
    for (int i = 0; i < 3; ++i)
      for (auto [all, gradient] :
           {std::pair{&tensors, &found}, {&alone, &expected}})
        all->push_back({factors[2 * i].data(), factors[2 * i + 1].data(),
                        gradient->data()});
    std::vector<void *const *> together;
    for (const auto &each : tensors)
      together.push_back(each.data());
    std::memset(scratchpad.get(), 0xff, bytes);
    ASSERT_TRUE(kernel->executeTogether(together, first, scratchpad.get()));
    for (size_t i = 0; i < alone.size(); ++i)
      (first && i == 0 ? first : kernel.get())
          ->execute(alone[i].data(), scratchpad.get());
    EXPECT_EQ(
        0, std::memcmp(found.data(), expected.data(), count * sizeof(float)));
  }
}

/// Products in matrix tiles, gradients of bf16 as products of pairs,
/// convolutions in any tiles, gradients of f32 with AVX2, and nothing else.
TEST(AddsInPlace, WhereThereAreTiles) {
  const std::string product = "matmul a=256x256 as=1x256 b=256x256 c=256x256";
  const std::string gradient =
      "conv_backward_weights src=2x32x9x9 weights=32x32x3x3 dst=2x32x9x9 "
      "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 "
      "layout=channels_last";
  EXPECT_EQ(addsInPlace(product), hasMatrixTiles());
  EXPECT_EQ(addsInPlace(product + " types=bf16xbf16xf32"), hasFastBFloat16());
  const std::string ofRows = "matmul a=256x256 b=256x256 c=256x256";
  EXPECT_EQ(addsInPlace(ofRows + " types=bf16xbf16xf32"), hasMatrixTiles());
  EXPECT_EQ(addsInPlace(gradient + " types=bf16xf32xbf16"), hasFastBFloat16());
  const std::string pointwise =
      "conv_backward_weights src=2x32x9x9 weights=32x32x1x1 dst=2x32x9x9 "
      "strides=1x1 dilations=1x1 pad_lo=0x0 pad_hi=0x0 groups=1 "
      "layout=blocked16";
  EXPECT_EQ(addsInPlace(pointwise + " types=bf16xf32xbf16"), hasFastBFloat16());
  EXPECT_EQ(addsInPlace(gradient), TiledProduct::isPossible() && !hasAvx512());
  // From few pixels to many weights, but for the library's own products.
  EXPECT_EQ(addsInPlace(conv("src=1x160x4x4 weights=192x160x3x3 dst=1x192x4x4",
                             "pad_lo=1x1 pad_hi=1x1 layout=channels_last")),
            TiledProduct::isPossible());
  EXPECT_EQ(addsInPlace(conv("src=1x512x7x7 weights=512x512x1x1 dst=1x512x7x7",
                             "pad_lo=0x0 pad_hi=0x0 layout=channels_last")),
            TiledProduct::isPreferred(DataType::F32));
  EXPECT_EQ(addsInPlace(gradient + " algorithm=winograd4"),
            TiledProduct::isPossible());
  EXPECT_EQ(
      addsInPlace(gradient + " types=bf16xf32xbf16 algorithm=winograd2_bf16"),
      hasPairProducts());
  EXPECT_FALSE(addsInPlace("matmul a=256x256"));
  EXPECT_FALSE(addsInPlace("add size=4"));
}

/// Updates of a row are summed up in their order, from 0, and then added.
TEST(ScatterAdd, AddsRowsInTheirOrder) {
  constexpr int64_t rows = 23, width = 37;
  const std::vector<int64_t> indices = {5, 0, 5, 22, -1, 5, 99, -40, 7};
  std::minstd_rand random(5);
  std::vector<float> updates = makeFloats(random, indices.size() * width);
  updates[0] = -0.0f;
  for (bool isAdded : {false, true}) {
    std::vector<float> table = makeFloats(random, rows * width);
    table[3 * width] = std::nanf("1"); // of a row that nothing is added to
    std::vector<float> expected = table;
    std::vector<float> sums(table.size());
    std::vector<bool> isTouched(rows);
    for (size_t i = 0; i < indices.size(); ++i) {
      int64_t row = indices[i] < 0 ? indices[i] + rows : indices[i];
      row = std::clamp<int64_t>(row, 0, rows - 1);
      isTouched[row] = true;
      for (int64_t column = 0; column < width; ++column)
        sums[row * width + column] += updates[i * width + column];
    }
    for (size_t at = 0; at < table.size(); ++at)
      expected[at] = !isAdded                ? sums[at]
                     : isTouched[at / width] ? table[at] + sums[at]
                                             : table[at];
    std::string error;
    auto kernel =
        LibraryKernel::create("scatter_add rows=23 count=9 width=37" +
                                  std::string(isAdded ? " accumulate=1" : ""),
                              error);
    ASSERT_TRUE(kernel) << error;
    std::unique_ptr<void, decltype(&std::free)> scratchpad(
        std::aligned_alloc(64, kernel->scratchpadBytes()), std::free);
    std::memset(scratchpad.get(), 0xff, kernel->scratchpadBytes());
    void *tensors[] = {const_cast<int64_t *>(indices.data()), updates.data(),
                       table.data()};
    ASSERT_TRUE(kernel->execute(tensors, scratchpad.get()));
    EXPECT_EQ(0, std::memcmp(table.data(), expected.data(),
                             table.size() * sizeof(float)));
  }
}

TEST(ScatterAdd, RefusesWhatItCannotCount) {
  std::string error;
  for (const char *text :
       {"scatter_add rows=0 count=9 width=37", "scatter_add rows=3 count=9",
        "scatter_add rows=3 count=4294967296 width=1",
        "scatter_add rows=3 count=9 width=37 accumulate=2",
        "scatter_add rows=3 count=9 width=3 parts=2"}) {
    EXPECT_FALSE(LibraryKernel::create(text, error)) << text;
    EXPECT_NE(error.find("scatter_add"), std::string::npos) << error;
  }
}

const char *const shortTypes = " types=bf16xbf16xf32";
const char *const shortConvTypes = " types=bf16xf32xbf16";

INSTANTIATE_TEST_SUITE_P(
    Kernels, AccumulationTest,
    testing::Values(
        Writer{"Product", "matmul a=130x200 as=1x130 b=200x150 c=130x150",
               26000, 30000, 19500},
        Writer{"ShortProduct",
               std::string("matmul a=130x200 as=1x130 b=200x150 c=130x150") +
                   shortTypes,
               26000, 30000, 19500},
        Writer{"PairProduct",
               std::string("matmul a=208x75 as=1x208 b=75x160 c=208x160") +
                   shortTypes,
               15600, 12000, 33280},
        Writer{"ProductWithGaps",
               "matmul a=13x20 as=1x13 b=20x15 c=13x15 cs=17x1", 260, 300, 221},
        Writer{"Convolution",
               conv("src=2x16x9x9 weights=32x16x3x3 dst=2x32x9x9",
                    "pad_lo=1x1 pad_hi=1x1"),
               2592, 5184, 4608},
        Writer{"ConvolutionOfChannels",
               conv("src=2x16x9x9 weights=32x16x3x3 dst=2x32x9x9",
                    "pad_lo=1x1 pad_hi=1x1 layout=channels_last"),
               2592, 5184, 4608},
        Writer{"ShortConvolution",
               conv("src=2x16x9x9 weights=32x16x3x3 dst=2x32x9x9",
                    std::string("pad_lo=1x1 pad_hi=1x1 layout=channels_last") +
                        shortConvTypes),
               2592, 5184, 4608},
        Writer{"SomeOutputsAtATime",
               conv("src=2x160x12x12 weights=192x160x3x3 dst=2x192x12x12",
                    "pad_lo=1x1 pad_hi=1x1 layout=channels_last"),
               46080, 55296, 276480},
        Writer{"FewPixels",
               conv("src=2x160x4x4 weights=192x160x3x3 dst=2x192x4x4",
                    "pad_lo=1x1 pad_hi=1x1 layout=blocked16"),
               5120, 6144, 276480},
        Writer{"ShortFewPixels",
               conv("src=2x160x4x4 weights=192x160x3x3 dst=2x192x4x4",
                    std::string("pad_lo=1x1 pad_hi=1x1 layout=channels_last") +
                        shortConvTypes),
               5120, 6144, 276480},
        Writer{"Pointwise",
               conv("src=3x40x9x9 weights=96x40x1x1 dst=3x96x9x9",
                    "pad_lo=0x0 pad_hi=0x0 layout=channels_last"),
               9720, 23328, 3840},
        Writer{"ShortPointwise",
               conv("src=3x48x9x9 weights=96x48x1x1 dst=3x96x9x9",
                    std::string("pad_lo=0x0 pad_hi=0x0 layout=channels_last") +
                        shortConvTypes),
               11664, 23328, 4608},
        Writer{"ShortPointwiseInBlocks",
               conv("src=3x48x9x9 weights=96x48x1x1 dst=3x96x9x9",
                    std::string("pad_lo=0x0 pad_hi=0x0 layout=blocked16") +
                        shortConvTypes),
               11664, 23328, 4608},
        Writer{"WinogradOfFewTiles",
               conv("src=1x32x9x6 weights=64x32x3x3 dst=1x64x9x6",
                    "pad_lo=1x1 pad_hi=1x1 layout=blocked16 "
                    "algorithm=winograd4"),
               1728, 3456, 18432},
        Writer{"PairWinogradOfFewTiles",
               conv("src=1x32x9x6 weights=64x32x3x3 dst=1x64x9x6",
                    std::string("pad_lo=1x1 pad_hi=1x1 layout=blocked16 "
                                "algorithm=winograd2_bf16") +
                        shortConvTypes),
               1728, 3456, 18432},
        Writer{"Winograd",
               conv("src=3x32x9x6 weights=64x32x3x3 dst=3x64x9x6",
                    "pad_lo=1x1 pad_hi=1x1 layout=channels_last "
                    "algorithm=winograd4"),
               5184, 10368, 18432},
        Writer{"ShortWinograd",
               conv("src=3x32x9x6 weights=64x32x3x3 dst=3x64x9x6",
                    std::string("pad_lo=1x1 pad_hi=1x1 layout=channels_last "
                                "algorithm=winograd2") +
                        shortConvTypes),
               5184, 10368, 18432},
        Writer{"PairWinograd",
               conv("src=3x32x9x6 weights=64x32x3x3 dst=3x64x9x6",
                    std::string("pad_lo=1x1 pad_hi=1x1 layout=channels_last "
                                "algorithm=winograd2_bf16") +
                        shortConvTypes),
               5184, 10368, 18432},
        Writer{"Groups",
               "conv_backward_weights src=2x16x7x7 weights=16x1x3x3 "
               "dst=2x16x7x7 strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 "
               "groups=16 layout=channels_last",
               1568, 1568, 144}),
    [](const testing::TestParamInfo<Writer> &info) { return info.param.name; });

} // namespace
