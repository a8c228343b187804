//===- MatrixTileProductTest.cpp - Products of bf16 in matrix tiles -------===//
#include "cpu/MatrixTileProduct.h"
#include "PlainTiles.h"
#include "cpu/Processor.h"
#include "plan/DataType.h"
#include "plan/ShortFloat.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

using namespace pp::runtime;

namespace {

struct Layout {
  const char *name;
  int64_t row, column, size;
};
/// Row-major, column-major, with gaps between rows, with gaps everywhere.
Layout pickLayout(std::minstd_rand &random, int64_t rows, int64_t columns) {
  const Layout layouts[] = {
      {"rows", columns, 1, rows * columns},
      {"columns", 1, rows, rows * columns},
      {"gaps", columns + 5, 1, rows * (columns + 5)},
      {"sparse", 2 * columns + 3, 2, rows * (2 * columns + 3)}};
  return layouts[random() % 4];
}

std::vector<uint16_t> makeNumbers(std::minstd_rand &random, int64_t count) {
  std::vector<uint16_t> result(count);
  for (uint16_t &number : result)
    number = toBF16(static_cast<float>(random() % 2001) / 1000 - 1);
  return result;
}

class MatrixTileProductTest : public TilesTest {
protected:
  template <typename Result>
  void check(std::minstd_rand &random, int64_t m, int64_t k, int64_t n,
             bool isAdded, bool isPacked) {
    constexpr bool isShort = std::is_same_v<Result, uint16_t>;
    Layout a = pickLayout(random, m, k), b = pickLayout(random, k, n),
           c = pickLayout(random, m, n);
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(k) + " x " +
                 std::to_string(n) + ", " + a.name + " " + b.name + " " +
                 c.name + (isShort ? ", bf16" : ", f32") +
                 (isAdded ? ", added" : "") + (isPacked ? ", packed" : ""));
    auto aData = makeNumbers(random, a.size),
         bData = makeNumbers(random, b.size);
    std::vector<Result> before(c.size);
    for (Result &number : before)
      number = isShort ? toBF16(7) : static_cast<float>(random() % 100);
    std::vector<Result> cData = before;
    MatrixTileProduct product(m, k, n, {a.row, a.column}, {b.row, b.column},
                              {c.row, c.column}, isShort, isAdded, tiles());
    std::vector<char> packed(product.getPackedBytes());
    const uint16_t *from = bData.data();
    if (isPacked) {
      product.setPacked();
      product.packColumns(bData.data(), packed.data());
      from = reinterpret_cast<const uint16_t *>(packed.data());
    }
    // What was there before must not be read.
    std::vector<char> scratchpad(product.getScratchpadBytes(), char(0xff));
    product.run(aData.data(), from, cData.data(), scratchpad.data());
    EXPECT_FALSE(arePlainTilesBegun);

    std::vector<Result> expected = before;
    std::vector<double> sizes(c.size);
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        int64_t at = row * c.row + column * c.column;
        float sum = 0;
        for (int64_t x = 0; x < k; ++x) {
          float one = fromBF16(aData[row * a.row + x * a.column]);
          float other = fromBF16(bData[x * b.row + column * b.column]);
          sum = std::fma(one, other, sum);
          sizes[at] += std::fabs(one * other);
        }
        if constexpr (isShort)
          expected[at] = toBF16(sum);
        else
          expected[at] = isAdded ? before[at] + sum : sum;
      }
    for (int64_t at = 0; at < c.size; ++at) {
      if (GetParam() == TileKind::Plain || sizes[at] == 0) { // gaps too
        ASSERT_EQ(cData[at], expected[at]) << "at " << at;
        continue;
      }
      auto widen = [](Result value) -> double {
        if constexpr (isShort)
          return fromBF16(value);
        else
          return value;
      };
      ASSERT_NEAR(widen(cData[at]), widen(expected[at]),
                  (sizes[at] + std::fabs(widen(before[at]))) *
                      (isShort ? 0x1p-8 : 0x1p-20))
          << "at " << at;
    }
  }
};
PP_INSTANTIATE_TILES(MatrixTileProductTest);

TEST_P(MatrixTileProductTest, MultipliesMatricesOfAnyLayout) {
  std::minstd_rand random(3);
  for (int round = 0; round < 120; ++round) {
    int64_t m = 1 + random() % 100, k = 1 + random() % 100,
            n = 1 + random() % 100;
    bool isPacked = random() % 3 == 0;
    if (random() % 2)
      check<float>(random, m, k, n, random() % 2, isPacked);
    else
      check<uint16_t>(random, m, k, n, false, isPacked);
    if (HasFatalFailure())
      return;
  }
}

