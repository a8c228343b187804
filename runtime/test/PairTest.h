//===- PairTest.h - Tests of products of pairs of bf16 ----------*- C++ -*-===//
#ifndef PP_RUNTIME_TEST_PAIRTEST_H
#define PP_RUNTIME_TEST_PAIRTEST_H

#include "cpu/PairProduct.h"
#include "plan/ShortFloat.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace pp::runtime {

using Shorts = std::vector<uint16_t>;

inline float wide(uint16_t number) {
  return fromShortFloat(DataType::BF16, number);
}

class PairTest : public testing::Test {
protected:
  void SetUp() override {
    if (!hasPairProducts())
      GTEST_SKIP() << "this processor has no such products";
  }

  /// Small whole numbers, whose sums are exact.
  Shorts makeWhole(int64_t count) {
    std::uniform_int_distribution<int> pick(-3, 3);
    return make(count, [&] { return float(pick(random)); });
  }
  /// Numbers whose sums depend on their order.
  Shorts makeAny(int64_t count) {
    std::normal_distribution<float> pick;
    return make(count, [&] { return pick(random); });
  }

private:
  template <typename Pick> static Shorts make(int64_t count, Pick pick) {
    Shorts result(count);
    for (uint16_t &number : result)
      number = toShortFloat(DataType::BF16, pick());
    return result;
  }

  std::minstd_rand random{1};
};

} // namespace pp::runtime

#endif // PP_RUNTIME_TEST_PAIRTEST_H
