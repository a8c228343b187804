//===- OptimizerStatesTest.cpp - States that are no whole tensors ---------===//
#include "plan/OptimizerStates.h"
#include "cpu/Orthogonalizer.h"
#include "exec/Factored.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace pp::runtime;

namespace {
struct FreeMemory {
  void operator()(char *pointer) const { std::free(pointer); }
};
} // namespace

static PlanTensor tensorOf(const char *name, Shape shape, uint64_t offset) {
  PlanTensor tensor{};
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.offset = offset;
  return tensor;
}

TEST(OptimizerStates, LieBehindThoseOfParametersShapes) {
  PlanStage stage;
  stage.areas.parameters.bytes = 1024;
  stage.parameters = {tensorOf("bias", {5}, 0),
                      tensorOf("weight", {2, 3, 40, 7}, 64),
                      tensorOf("scale", {}, 960)};
  PlanOptimizer optimizer;
  optimizer.states = {"row_var", "col_var", "variance", "ema"};
  EXPECT_EQ(countWhole(optimizer.states), 1U);
  EXPECT_EQ(shapeOf("row_var", {2, 3, 40, 7}), Shape({2, 3, 40, 1}));
  EXPECT_EQ(shapeOf("col_var", {2, 3, 40, 7}), Shape({2, 3, 1, 7}));
  EXPECT_EQ(shapeOf("variance", {2, 3, 40, 7}), std::nullopt);
  EXPECT_EQ(shapeOf("row_var", {5}), std::nullopt);
  EXPECT_EQ(shapeOf("variance", {5}), Shape({5}));
  auto offset = [&](unsigned tensor, unsigned state) {
    return stateOffset(optimizer, stage, stage.parameters[tensor], state);
  };
  EXPECT_EQ(offset(1, 3), 64U);          // ema, first
  EXPECT_EQ(offset(1, 0), 1024U);        // 240 numbers
  EXPECT_EQ(offset(1, 1), 1024U + 960U); // 42 numbers
  EXPECT_EQ(offset(0, 2), 1024U + 960U + 192U);
  EXPECT_EQ(offset(2, 2), 1024U + 960U + 192U + 64U);
  std::vector<Shape> shapes;
  for (const PlanTensor &tensor : stage.parameters)
    shapes.push_back(tensor.shape);
  EXPECT_EQ(stateBytes(optimizer.states, DataType::F32, shapes, 1024),
            1024U + 960U + 192U + 128U);
}

/// After `run`, the rows (or, of a high matrix, the columns) are nearly
/// orthogonal, and span what they did.
static void expectOrthogonal(int64_t rows, int64_t columns) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
  Orthogonalizer orthogonalizer(rows, columns);
  std::unique_ptr<char, FreeMemory> scratch(static_cast<char *>(
      std::aligned_alloc(64, orthogonalizer.scratchBytes())));
  auto *matrix = reinterpret_cast<float *>(scratch.get());
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < rows * columns; ++i)
    matrix[i] = 3 * normal(random);
  std::vector<float> before(matrix, matrix + rows * columns);
  orthogonalizer.run(scratch.get());
  std::vector<float> once(matrix, matrix + rows * columns);
  std::memcpy(matrix, before.data(), before.size() * sizeof(float));
  orthogonalizer.run(scratch.get());
  EXPECT_EQ(std::memcmp(matrix, once.data(), once.size() * sizeof(float)), 0);

  // Every vector v keeps its length within the singular values' range.
  int64_t side = std::min(rows, columns), longer = std::max(rows, columns);
  auto at = [&](const float *m, int64_t s, int64_t l) -> double {
    return rows > columns ? m[l * columns + s] : m[s * columns + l];
  };
  double inner = 0;
  for (int64_t trial = 0; trial < 20; ++trial) {
    std::vector<double> v(side);
    double length = 0, mapped = 0;
    for (double &x : v) {
      x = normal(random);
      length += x * x;
    }
    for (int64_t l = 0; l < longer; ++l) {
      double sum = 0;
      for (int64_t s = 0; s < side; ++s)
        sum += v[s] * at(matrix, s, l);
      mapped += sum * sum;
    }
    EXPECT_GT(std::sqrt(mapped / length), 0.3);
    EXPECT_LT(std::sqrt(mapped / length), 1.25);
  }
  for (int64_t i = 0; i < rows * columns; ++i)
    inner += static_cast<double>(matrix[i]) * before[i];
  EXPECT_GT(inner, 0); // the sum of the singular values
}

TEST(Orthogonalizer, BringsSingularValuesTogether) {
  for (auto [rows, columns] :
       {std::pair(8, 8), {5, 40}, {40, 5}, {1, 9}, {9, 1}, {64, 96}, {1, 1}})
    expectOrthogonal(rows, columns);
}

TEST(Factored, IsTheMeanOfRowsAndColumns) {
  // Of squares that are a product of both, the estimate is exact.
  constexpr int64_t matrices = 2, height = 3, width = 700;
  std::vector<double> gradient(matrices * height * width), rows(6),
      columns(matrices * width);
  for (int64_t i = 0; i < static_cast<int64_t>(gradient.size()); ++i)
    gradient[i] = (i % 2 ? -4.0 : 4.0) * static_cast<double>(1 + i / width) *
                  static_cast<double>(1 + i % width);
  Factored<double> means({matrices, height, width}, rows.data(), columns.data(),
                         nullptr);
  means.follow(gradient.data(), /*scale=*/4, /*weight=*/1);
  std::vector<double> step(gradient.size());
  for (int64_t begin = 0; begin < static_cast<int64_t>(step.size());
       begin += 999) {
    int64_t end = std::min<int64_t>(begin + 999, step.size());
    means.step(gradient.data(), /*scale=*/4, /*least=*/1e-9, begin, end,
               step.data() + begin);
  }
  for (size_t i = 0; i < step.size(); ++i)
    ASSERT_NEAR(step[i], i % 2 ? -1 : 1, 1e-12) << i;
  // A second one counts by its weight.
  std::vector<double> zero(gradient.size());
  double before = rows[0];
  means.follow(zero.data(), 1, 0.25);
  EXPECT_NEAR(rows[0], 0.75 * before, 1e-9 * before);

  float whole[3] = {}, gradients[] = {2, 0, -6}, into[3];
  Factored<float> vector({3}, nullptr, nullptr, whole);
  vector.follow(gradients, 2, 1);
  vector.step(gradients, 2, 0.5, 0, 3, into);
  EXPECT_EQ(whole[2], 9);
  EXPECT_EQ(into[0], 1);
  EXPECT_EQ(into[1], 0);
  EXPECT_EQ(into[2], -1);
}
