//===- PairMatrixProductTest.cpp - Gradients of weights in pairs ----------===//
#include "cpu/PairMatrixProduct.h"
#include "PairTest.h"

#include <algorithm>
#include <vector>

using namespace pp::runtime;
using Sizes = PairMatrixProduct::Shape;

namespace {

class PairMatrixProductTest : public PairTest {};

/// With memory that is no number where nothing was written.
std::vector<char> scratchpadOf(const PairMatrixProduct &product) {
  return std::vector<char>(product.getScratchpadBytes() + 64, char(0xff));
}

/// Rows with gaps between them.
Sizes ofRows(int64_t m, int64_t k, int64_t n, int64_t aRow, int64_t bRow,
             int64_t cRow) {
  return {m,
          k,
          n,
          PairMatrixProduct::ofRows(k, aRow),
          PairMatrixProduct::ofRows(k, bRow),
          cRow};
}

/// Two samples of 3 x 5 pixels in blocks of 16 channels, of which every second
/// row and column is read.
PairMatrixProduct::Terms ofPixels(int64_t channels) {
  constexpr int64_t size = 3 * 5 * 16;
  return {{2, 1, 2, 3}, {channels / 16 * size, 0, 2 * 5 * 16, 2 * 16}, size};
}

/// More rows and columns than a block has, or fewer; an odd number of terms.
const Sizes shapes[] = {
    ofRows(16, 1, 16, 16, 16, 16),
    ofRows(16, 2, 48, 20, 48, 50),
    ofRows(208, 7, 80, 208, 96, 80),
    ofRows(96, 33, 32, 97, 40, 35),
    {112, 12, 48, ofPixels(112), ofPixels(48), 48},
    {32, 12, 16, PairMatrixProduct::ofRows(12, 32), ofPixels(16), 16}};

/// Where a number of a factor is.
int64_t placeOf(const PairMatrixProduct::Terms &terms, int64_t term,
                int64_t column) {
  int64_t at = column / 16 * terms.block + column % 16;
  for (int axis = 3; axis >= 0; --axis) {
    at += term % terms.counts[axis] * terms.strides[axis];
    term /= terms.counts[axis];
  }
  return at;
}

/// The numbers of memory that it needs.
int64_t sizeOf(const PairMatrixProduct::Terms &terms, int64_t k,
               int64_t columns) {
  return placeOf(terms, k - 1, columns - 1) + 1;
}

TEST_F(PairMatrixProductTest, MatchesLoops) {
  for (const Sizes &of : shapes)
    for (bool isAdded : {false, true}) {
      ASSERT_TRUE(PairMatrixProduct::isPossible(of));
      const Shorts a = makeWhole(sizeOf(of.a, of.k, of.m));
      const Shorts b = makeWhole(sizeOf(of.b, of.k, of.n));
      std::vector<float> c(of.m * of.cRow, 3), expected = c;
      for (int64_t i = 0; i < of.m; ++i)
        for (int64_t j = 0; j < of.n; ++j) {
          float &sum = expected[i * of.cRow + j];
          sum = isAdded ? sum : 0;
          for (int64_t term = 0; term < of.k; ++term)
            sum += wide(a[placeOf(of.a, term, i)]) *
                   wide(b[placeOf(of.b, term, j)]);
        }
      const PairMatrixProduct product(of, isAdded);
      std::vector<char> scratchpad = scratchpadOf(product);
      product.run(a.data(), b.data(), c.data(), scratchpad.data());
      EXPECT_EQ(c, expected) << of.m << " x " << of.k << " x " << of.n;
      EXPECT_EQ(std::count(scratchpad.end() - 64, scratchpad.end(), char(0xff)),
                64);
    }
  EXPECT_FALSE(PairMatrixProduct::isPossible(ofRows(24, 2, 16, 24, 16, 16)));
  EXPECT_FALSE(PairMatrixProduct::isPossible(ofRows(16, 2, 24, 16, 24, 24)));
}

/// The bits of one after the other, of which only the first begins anew.
TEST_F(PairMatrixProductTest, AddsSeveralAtOnce) {
  for (const Sizes &of : shapes)
    for (bool isFirst : {false, true}) {
      constexpr int64_t count = 3;
      std::vector<Shorts> a, b;
      std::vector<PairMatrixProduct::Factors> factors;
      for (int64_t i = 0; i < count; ++i) {
        a.push_back(makeAny(sizeOf(of.a, of.k, of.m)));
        b.push_back(makeAny(sizeOf(of.b, of.k, of.n)));
      }
      for (int64_t i = 0; i < count; ++i)
        factors.push_back({a[i].data(), b[i].data()});
      std::vector<float> expected(of.m * of.cRow, 0.3f), found = expected;
      for (int64_t i = 0; i < count; ++i) {
        const PairMatrixProduct one(of, /*isAdded=*/i > 0 || !isFirst);
        std::vector<char> scratchpad = scratchpadOf(one);
        one.run(a[i].data(), b[i].data(), expected.data(), scratchpad.data());
      }
      const PairMatrixProduct sums(of, /*isAdded=*/true, count);
      ASSERT_EQ(sums.atOnce(), count);
      std::vector<char> scratchpad = scratchpadOf(sums);
      sums.run(factors, found.data(), isFirst, scratchpad.data());
      EXPECT_EQ(found, expected) << of.m << " x " << of.k << " x " << of.n;
      EXPECT_EQ(std::count(scratchpad.end() - 64, scratchpad.end(), char(0xff)),
                64);
    }
}

/// Columns, and rows, of a gradient have the bits of the whole.
TEST_F(PairMatrixProductTest, PartsHaveTheBitsOfTheWhole) {
  const Sizes of = ofRows(128, 75, 96, 128, 96, 96);
  const Shorts a = makeAny(of.k * of.m), b = makeAny(of.k * of.n);
  std::vector<float> whole(of.m * of.n), parts(of.m * of.n);
  auto run = [&](const Sizes &shape, int64_t row, int64_t column,
                 std::vector<float> &c) {
    const PairMatrixProduct product(shape, /*isAdded=*/false);
    std::vector<char> scratchpad = scratchpadOf(product);
    product.run(&a[row], &b[column], &c[row * of.cRow + column],
                scratchpad.data());
  };
  run(of, 0, 0, whole);
  for (int64_t row : {0, 48})
    for (int64_t column : {0, 16}) {
      Sizes part = of;
      part.m = row == 0 ? 48 : 80;
      part.n = column == 0 ? 16 : 80;
      run(part, row, column, parts);
    }
  EXPECT_EQ(parts, whole);
}

} // namespace
