//===- TiledProductTest.cpp - Bits of products in tiles -------------------===//
#include "cpu/TiledProduct.h"
#include "plan/ShortFloat.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

using namespace pp::runtime;

namespace {

/// Memory of a matrix of any of the types, which starts at a multiple of 64.
class Numbers {
public:
  Numbers(DataType type, int64_t count)
      : type(type), bytes(count * sizeOf(type) + 64) {
    void *place = bytes.data();
    size_t space = bytes.size();
    start =
        static_cast<char *>(std::align(64, count * sizeOf(type), place, space));
  }
  void fill(std::minstd_rand &random, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      set(i, static_cast<float>(random()) * 2 /
                     static_cast<float>(std::minstd_rand::max()) -
                 1);
  }
  float get(int64_t at) const {
    if (isShortFloat(type))
      return fromShortFloat(type, reinterpret_cast<uint16_t *>(start)[at]);
    return reinterpret_cast<float *>(start)[at];
  }
  void set(int64_t at, float value) {
    if (isShortFloat(type))
      reinterpret_cast<uint16_t *>(start)[at] = toShortFloat(type, value);
    else
      reinterpret_cast<float *>(start)[at] = value;
  }
  char *data() const { return start; }

private:
  DataType type;
  std::vector<char> bytes;
  char *start;
};

struct Layout {
  const char *name;
  int64_t rowStride, columnStride, size;
};
/// Row-major, column-major, with gaps between rows, with gaps everywhere.
std::vector<Layout> layouts(int64_t rows, int64_t columns) {
  return {{"rows", columns, 1, rows * columns},
          {"columns", 1, rows, rows * columns},
          {"gaps", columns + 5, 1, rows * (columns + 5)},
          {"sparse", 2 * columns + 3, 2, rows * (2 * columns + 3)}};
}

/// What the class promises: chains of 768 terms, added one after the other.
template <typename A, typename B>
float expectedNumber(int64_t k, const A &a, const B &b, float before,
                     bool isAdded, bool isDirect) {
  float sum = isAdded && isDirect ? before : 0;
  for (int64_t begin = 0; begin < k; begin += 768) {
    float chain = 0;
    for (int64_t x = begin; x < std::min(k, begin + 768); ++x)
      chain = std::fma(a(x), b(x), chain);
    sum = begin == 0 && !(isAdded && isDirect) ? chain : sum + chain;
  }
  return isAdded && !isDirect ? before + sum : sum;
}

/// With the tiles of AVX-512, or of AVX2.
class TiledProductTest : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("f16c") ||
        (GetParam() && !__builtin_cpu_supports("avx512f")))
      GTEST_SKIP() << "this processor has no such registers";
  }
  static const ProductTiles &tiles() {
    return GetParam() ? productTilesAvx512 : productTilesAvx2;
  }
};
INSTANTIATE_TEST_SUITE_P(Tiles, TiledProductTest, testing::Bool(),
                         [](const auto &info) {
                           return info.param ? "Avx512" : "Avx2";
                         });

void check(const ProductTiles &tiles, std::minstd_rand &random, DataType aType,
           DataType bType, DataType cType, int64_t m, int64_t k, int64_t n,
           bool isAdded, bool isPacked) {
  auto pick = [&](int64_t rows, int64_t columns) {
    return layouts(rows, columns)[random() % 4];
  };
  int64_t batch = isPacked ? 1 : 1 + random() % 3;
  bool isShared = random() % 2 == 0; // b is the same for the whole batch
  Layout a = pick(m, k), b = pick(k, n), c = pick(m, n);
  SCOPED_TRACE(std::string(nameOf(aType)) + " x " + std::string(nameOf(bType)) +
               " = " + std::string(nameOf(cType)) + ", " + std::to_string(m) +
               " x " + std::to_string(k) + " x " + std::to_string(n) + ", " +
               a.name + " " + b.name + " " + c.name + ", batch " +
               std::to_string(batch) + (isAdded ? ", added" : "") +
               (isPacked ? ", packed" : ""));
  Numbers aData(aType, batch * a.size), bData(bType, batch * b.size),
      cData(cType, batch * c.size), before(cType, batch * c.size);
  aData.fill(random, batch * a.size);
  bData.fill(random, batch * b.size);
  cData.fill(random, batch * c.size);
  std::memcpy(before.data(), cData.data(), batch * c.size * sizeOf(cType));
  TiledProduct::Matrix bMatrix{
      bType, b.rowStride, b.columnStride, {isShared ? 0 : b.size}};
  TiledProduct product({batch}, m, k, n,
                       {aType, a.rowStride, a.columnStride, {a.size}}, bMatrix,
                       {cType, c.rowStride, c.columnStride, {c.size}}, isAdded);
  product.setTiles(tiles);
  Numbers packed(bType, product.getPackedBytes() / sizeOf(bType));
  if (isPacked) {
    product.setPacked();
    product.packColumns(bData.data(), packed.data());
  }
  Numbers scratchpad(DataType::F32, product.getScratchpadBytes() / 4);
  product.run(aData.data(), (isPacked ? packed : bData).data(), cData.data(),
              scratchpad.data());

  Numbers expected(cType, batch * c.size);
  std::memcpy(expected.data(), before.data(), batch * c.size * sizeOf(cType));
  bool isDirect = cType == DataType::F32 && c.columnStride == 1;
  for (int64_t one = 0; one < batch; ++one)
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        int64_t at = one * c.size + row * c.rowStride + column * c.columnStride;
        expected.set(at, expectedNumber(
                             k,
                             [&](int64_t x) {
                               return aData.get(one * a.size +
                                                row * a.rowStride +
                                                x * a.columnStride);
                             },
                             [&](int64_t x) {
                               return bData.get((isShared ? 0 : one) * b.size +
                                                x * b.rowStride +
                                                column * b.columnStride);
                             },
                             before.get(at), isAdded, isDirect));
      }
  // Gaps too.
  for (int64_t i = 0; i < batch * c.size; ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(cData.get(i)),
              std::bit_cast<uint32_t>(expected.get(i)))
        << "at " << i;
}

