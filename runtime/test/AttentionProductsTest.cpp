//===- AttentionProductsTest.cpp ------------------------------------------===//
#include "cpu/AttentionProducts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace pp::runtime;

namespace {

using Sizes = AttentionProducts::Sizes;
using Numbers = std::vector<float>;

struct Head {
  Sizes sizes;
  bool inTiles;
  Numbers query, key, value, diffOutput;
  Numbers output, logsumexp, diffQuery, diffKey, diffValue;

  Head(const Sizes &sizes, bool inTiles)
      : sizes(sizes), inTiles(inTiles), query(sizes.rows * sizes.width),
        key(sizes.columns * sizes.width),
        value(sizes.columns * sizes.valueWidth),
        diffOutput(sizes.rows * sizes.valueWidth), output(diffOutput.size()),
        logsumexp(sizes.rows), diffQuery(query.size()), diffKey(key.size()),
        diffValue(value.size()) {
    std::minstd_rand random(5);
    std::normal_distribution<float> normal;
    for (Numbers *numbers : {&query, &key, &value, &diffOutput})
      for (float &number : *numbers)
        number = normal(random);
  }
  void run() {
    const AttentionProducts attention(
        sizes, AttentionLayouts::dense(sizes.width, sizes.valueWidth), inTiles);
    constexpr size_t line = 64;
    auto *scratchpad = static_cast<char *>(
        std::aligned_alloc(line, attention.measureBackward()));
    // As two parts would.
    const int64_t half = (attention.countBlocks() + 1) / 2;
    attention.forward({half, attention.countBlocks() - half}, query.data(),
                      key.data(), value.data(), {}, {}, output.data(),
                      logsumexp.data(), scratchpad);
    attention.forward({0, half}, query.data(), key.data(), value.data(), {}, {},
                      output.data(), logsumexp.data(), scratchpad);
    attention.backward(query.data(), key.data(), value.data(), output.data(),
                       logsumexp.data(), diffOutput.data(), {}, {},
                       {diffQuery.data(), diffKey.data(), diffValue.data()},
                       scratchpad);
    std::free(scratchpad);
  }
};

class AttentionProductsTest : public testing::Test {
protected:
  void SetUp() override {
    if (!TiledProduct::isPossible())
      GTEST_SKIP() << "this processor has no such registers";
  }
};

/// oneDNN's products, which are those of processors without AVX2, say the same.
TEST_F(AttentionProductsTest, AgreesWithTheLibrary) {
  for (const Sizes &sizes :
       {Sizes{1, 1, 1, 1, 1, true}, Sizes{5, 7, 4, 3, 0.5, false},
        Sizes{48, 48, 64, 64, 0.125, true}, Sizes{49, 49, 8, 20, 0.3, true},
        Sizes{131, 40, 16, 24, 0.25, false},
        Sizes{150, 150, 64, 64, 0.125, true},
        Sizes{64, 800, 64, 16, 0.125, false}}) {
    SCOPED_TRACE(std::to_string(sizes.rows) + " x " +
                 std::to_string(sizes.columns) + " x " +
                 std::to_string(sizes.width));
    Head own(sizes, true), other(sizes, false);
    own.run();
    other.run();
    auto compare = [](const Numbers &a, const Numbers &b) {
      for (size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(a[i], b[i], 3e-5) << i;
    };
    compare(own.output, other.output);
    compare(own.logsumexp, other.logsumexp);
    compare(own.diffQuery, other.diffQuery);
    compare(own.diffKey, other.diffKey);
    compare(own.diffValue, other.diffValue);
  }
}

/// Two keys, of which one has the score 0 and the other x.
TEST_F(AttentionProductsTest, IsExactForAnyScore) {
  for (float x = -120; x <= 120; x += 0.37f) {
    Head head({1, 2, 1, 1, 1, false}, true);
    head.query = {1};
    head.key = {0, x};
    head.value = {0, 1};
    head.diffOutput = {1};
    head.run();
    const double expected = 1 / (1 + std::exp(-double(x)));
    EXPECT_NEAR(head.output[0], expected, 3e-7 * expected + 1e-37) << x;
    EXPECT_NEAR(head.logsumexp[0], std::log(1 + std::exp(double(x))),
                1e-6 * std::max(1.0f, std::abs(x)))
        << x;
    EXPECT_NEAR(head.diffKey[1], expected * (1 - expected), 2e-6) << x;
  }
}

/// What is no number stays in the rows that see it.
TEST_F(AttentionProductsTest, KeepsWhatIsNoNumber) {
  Head head({60, 60, 16, 16, 0.25, true}, true);
  head.query[50 * 16] = std::numeric_limits<float>::quiet_NaN();
  head.run();
  for (int64_t row = 0; row < 60; ++row)
    EXPECT_EQ(std::isnan(head.output[row * 16]), row == 50) << row;
  head = Head({60, 60, 16, 16, 0.25, true}, true);
  head.key[50 * 16] = std::numeric_limits<float>::infinity();
  head.run();
  for (int64_t row = 0; row < 50; ++row)
    EXPECT_FALSE(std::isnan(head.output[row * 16])) << row;
}

/// Each row of the query sees the same in a matrix of fewer rows.
TEST_F(AttentionProductsTest, RowsDoNotDependOnTheirNumber) {
  Head many({100, 70, 32, 16, 0.2, false}, true),
      few({52, 70, 32, 16, 0.2, false}, true);
  many.run();
  few.query.assign(many.query.begin(), many.query.begin() + 52 * 32);
  few.key = many.key;
  few.value = many.value;
  few.run();
  for (size_t i = 0; i < few.output.size(); ++i)
    ASSERT_EQ(few.output[i], many.output[i]) << i;
}

} // namespace