/// Sizes at which the loops have more than one block each.
TEST_P(MatrixTileProductTest, MultipliesInSeveralBlocks) {
  std::minstd_rand random(5);
  for (bool isPacked : {false, true})
    for (auto [m, k, n] :
         {std::tuple{1030, 40, 20}, {20, 1050, 290}, {5, 2100, 40}}) {
      check<float>(random, m, k, n, true, isPacked);
      check<float>(random, m, k, n, false, isPacked);
      check<uint16_t>(random, m, k, n, false, isPacked);
    }
}

/// A result that caches do not hold, with whole tiles and without.
TEST_P(MatrixTileProductTest, MultipliesIntoALargeResult) {
  std::minstd_rand random(7);
  constexpr int64_t m = 530, k = 33, n = 1024;
  auto a = makeNumbers(random, m * k), b = makeNumbers(random, k * n);
  std::vector<float> space(m * n + 16);
  auto aligned = (reinterpret_cast<uintptr_t>(space.data()) + 63) & ~63;
  auto *c = reinterpret_cast<float *>(aligned);
  for (bool isAdded : {false, true}) {
    std::fill_n(c, m * n, 2.0f);
    MatrixTileProduct product(m, k, n, {1, m}, {n, 1}, {n, 1}, false, isAdded,
                              tiles());
    std::vector<char> scratchpad(product.getScratchpadBytes());
    product.run(a.data(), b.data(), c, scratchpad.data());
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = isAdded ? 2 : 0, size = sum;
        for (int64_t x = 0; x < k; ++x) {
          double term = fromBF16(a[x * m + i]) * double(fromBF16(b[x * n + j]));
          sum += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(c[i * n + j], sum, size * 0x1p-20) << i << ", " << j;
      }
  }
}

/// Numbers of f32, in three parts each.
TEST_P(MatrixTileProductTest, MultipliesNumbersOfF32) {
  std::minstd_rand random(13);
  auto make = [&](int64_t count) {
    std::vector<float> result(count);
    for (float &number : result)
      number = std::ldexp(static_cast<float>(random()) * 0x1p-30f - 1,
                          static_cast<int>(random() % 9) - 4);
    return result;
  };
  for (int round = 0; round < 60; ++round) {
    int64_t m = 1 + random() % 70, n = 1 + random() % 70;
    int64_t k = 1 + random() % (round % 8 == 0 ? 700 : 70);
    Layout a = pickLayout(random, m, k), b = pickLayout(random, k, n),
           c = pickLayout(random, m, n);
    bool isAdded = random() % 2, isPacked = random() % 3 == 0;
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(k) + " x " +
                 std::to_string(n) + ", " + a.name + " " + b.name + " " +
                 c.name);
    auto aData = make(a.size), bData = make(b.size), before = make(c.size);
    auto cData = before;
    MatrixTileProduct product(m, k, n, {a.row, a.column}, {b.row, b.column},
                              {c.row, c.column}, /*isShort=*/false, isAdded,
                              tiles());
    product.setSplit();
    std::vector<char> packed(product.getPackedBytes());
    if (isPacked) {
      product.setPacked();
      product.packColumns(bData.data(), packed.data());
    }
    std::vector<char> scratchpad(product.getScratchpadBytes(), char(0xff));
    product.run(aData.data(),
                isPacked ? static_cast<const void *>(packed.data())
                         : bData.data(),
                cData.data(), scratchpad.data());
    std::vector<bool> isWritten(c.size);
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        int64_t at = row * c.row + column * c.column;
        isWritten[at] = true;
        double sum = isAdded ? before[at] : 0, size = std::fabs(sum);
        for (int64_t x = 0; x < k; ++x) {
          double term = double(aData[row * a.row + x * a.column]) *
                        bData[x * b.row + column * b.column];
          sum += term;
          size += std::fabs(term);
        }
        // Each number has six sums of parts.
        ASSERT_NEAR(cData[at], sum, size * std::sqrt(k + 1.0) * 0x1p-22);
      }
    for (int64_t at = 0; at < c.size; ++at)
      if (!isWritten[at])
        ASSERT_EQ(cData[at], before[at]) << "at " << at;
  }
}

