//===- AttentionMaskTest.cpp - Rows that a mask hides ---------------------===//
#include "cpu/LibraryKernel.h"
#include "plan/ShortFloat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

using namespace pp::runtime;

namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

/// One head of `rows` rows and columns; numbers are kept as f32 and rounded to
/// the type where a kernel reads them.
struct Head {
  static constexpr int64_t rows = 70, width = 16, size = rows * width;
  std::string type;

  using Numbers = std::vector<float>;
  Numbers random(unsigned seed) const {
    std::minstd_rand random(seed);
    std::normal_distribution<float> normal;
    Numbers numbers(size);
    for (float &number : numbers)
      number = normal(random);
    return numbers;
  }
  bool isShort() const { return type != "f32"; }
  std::vector<char> store(const Numbers &numbers) const {
    std::vector<char> bytes(numbers.size() * 4);
    for (size_t i = 0; i < numbers.size(); ++i)
      if (isShort())
        reinterpret_cast<uint16_t *>(bytes.data())[i] =
            toShortFloat(DataType::BF16, numbers[i]);
      else
        reinterpret_cast<float *>(bytes.data())[i] = numbers[i];
    return bytes;
  }
  Numbers load(const std::vector<char> &bytes) const {
    Numbers numbers(size);
    for (int64_t i = 0; i < size; ++i)
      numbers[i] =
          isShort() ? fromShortFloat(
                          DataType::BF16,
                          reinterpret_cast<const uint16_t *>(bytes.data())[i])
                    : reinterpret_cast<const float *>(bytes.data())[i];
    return numbers;
  }

  struct Results {
    Numbers output, logsumexp, diffQuery, diffKey, diffValue;
  };
  /// Forward and backward; `mask` has a row for each of the query, or is empty.
  Results run(Numbers mask, bool isCausal, const std::string &more = "") const {
    const std::string dims = "1x1x" + std::to_string(rows) + "x";
    const std::string keys =
        " q=" + dims + std::to_string(width) + " k=" + dims +
        std::to_string(width) + " v=" + dims + std::to_string(width) +
        " scale=0.25 causal=" + (isCausal ? "1" : "0") + " types=" + type +
        (mask.empty() ? "" : " mask=" + dims + std::to_string(rows)) + more;
    std::vector<char> q = store(random(1)), k = store(random(2)),
                      v = store(random(3)), diff = store(random(4)),
                      out(size * 4), dq(size * 4), dk(size * 4), dv(size * 4);
    Results results;
    results.logsumexp.resize(rows);
    auto call = [&](const std::string &kind, std::vector<void *> tensors) {
      std::string error;
      auto kernel = LibraryKernel::create(kind + keys, error);
      ASSERT_TRUE(kernel) << error;
      ASSERT_EQ(kernel->tensorCount(), tensors.size());
      void *scratchpad = std::aligned_alloc(
          64, std::max<size_t>(64, kernel->scratchpadBytes()));
      EXPECT_TRUE(kernel->execute(tensors.data(), scratchpad));
      std::free(scratchpad);
    };
    std::vector<void *> forward = {q.data(), k.data(), v.data()},
                        backward = {q.data(),
                                    k.data(),
                                    v.data(),
                                    out.data(),
                                    results.logsumexp.data(),
                                    diff.data()};
    if (!mask.empty()) {
      forward.push_back(mask.data());
      backward.push_back(mask.data());
    }
    forward.insert(forward.end(), {out.data(), results.logsumexp.data()});
    backward.insert(backward.end(), {dq.data(), dk.data(), dv.data()});
    call("attention_forward", forward);
    call("attention_backward", backward);
    results.output = load(out);
    results.diffQuery = load(dq);
    results.diffKey = load(dk);
    results.diffValue = load(dv);
    return results;
  }
};

class AttentionMaskTest : public testing::TestWithParam<const char *> {
protected:
  Head head{GetParam()};
  float tolerance() const { return head.isShort() ? 0.03f : 2e-5f; }
  void compare(const Head::Numbers &a, const Head::Numbers &b) const {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], tolerance()) << i;
  }
};