TEST_P(TiledProductTest, HasTheBitsThatItPromises) {
  std::minstd_rand random(7);
  constexpr DataType types[] = {DataType::F32, DataType::BF16, DataType::F16};
  for (int round = 0; round < 150; ++round) {
    DataType factor = types[random() % 3];
    DataType result = random() % 2 ? DataType::F32 : factor;
    bool isLong = random() % 4 == 0;
    int64_t m = 1 + random() % (isLong ? 20 : 130);
    int64_t k = 1 + random() % (isLong ? 1700 : 60), n = 1 + random() % 70;
    bool isPacked = random() % 3 == 0;
    check(tiles(), random, factor, factor, result, m, k, n,
          result == DataType::F32 && random() % 2, isPacked);
    if (HasFatalFailure())
      return;
  }
}

/// Sizes at which the loops have more than one block each.
TEST_P(TiledProductTest, HasThemInSeveralBlocks) {
  std::minstd_rand random(11);
  for (DataType type : {DataType::F32, DataType::BF16})
    for (bool isPacked : {false, true}) {
      check(tiles(), random, type, type, type, 1030, 9, 32, false, isPacked);
      check(tiles(), random, type, type, type, 130, 20, 400, false, isPacked);
      check(tiles(), random, type, type, type, 7, 780, 1040, false, isPacked);
      check(tiles(), random, type, type, type, 50, 20, 1000, false, isPacked);
    }
}

/// Of few terms and many numbers, which has other blocks.
TEST_P(TiledProductTest, HasThemOfFewTerms) {
  std::minstd_rand random(5);
  constexpr DataType type = DataType::F32;
  for (bool isPacked : {false, true, false})
    check(tiles(), random, type, type, type, 270, 100, 1000, isPacked,
          isPacked);
}

/// Of few rows or columns, whose other factor is read where it lies, or several
/// panels of it at once.
TEST_P(TiledProductTest, HasThemOfFewRows) {
  std::minstd_rand random(13);
  constexpr DataType type = DataType::F32;
  for (int round = 0; round < 300; ++round) {
    int64_t few = 1 + random() % 4, many = 1 + random() % 150;
    const int64_t k = 1 + random() % (round % 3 == 0 ? 1700 : 100);
    const bool isPacked = round % 3 == 1;
    if (random() % 2)
      std::swap(few, many);
    check(tiles(), random, type, type, type, few, k, many, random() % 2,
          isPacked);
    if (HasFatalFailure())
      return;
  }
  // Several strips of columns, and columns that no cache holds.
  for (int64_t rows : {1, 2, 3, 1})
    check(tiles(), random, type, type, type, rows, 900, 5000, rows == 2, false);
}

/// Of so few terms that writing the result is all that takes time; some are
/// written past the caches.
TEST_P(TiledProductTest, HasThemOfFewTermsAndManyNumbers) {
  std::minstd_rand random(17);
  constexpr DataType type = DataType::F32;
  for (int64_t k : {1, 3, 7, 8})
    check(tiles(), random, type, type, type, 515, k, 530, k == 3, false);
  for (int64_t columns : {2048, 2050})
    check(tiles(), random, type, type, type, 2050, 2, columns, false, false);
}

/// Of so few numbers that they are multiplied one by one.
TEST_P(TiledProductTest, HasThemOfAFewNumbers) {
  std::minstd_rand random(3);
  constexpr DataType type = DataType::F32;
  for (int round = 0; round < 100; ++round)
    check(tiles(), random, type, type, type, 1 + random() % 6, 1 + random() % 4,
          1 + random() % 9, /*isAdded=*/random() % 2, /*isPacked=*/false);
}

} // namespace
