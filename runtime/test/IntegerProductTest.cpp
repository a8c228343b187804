//===- IntegerProductTest.cpp ---------------------------------------------===//
#include "cpu/IntegerProduct.h"
#include "cpu/DivideKernel.h"
#include "cpu/KernelOperands.h"
#include "cpu/LibraryKernel.h"
#include "kernel/Part.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

using namespace pp::runtime;

namespace {
/// A product with the largest numbers among its factors.
struct Numbers {
  IntegerProduct product;
  std::vector<uint8_t> a;
  std::vector<int8_t> b; // panels
  std::vector<int32_t> expected;

  Numbers(int64_t rows, int64_t terms, int64_t columns, unsigned seed)
      : product{rows, terms, columns}, a(rows * terms),
        b(product.countPanels() * product.panelBytes(), int8_t(77)),
        expected(rows * columns) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> number(0, 255), kind(0, 3);
    for (uint8_t &value : a)
      value = static_cast<uint8_t>(kind(random) == 0 ? 255 : number(random));
    std::vector<int8_t> matrix(terms * columns);
    for (int64_t k = 0; k < terms; ++k)
      for (int64_t n = 0; n < columns; ++n) {
        int value = kind(random) == 0 ? -128 : number(random) - 128;
        matrix[k * columns + n] = static_cast<int8_t>(value);
        b[n / 64 * product.panelBytes() + k / 4 * 256 + n % 64 * 4 + k % 4] =
            static_cast<int8_t>(value);
      }
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < terms; ++k)
        for (int64_t n = 0; n < columns; ++n)
          expected[row * columns + n] +=
              a[row * terms + k] * matrix[k * columns + n];
  }

  std::vector<int32_t> run(IntegerProduct::Way way) const {
    IntegerProduct own = product;
    own.way = way;
    std::vector<int32_t> c(expected.size(), -1);
    std::vector<std::byte> scratchpad(own.getScratchpadBytes());
    own.run(a.data(), b.data(), c.data(), 0, own.countPanels(),
            scratchpad.data());
    return c;
  }

  std::string descriptor(const std::string &more = "") const {
    return "integer_product rows=" + std::to_string(product.rows) +
           " terms=" + std::to_string(product.terms) +
           " columns=" + std::to_string(product.columns) + more;
  }
};

/// Those of this processor.
std::vector<IntegerProduct::Way> waysHere() {
  using Way = IntegerProduct::Way;
  std::vector<Way> ways = {Way::Anywhere};
  if (hasIntegerProducts())
    ways.push_back(Way::Avx2);
  if (hasByteProducts())
    ways.push_back(Way::Vnni);
  return ways;
}
} // namespace

TEST(IntegerProduct, AddsUpExactly) {
  unsigned seed = 0;
  for (int64_t rows : {1, 2, 5, 6, 7, 13, 103})
    for (int64_t terms : {1, 3, 4, 30, 257})
      for (int64_t columns : {1, 15, 16, 63, 64, 65, 130}) {
        Numbers numbers(rows, terms, columns, ++seed);
        for (IntegerProduct::Way way : waysHere())
          EXPECT_EQ(numbers.run(way), numbers.expected) << numbers.descriptor();
      }
}

TEST(IntegerProduct, WrapsAround) {
  // 255 * -128 fits into the sum 65,793 times.
  Numbers numbers(1, 65'800, 2, 1);
  std::fill(numbers.a.begin(), numbers.a.end(), uint8_t(255));
  std::fill(numbers.b.begin(), numbers.b.end(), int8_t(-128));
  const int64_t sum = -int64_t(255) * 128 * 65'800;
  const auto wrapped = static_cast<int32_t>(static_cast<uint32_t>(sum));
  ASSERT_GT(wrapped, 0);
  for (IntegerProduct::Way way : waysHere())
    EXPECT_EQ(numbers.run(way), std::vector<int32_t>(2, wrapped));
}

TEST(IntegerProduct, IsDivided) {
  Numbers numbers(5, 30, 200, 1);
  std::string error;
  for (unsigned parts : {1u, 2u, 3u}) {
    auto kernel = LibraryKernel::create(
        numbers.descriptor(parts == 1 ? "" : " parts=" + std::to_string(parts)),
        error);
    ASSERT_TRUE(kernel) << error;
    const GuardedMemory scratchpad(kernel->scratchpadBytes());
    std::vector<int32_t> c(numbers.expected.size(), -1);
    void *tensors[] = {numbers.a.data(), numbers.b.data(), c.data()};
    for (unsigned index = 0; index < parts; ++index) {
      currentPart() = {index, parts};
      EXPECT_TRUE(kernel->execute(tensors, scratchpad.get()));
    }
    currentPart() = {};
    EXPECT_EQ(c, numbers.expected) << parts << " parts";
  }
}

TEST(IntegerProduct, IsDividedForThreads) {
  const std::string whole = "integer_product rows=3 terms=9 columns=200";
  EXPECT_EQ(divideKernel(whole, 2), whole + " parts=2");
}

TEST(IntegerProduct, RefusesWhatItCannotCount) {
  std::string error;
  for (const char *text :
       {"integer_product rows=0 terms=9 columns=3",
        "integer_product rows=3 terms=9", "integer_product terms=9 columns=3",
        "integer_product rows=3 terms=9 columns=64 parts=2",
        "integer_product rows=3 terms=9 columns=3 types=bf16"}) {
    EXPECT_FALSE(LibraryKernel::create(text, error)) << text;
    EXPECT_NE(error.find("integer_product"), std::string::npos) << error;
  }
}