/// The parts of numbers at the ends of the range.
TEST_P(MatrixTileProductTest, KeepsNumbersOfAnySize) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float largest = std::numeric_limits<float>::max();
  for (auto [a, b] : {std::pair{largest, 0.5f},
                      {-largest, 1 / 3.0f},
                      {1e-30f, 1.2345678e30f},
                      {1.2345678f, 8.7654321f},
                      {0x1.fep127f, 0.5f},
                      {-0x1.ff7fp127f, 0.75f},
                      {0x1.ff8p127f, -0.5f},
                      {0x1.01p-3f, 0x1.0101p5f},
                      {infinity, -2.0f},
                      {infinity, 0.0f},
                      {largest, largest},
                      {std::bit_cast<float>(0x7f800001), 1.0f},
                      {std::bit_cast<float>(0xffffffff), 1.0f},
                      {std::nanf("1"), 1.0f}}) {
    float c = 9;
    MatrixTileProduct product(1, 1, 1, {1, 1}, {1, 1}, {1, 1},
                              /*isShort=*/false, /*isAdded=*/false, tiles());
    product.setSplit();
    std::vector<char> scratchpad(product.getScratchpadBytes());
    product.run(&a, &b, &c, scratchpad.data());
    float expected = a * b;
    // Infinity times a part that is 0 is no number.
    if (!std::isfinite(expected))
      EXPECT_FALSE(std::isfinite(c)) << a << " * " << b;
    else
      EXPECT_NEAR(c, expected, std::fabs(expected) * 0x1p-22)
          << a << " * " << b;
  }
}

/// So many terms that a is packed some at a time.
TEST_P(MatrixTileProductTest, MultipliesManyTerms) {
  std::minstd_rand random(15);
  check<float>(random, 40, 27000, 20, true, false);
  check<float>(random, 33, 34000, 18, false, true);
}

/// Threads share a product by its rows or columns.
TEST_P(MatrixTileProductTest, PartsHaveTheBitsOfTheWhole) {
  std::minstd_rand random(9);
  constexpr int64_t m = 70, k = 1100, n = 90, row = 19, column = 35;
  auto a = makeNumbers(random, m * k), b = makeNumbers(random, k * n);
  std::vector<float> whole(m * n), part(m * n);
  auto run = [&](int64_t rows, int64_t columns, std::vector<float> &c) {
    MatrixTileProduct product(m - rows, k, n - columns, {k, 1}, {n, 1}, {n, 1},
                              false, false, tiles());
    std::vector<char> scratchpad(product.getScratchpadBytes());
    product.run(a.data() + rows * k, b.data() + columns,
                c.data() + rows * n + columns, scratchpad.data());
  };
  run(0, 0, whole);
  run(row, column, part);
  for (int64_t i = row; i < m; ++i)
    for (int64_t j = column; j < n; ++j)
      ASSERT_EQ(std::bit_cast<uint32_t>(whole[i * n + j]),
                std::bit_cast<uint32_t>(part[i * n + j]));
}

/// The same, one part after the other with one scratchpad, in which the factor
/// stays that they have in common.
TEST_P(MatrixTileProductTest, FindsAFactorThatIsKept) {
  std::minstd_rand random(11);
  using Kept = MatrixTileProduct::Kept;
  constexpr int64_t k = 1100;
  // The factor in common has several blocks.
  for (auto [kept, m, n] :
       {std::tuple<Kept, int64_t, int64_t>{Kept::A, 1070, 88},
        {Kept::B, 80, 600}}) {
    auto a = makeNumbers(random, m * k), b = makeNumbers(random, k * n);
    std::vector<float> whole(m * n), parts(m * n);
    std::vector<char> scratchpad;
    auto run = [&](int64_t row, int64_t rows, int64_t column, int64_t columns,
                   Kept factor, bool isThere, std::vector<float> &c) {
      MatrixTileProduct product(rows, k, columns, {k, 1}, {n, 1}, {n, 1}, false,
                                false, tiles());
      product.setKept(factor);
      if (scratchpad.size() < product.getScratchpadBytes())
        scratchpad.resize(product.getScratchpadBytes(), char(0xff));
      product.run(a.data() + row * k, b.data() + column,
                  c.data() + row * n + column, scratchpad.data(), isThere);
    };
    run(0, m, 0, n, Kept::None, false, whole);
    scratchpad.assign(scratchpad.size(), char(0xff));
    for (auto [begin, end] :
         {std::pair<int64_t, int64_t>{0, 32}, {32, 80}, {80, n}})
      if (kept == Kept::A)
        run(0, m, begin, end - begin, kept, begin != 0, parts);
    for (auto [begin, end] :
         {std::pair<int64_t, int64_t>{0, 32}, {32, 70}, {70, m}})
      if (kept == Kept::B)
        run(begin, end - begin, 0, n, kept, begin != 0, parts);
    ASSERT_EQ(std::memcmp(whole.data(), parts.data(), m * n * sizeof(float)),
              0);
  }
}

} // namespace
