//===- MatmulMappingTest.cpp - Against the definition, on random strides --===//
#include "cuda/MatmulMapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace pp::cuda;
using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;

namespace {

using Dims = std::vector<int64_t>;

std::string join(const Dims &dims) {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

struct Problem {
  Dims dims[3], strides[3]; // a, b, c
  std::string getText() const {
    std::string text = "matmul";
    for (int i = 0; i < 3; ++i)
      text += std::string(" ") + "abc"[i] + "=" + join(dims[i]);
    for (int i = 0; i < 3; ++i)
      text += std::string(" ") + "abc"[i] + "s=" + join(strides[i]);
    return text;
  }
  size_t getSize(int operand) const {
    size_t last = 0;
    for (size_t i = 0; i < dims[operand].size(); ++i)
      last += (dims[operand][i] - 1) * strides[operand][i];
    return last + 1;
  }
};

/// What the table in docs/plan-format.md says, one element after the other.
void evaluate(const Problem &p, const std::vector<float> &a,
              const std::vector<float> &b, std::vector<float> &c) {
  size_t rank = p.dims[2].size();
  int64_t depth = p.dims[0][rank - 1];
  Dims index(rank, 0);
  auto offset = [&](int operand, int64_t row, int64_t column) {
    int64_t at = 0;
    for (size_t i = 0; i + 2 < rank; ++i)
      at += (p.dims[operand][i] == 1 ? 0 : index[i]) * p.strides[operand][i];
    return at + row * p.strides[operand][rank - 2] +
           column * p.strides[operand][rank - 1];
  };
  while (true) {
    float sum = 0;
    for (int64_t k = 0; k < depth; ++k)
      sum +=
          a[offset(0, index[rank - 2], k)] * b[offset(1, k, index[rank - 1])];
    c[offset(2, index[rank - 2], index[rank - 1])] = sum;
    size_t i = rank;
    while (i-- > 0) {
      if (++index[i] < p.dims[2][i])
        break;
      index[i] = 0;
    }
    if (i == size_t(-1))
      return;
  }
}

/// cublasLtMatmul, with the checks that it makes of its layouts.
void emulate(const MatmulMapping &map, const std::vector<float> &a,
             const std::vector<float> &b, std::vector<float> &c) {
  const std::vector<float> &xs = map.isSwapped ? b : a;
  const std::vector<float> &ys = map.isSwapped ? a : b;
  auto check = [](const ColumnMajor &matrix, int64_t rows, int64_t columns) {
    ASSERT_GE(matrix.leading, matrix.rows);
    ASSERT_EQ(matrix.isTransposed ? matrix.columns : matrix.rows, rows);
    ASSERT_EQ(matrix.isTransposed ? matrix.rows : matrix.columns, columns);
  };
  check(map.x, map.rows, map.depth);
  check(map.y, map.depth, map.columns);
  check(map.d, map.rows, map.columns);
  ASSERT_FALSE(map.d.isTransposed);
  auto at = [](const ColumnMajor &matrix, int64_t row, int64_t column) {
    return matrix.isTransposed ? column + row * matrix.leading
                               : row + column * matrix.leading;
  };
  for (const auto &outer : map.outer)
    for (int64_t n = 0; n < map.batch; ++n) {
      int64_t x = outer.x + n * map.x.batchStride;
      int64_t y = outer.y + n * map.y.batchStride;
      int64_t d = outer.d + n * map.d.batchStride;
      for (auto [offset, matrix] :
           {std::pair{outer.x, &map.x}, {outer.y, &map.y}, {outer.d, &map.d}})
        ASSERT_EQ(offset * 4 % matrix->alignment, 0);
      for (int64_t i = 0; i < map.rows; ++i)
        for (int64_t j = 0; j < map.columns; ++j) {
          float sum = 0;
          for (int64_t k = 0; k < map.depth; ++k)
            sum += xs.at(x + at(map.x, i, k)) * ys.at(y + at(map.y, k, j));
          c.at(d + at(map.d, i, j)) = sum;
        }
    }
}

/// Strides of a dense tensor with its dimensions in a random order and random
/// gaps, so that nothing overlaps.
Dims randomStrides(const Dims &dims, std::mt19937 &random, bool unit) {
  Dims order(dims.size()), strides(dims.size());
  std::iota(order.begin(), order.end(), 0);
  if (unit) {
    // One of the matrix's dimensions stays innermost.
    std::shuffle(order.begin(), order.end() - 2, random);
    if (random() % 2)
      std::swap(order[dims.size() - 2], order[dims.size() - 1]);
    if (dims.size() > 2 && random() % 2)
      std::swap(order[random() % (dims.size() - 2)], order[dims.size() - 2]);
  } else {
    std::shuffle(order.begin(), order.end(), random);
  }
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= dims[order[i]];
    if (random() % 4 == 0)
      stride += random() % 3;
  }
  return strides;
}

Problem randomProblem(std::mt19937 &random, bool unit) {
  auto size = [&] { return int64_t(random() % 4 + 1); };
  size_t batch = random() % 4;
  Problem p;
  for (size_t i = 0; i < batch; ++i) {
    int64_t n = size();
    p.dims[2].push_back(n);
    p.dims[0].push_back(random() % 4 == 0 ? 1 : n);
    p.dims[1].push_back(random() % 4 == 0 ? 1 : n);
  }
  int64_t m = size(), n = size(), k = size();
  for (auto [operand, row, column] :
       {std::tuple{0, m, k}, {1, k, n}, {2, m, n}}) {
    p.dims[operand].push_back(row);
    p.dims[operand].push_back(column);
    p.strides[operand] = randomStrides(p.dims[operand], random, unit);
  }
  return p;
}

std::vector<float> randomValues(size_t count, std::mt19937 &random) {
  std::vector<float> values(count);
  for (float &value : values)
    value = float(int(random() % 17) - 8);
  return values;
}

/// Returns whether the problem can be expressed.
bool check(const Problem &p, std::mt19937 &random) {
  auto a = randomValues(p.getSize(0), random);
  auto b = randomValues(p.getSize(1), random);
  std::vector<float> expected(p.getSize(2), 100), actual = expected;
  Descriptor descriptor(p.getText());
  MatmulMapping map;
  try {
    map = mapMatmul(descriptor);
  } catch (const DescriptorError &e) {
    EXPECT_NE(std::string(e.what()).find("contiguous"), std::string::npos)
        << p.getText() << ": " << e.what();
    return false;
  }
  descriptor.checkAllUsed();
  evaluate(p, a, b, expected);
  emulate(map, a, b, actual);
  // Small integers: exact in any order.
  EXPECT_EQ(actual, expected) << p.getText();
  return true;
}

TEST(MatmulMapping, EveryProblemWithAContiguousDimensionIsExpressed) {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    Problem p = randomProblem(random, /*unit=*/true);
    ASSERT_TRUE(check(p, random)) << p.getText();
  }
}