TEST_P(AttentionMaskTest, OfWhatIsAboveTheDiagonalIsCausal) {
  Head::Numbers mask(Head::rows * Head::rows);
  for (int64_t row = 0; row < Head::rows; ++row)
    for (int64_t column = row + 1; column < Head::rows; ++column)
      mask[row * Head::rows + column] = hidden;
  const Head::Results masked = head.run(mask, false),
                      causal = head.run({}, true);
  compare(masked.output, causal.output);
  compare(masked.logsumexp, causal.logsumexp);
  compare(masked.diffQuery, causal.diffQuery);
  compare(masked.diffKey, causal.diffKey);
  compare(masked.diffValue, causal.diffValue);
}

TEST_P(AttentionMaskTest, ThatHidesARowMakesZeros) {
  constexpr int64_t row = 55;
  Head::Numbers mask(Head::rows * Head::rows);
  std::fill_n(&mask[row * Head::rows], Head::rows, hidden);
  const Head::Results masked = head.run(mask, false, " zeroed=1"),
                      all = head.run({}, false);
  EXPECT_EQ(masked.logsumexp[row], -hidden);
  for (int64_t i = 0; i < Head::width; ++i) {
    EXPECT_EQ(masked.output[row * Head::width + i], 0);
    EXPECT_EQ(masked.diffQuery[row * Head::width + i], 0);
  }
  for (int64_t i = 0; i < Head::size; ++i) {
    ASSERT_TRUE(std::isfinite(masked.diffKey[i])) << i;
    ASSERT_TRUE(std::isfinite(masked.diffValue[i])) << i;
    if (i / Head::width != row)
      ASSERT_NEAR(masked.output[i], all.output[i], tolerance()) << i;
  }
}

TEST_P(AttentionMaskTest, ThatHidesARowMakesNoNumbers) {
  constexpr int64_t row = 3;
  Head::Numbers mask(Head::rows * Head::rows);
  std::fill_n(&mask[row * Head::rows], Head::rows, hidden);
  const Head::Results masked = head.run(mask, false), all = head.run({}, false);
  for (int64_t i = 0; i < Head::size; ++i)
    if (i / Head::width == row) {
      ASSERT_TRUE(std::isnan(masked.output[i])) << i;
      ASSERT_TRUE(std::isnan(masked.diffQuery[i])) << i;
    } else {
      ASSERT_NEAR(masked.output[i], all.output[i], tolerance()) << i;
    }
}

// As exporters write what is hidden; behind it, scores differ no more.
TEST_P(AttentionMaskTest, OfLowestNumbersMakesMeans) {
  constexpr int64_t row = 44;
  for (float lowest : {std::numeric_limits<float>::lowest(), -1e9f}) {
    Head::Numbers mask(Head::rows * Head::rows);
    std::fill_n(&mask[row * Head::rows], Head::rows, lowest);
    const Head::Results masked = head.run(mask, false),
                        all = head.run({}, false);
    const Head::Numbers value = head.random(3), diff = head.random(4);
    for (int64_t i = 0; i < Head::width; ++i) {
      float mean = 0;
      for (int64_t column = 0; column < Head::rows; ++column)
        mean += value[column * Head::width + i] / Head::rows;
      ASSERT_NEAR(masked.output[row * Head::width + i], mean, tolerance());
      // The weights of each row add up to 1, so all of its gradient arrives.
      float sum = 0, whole = 0;
      for (int64_t column = 0; column < Head::rows; ++column) {
        sum += masked.diffValue[column * Head::width + i];
        whole += diff[column * Head::width + i];
      }
      ASSERT_NEAR(sum, whole, 50 * tolerance());
    }
    for (int64_t i = 0; i < Head::size; ++i)
      if (i / Head::width != row)
        ASSERT_NEAR(masked.diffQuery[i], all.diffQuery[i], tolerance()) << i;
  }
}

TEST_P(AttentionMaskTest, FitsTheScores) {
  std::string error;
  for (const char *mask : {"1x1x2x3", "2x3x5x7", "3x1x2x5", "2x3x1x1", "2x3x2"})
    EXPECT_FALSE(LibraryKernel::create(
        "attention_forward q=2x3x2x4 k=2x3x5x4 v=2x3x5x4 scale=1 causal=0 "
        "types=" +
            head.type + " mask=" + mask,
        error))
        << mask;
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionMaskTest,
                         testing::Values("f32", "bf16"));

} // namespace
