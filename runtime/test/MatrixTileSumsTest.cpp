//===- MatrixTileSumsTest.cpp - Several products in one matrix ------------===//
#include "cpu/MatrixTileSums.h"
#include "PlainTiles.h"
#include "cpu/MatrixTileProduct.h"
#include "cpu/Processor.h"
#include "plan/ShortFloat.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

using namespace pp::runtime;

namespace {

constexpr int64_t mostProducts = 16;

class MatrixTileSumsTest : public TilesTest {
protected:
  /// Numbers of `size` bytes each, bf16 or f32.
  static std::vector<char> makeNumbers(std::minstd_rand &random, int64_t count,
                                       bool isSplit) {
    std::vector<char> result(count * (isSplit ? 4 : 2));
    for (int64_t i = 0; i < count; ++i) {
      float number = static_cast<float>(random() % 20001) / 10000 - 1;
      uint16_t brain = toBF16(number);
      if (isSplit)
        std::memcpy(&result[4 * i], &number, 4);
      else
        std::memcpy(&result[2 * i], &brain, 2);
    }
    return result;
  }

  /// Compares the bits with those of one product after the other.
  void check(std::minstd_rand &random, int64_t m, int64_t k, int64_t n,
             int64_t count, bool isSplit, bool isFirst) {
    SCOPED_TRACE(testing::Message()
                 << count << " of " << m << " x " << k << " x " << n
                 << (isSplit ? ", split" : "") << (isFirst ? ", first" : ""));
    auto layout = [&](int64_t rows, int64_t columns) {
      const int64_t gap = random() % 2 * 3;
      return random() % 2 ? MatrixStrides{columns + gap, 1}
                          : MatrixStrides{1, rows + gap};
    };
    auto sizeOf = [](MatrixStrides strides, int64_t rows, int64_t columns) {
      return (rows - 1) * strides.row + (columns - 1) * strides.column + 1;
    };
    const MatrixStrides aLayout = layout(m, k), bLayout = layout(k, n),
                        cLayout = layout(m, n);
    std::vector<std::vector<char>> a, b;
    std::vector<MatrixSums::Factors> factors;
    for (int64_t i = 0; i < count; ++i) {
      a.push_back(makeNumbers(random, sizeOf(aLayout, m, k), isSplit));
      b.push_back(makeNumbers(random, sizeOf(bLayout, k, n), isSplit));
    }
    for (int64_t i = 0; i < count; ++i)
      factors.push_back({a[i].data(), b[i].data()});
    std::vector<float> expected(sizeOf(cLayout, m, n));
    for (float &number : expected)
      number = static_cast<float>(random() % 1000) / 999;
    std::vector<float> found = expected;
    for (int64_t i = 0; i < count; ++i) {
      MatrixTileProduct product(m, k, n, aLayout, bLayout, cLayout,
                                /*isShort=*/false,
                                /*isAdded=*/i != 0 || !isFirst, tiles());
      if (isSplit)
        product.setSplit();
      std::vector<char> scratchpad(product.getScratchpadBytes(), char(0xff));
      product.run(factors[i].a, factors[i].b, expected.data(),
                  scratchpad.data());
    }
    MatrixSums sums({m, k, n, isSplit}, aLayout, bLayout, cLayout, count,
                    tiles());
    // A guard behind it, which must stay.
    const uint64_t bytes = sums.getScratchpadBytes();
    std::vector<char> scratchpad(bytes + 64, char(0xff));
    sums.run(factors, found.data(), isFirst, scratchpad.data());
    EXPECT_FALSE(arePlainTilesBegun);
    ASSERT_EQ(std::memcmp(found.data(), expected.data(),
                          found.size() * sizeof(float)),
              0);
    ASSERT_EQ(std::vector<char>(scratchpad.begin() + bytes, scratchpad.end()),
              std::vector<char>(64, char(0xff)));
  }
};
PP_INSTANTIATE_TILES(MatrixTileSumsTest);

TEST_P(MatrixTileSumsTest, HasTheBitsOfOneAfterTheOther) {
  std::minstd_rand random(3);
  for (int round = 0; round < 60; ++round) {
    const bool isSplit = random() % 3 == 0;
    const int64_t m = 1 + random() % 90, n = 1 + random() % 90;
    const int64_t k = 1 + random() % (isSplit ? 60 : 100);
    check(random, m, k, n, 2 + random() % 6, isSplit, random() % 2);
    if (HasFatalFailure())
      return;
  }
}

/// Sizes at which the loops over rows and columns have more than one block.
TEST_P(MatrixTileSumsTest, AddsInSeveralBlocks) {
  std::minstd_rand random(5);
  check(random, 1050, 33, 40, 3, false, true);
  check(random, 40, 33, 530, 3, false, false);
}

/// A result that is written past the caches.
TEST_P(MatrixTileSumsTest, WritesALargeResult) {
  std::minstd_rand random(7);
  constexpr int64_t m = 530, k = 33, n = 1024, count = 6;
  std::vector<std::vector<char>> a, b;
  std::vector<MatrixSums::Factors> factors;
  for (int64_t i = 0; i < count; ++i) {
    a.push_back(makeNumbers(random, m * k, false));
    b.push_back(makeNumbers(random, k * n, false));
  }
  for (int64_t i = 0; i < count; ++i)
    factors.push_back({a[i].data(), b[i].data()});
  MatrixSums sums({m, k, n}, {1, m}, {n, 1}, {n, 1}, count, tiles());
  std::vector<char> scratchpad(sums.getScratchpadBytes());
  std::vector<float> space(m * n + 32);
  auto aligned = (reinterpret_cast<uintptr_t>(space.data()) + 63) & ~63;
  auto *c = reinterpret_cast<float *>(aligned);
  sums.run(factors, c, /*isFirst=*/true, scratchpad.data());
  std::vector<float> found(c, c + m * n);
  // Not at a multiple of 64, it is not.
  sums.run(factors, c + 1, /*isFirst=*/true, scratchpad.data());
  EXPECT_EQ(std::memcmp(found.data(), c + 1, found.size() * sizeof(float)), 0);
}

TEST(MatrixTileSumsShapes, TakesAsManyAsFitIntoCaches) {
  MatrixProductSizes sizes{768, 128, 768};
  EXPECT_EQ(MatrixTileSums::atOnce(sizes, mostProducts), 8);
  EXPECT_EQ(MatrixTileSums::atOnce(sizes, 4), 4);
  sizes.k = 512;
  EXPECT_EQ(MatrixTileSums::atOnce(sizes, mostProducts), 2);
  sizes.k = 513;
  EXPECT_EQ(MatrixTileSums::atOnce(sizes, mostProducts), 1);
  sizes.k = 49; // padded
  EXPECT_EQ(MatrixTileSums::atOnce(sizes, mostProducts), 16);
  sizes.isSplit = true;
  EXPECT_EQ(MatrixTileSums::atOnce(sizes, mostProducts), 4);
}

} // namespace