TEST(MatmulMapping, AnyStridesAreRightOrRefused) {
  std::mt19937 random(2);
  int expressed = 0;
  for (int i = 0; i < 5000; ++i)
    expressed += check(randomProblem(random, /*unit=*/false), random);
  EXPECT_GT(expressed, 500);
  EXPECT_LT(expressed, 5000);
}

MatmulMapping map(const char *text) {
  Descriptor descriptor(text);
  return mapMatmul(descriptor);
}

TEST(MatmulMapping, AttentionIsOneCallForEachSampleWithTheHeadsAsBatch) {
  // Queries times keys, heads of 16 inside rows of 64.
  MatmulMapping m = map("matmul a=2x4x32x16 b=2x4x16x32 c=2x4x32x32 "
                        "as=2048x16x64x1 bs=2048x16x1x64 cs=4096x1024x32x1");
  EXPECT_TRUE(m.isSwapped);
  EXPECT_EQ(m.outer.size(), 2u);
  EXPECT_EQ(m.batch, 4);
  EXPECT_TRUE(m.x.isTransposed);
  EXPECT_EQ(m.x.leading, 64);
  EXPECT_FALSE(m.y.isTransposed);
  EXPECT_EQ(m.y.batchStride, 16);
  EXPECT_EQ(m.d.batchStride, 1024);
  EXPECT_EQ(m.x.alignment, 64);
}

TEST(MatmulMapping, AlignmentIsInBytesOfTheType) {
  // Heads of 4 inside rows of 8: the second one's are called for apart.
  std::string text = "matmul a=8x2x32x4 b=8x2x4x32 c=8x2x32x32 as=256x4x8x1 "
                     "bs=256x4x1x8 cs=2048x1024x32x1";
  MatmulMapping m = map(text.c_str());
  EXPECT_EQ(m.outer.size(), 2u);
  EXPECT_EQ(m.x.alignment, 16);
  EXPECT_FALSE(m.allowsTf32);
  m = map((text + " types=bf16xbf16xf32").c_str());
  EXPECT_EQ(m.x.alignment, 8);
  EXPECT_EQ(m.y.alignment, 8);
  EXPECT_EQ(m.d.alignment, 64);
  EXPECT_EQ(m.x.type, ElementType::BF16);
  EXPECT_EQ(m.d.type, ElementType::F32);
  EXPECT_TRUE(map((text + " compute=tf32").c_str()).allowsTf32);
}

TEST(MatmulMapping, DenseBatchesAreOneCall) {
  MatmulMapping m = map("matmul a=2x3x4x5 b=2x3x5x6 c=2x3x4x6");
  EXPECT_EQ(m.outer.size(), 1u);
  EXPECT_EQ(m.batch, 6);
  // The same weights for all: more rows.
  m = map("matmul a=2x3x4x5 b=1x1x5x6 c=2x3x4x6");
  EXPECT_EQ(m.batch, 1);
  EXPECT_EQ(m.columns, 24);
}

TEST(MatmulMapping, FaultsAreNamed) {
  auto message = [](const char *text) {
    try {
      map(text);
    } catch (const DescriptorError &e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("matmul a=4 b=4 c=4"),
            "a: expected at least two dimensions");
  EXPECT_EQ(message("matmul a=2x3 b=4x5 c=2x5"),
            "c: the matrices' dimensions disagree");
  EXPECT_EQ(message("matmul a=2x3x3 b=4x3x3 c=4x3x3"),
            "c: batch dimensions disagree");
  EXPECT_EQ(message("matmul a=2x3x3 b=2x3x3 c=2x3x3 cs=0x3x1"),
            "cs: a result cannot be broadcast");
  EXPECT_NE(message("matmul a=3x3 b=3x3 c=3x3 as=6x2").find("as: cuBLASLt"),
            std::string::npos);
  EXPECT_NE(message("matmul a=3x3 b=3x3 c=3x3 bs=0x1").find("bs: cuBLASLt"),
            std::string::npos);
}

} // namespace
