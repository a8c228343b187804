//===- BlockProductTest.cpp -----------------------------------------------===//
#include "cpu/BlockProduct.h"
#include "cpu/DivideKernel.h"
#include "cpu/LibraryKernel.h"
#include "kernel/Part.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace pp::runtime;

namespace {
struct Numbers {
  BlockProduct product;
  std::vector<float> a, scales;
  std::vector<uint8_t> blocks, zeros;
  std::vector<double> expected, magnitude;

  Numbers(BlockProduct given, unsigned seed) : product(given) {
    std::mt19937 random(seed);
    std::normal_distribution<float> number;
    std::uniform_int_distribution<int> byte(0, 255);
    const int64_t count = product.countBlocks(), rows = product.rows,
                  columns = product.columns, terms = product.terms;
    auto fill = [&](auto &to, int64_t size, auto draw) {
      to.resize(size);
      for (auto &value : to)
        value = draw();
    };
    fill(a, rows * terms, [&] { return number(random); });
    fill(scales, columns * count, [&] { return 0.1F * number(random); });
    fill(blocks, columns * count * product.block / 2,
         [&] { return static_cast<uint8_t>(byte(random)); });
    if (product.hasZeros)
      fill(zeros, columns * ((count + 1) / 2),
           [&] { return static_cast<uint8_t>(byte(random)); });
    expected.resize(rows * columns);
    magnitude.resize(rows * columns);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t n = 0; n < columns; ++n)
        for (int64_t k = 0; k < terms; ++k) {
          const double term = double(a[row * terms + k]) * weight(n, k);
          expected[row * columns + n] += term;
          magnitude[row * columns + n] += std::abs(term);
        }
  }

  double weight(int64_t n, int64_t k) const {
    const int64_t count = product.countBlocks(), i = k / product.block;
    auto half = [](int byte, int64_t place) {
      return place % 2 ? byte >> 4 : byte & 0xf;
    };
    const int q = half(blocks[(n * count * product.block + k) / 2], k);
    const int zero =
        zeros.empty() ? 8 : half(zeros[n * ((count + 1) / 2) + i / 2], i);
    return double(scales[n * count + i]) * (q - zero);
  }

  BlockProduct::Matrix matrix() const {
    return {blocks.data(), scales.data(),
            zeros.empty() ? nullptr : zeros.data()};
  }

  std::vector<float>
  run(BlockProduct::Way way = BlockProduct::findWay()) const {
    BlockProduct own = product;
    own.way = way;
    std::vector<float> c(expected.size()),
        scratchpad(own.getScratchpadBytes() / sizeof(float), 1e30F);
    own.run(a.data(), matrix(), c.data(), 0, own.columns, scratchpad.data());
    return c;
  }

  void expectClose(const std::vector<float> &c) const {
    for (size_t i = 0; i < c.size(); ++i)
      ASSERT_NEAR(c[i], expected[i], 1e-6 * magnitude[i]) << descriptor();
  }

  std::string descriptor(const std::string &more = "") const {
    return "block_product rows=" + std::to_string(product.rows) +
           " terms=" + std::to_string(product.terms) +
           " columns=" + std::to_string(product.columns) +
           " block=" + std::to_string(product.block) +
           " zeros=" + std::to_string(product.hasZeros) + more;
  }
};
} // namespace

TEST(BlockProduct, MultipliesNumbersOfFourBits) {
  unsigned seed = 0;
  for (int64_t rows : {1, 2, 3, 4, 6, 17})
    for (int64_t terms : {1, 32, 60, 200})
      for (int64_t block : {32, 64})
        for (bool hasZeros : {false, true}) {
          Numbers numbers({rows, terms, 7, block, hasZeros}, ++seed);
          numbers.expectClose(numbers.run(BlockProduct::Way::Anywhere));
          const std::vector<float> result = numbers.run();
          numbers.expectClose(result);
          if (BlockProduct::findWay() == BlockProduct::Way::Avx512)
            EXPECT_EQ(numbers.run(BlockProduct::Way::Avx2), result);
        }
}

TEST(BlockProduct, HasTheSameBitsForAnyRowsAndParts) {
  Numbers numbers({11, 100, 50, 32, true}, 1);
  const std::vector<float> whole = numbers.run();
  for (int64_t row = 0; row < numbers.product.rows; ++row) {
    Numbers one = numbers;
    one.product.rows = 1;
    one.a.assign(numbers.a.begin() + row * 100,
                 numbers.a.begin() + (row + 1) * 100);
    one.expected.resize(50);
    EXPECT_EQ(one.run(), std::vector<float>(whole.begin() + row * 50,
                                            whole.begin() + (row + 1) * 50));
  }
  std::string error;
  for (unsigned parts : {1U, 2U, 3U}) {
    auto kernel = LibraryKernel::create(
        numbers.descriptor(parts == 1 ? "" : " parts=" + std::to_string(parts)),
        error);
    ASSERT_TRUE(kernel) << error;
    std::unique_ptr<void, decltype(&std::free)> scratchpad(
        std::aligned_alloc(64, kernel->scratchpadBytes()), std::free);
    std::vector<float> c(whole.size());
    void *tensors[] = {numbers.a.data(), numbers.blocks.data(),
                       numbers.scales.data(), numbers.zeros.data(), c.data()};
    for (unsigned index = 0; index < parts; ++index) {
      currentPart() = {index, parts};
      EXPECT_TRUE(kernel->execute(tensors, scratchpad.get()));
    }
    currentPart() = {};
    EXPECT_EQ(c, whole) << parts << " parts";
  }
}

TEST(BlockProduct, IsDividedForThreads) {
  const std::string whole =
      "block_product rows=3 terms=90 columns=64 block=32 zeros=1";
  EXPECT_EQ(divideKernel(whole, 2), whole + " parts=2");
}

TEST(BlockProduct, RefusesWhatItCannotCount) {
  std::string error;
  for (const char *text :
       {"block_product rows=0 terms=9 columns=3 block=32 zeros=0",
        "block_product rows=1 terms=9 columns=3 block=16 zeros=0",
        "block_product rows=1 terms=9 columns=3 block=48 zeros=0",
        "block_product rows=1 terms=9 columns=3 block=32 zeros=2",
        "block_product rows=1 terms=9 columns=3 block=32 zeros=0 parts=2"}) {
    EXPECT_FALSE(LibraryKernel::create(text, error)) << text;
    EXPECT_NE(error.find("block_product"), std::string::npos) << error;
  }
}
