//===- KernelTest.cpp - Library kernels against plain loops ---------------===//
#include "cpu/LibraryKernel.h"
#include "cpu/Processor.h"
#include "pprt/pprt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>

using namespace pp::runtime;

namespace {

using Dims = std::vector<int64_t>;
using Values = std::vector<float>;

std::string join(const Dims &dims) {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

int64_t count(const Dims &dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t(1),
                         std::multiplies<>());
}

Values randomValues(int64_t size, uint32_t seed) {
  Values values(size);
  uint32_t state = seed * 2654435761u + 12345u;
  for (float &value : values) {
    state = state * 1664525u + 1013904223u;
    value = float(state >> 8) / float(1 << 23) - 1.0f;
  }
  return values;
}

void expectNear(const Values &actual, const Values &expected,
                float tolerance = 1e-4f) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i],
                tolerance * (1 + std::fabs(expected[i])))
        << "at " << i;
}

/// Sums of so many terms that f32 would not do.
using Sums = std::vector<double>;
Values roundedSums(const Sums &sums) { return {sums.begin(), sums.end()}; }

/// That the norm of all errors is at most this share of that of the numbers.
void expectOff(const Values &actual, const Values &expected, double share) {
  ASSERT_EQ(actual.size(), expected.size());
  double error = 0, square = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += std::pow(double(actual[i]) - expected[i], 2);
    square += double(expected[i]) * expected[i];
  }
  EXPECT_LE(std::sqrt(error), share * std::sqrt(square));
}

/// Runs a kernel twice and demands the same bits; `tensors` holds inputs and
/// outputs. The scratchpad is poisoned before.
void run(const std::string &descriptor, const std::vector<Values *> &tensors) {
  // As ranks do; libgomp's teams are invisible to ThreadSanitizer.
  setKernelThreads(1);
  std::string error;
  auto kernel = LibraryKernel::create(descriptor, error);
  ASSERT_TRUE(kernel) << error;
  ASSERT_EQ(kernel->tensorCount(), tensors.size());
  EXPECT_EQ(kernel->scratchpadBytes() % 64, 0u);
  std::vector<void *> pointers;
  for (Values *values : tensors)
    pointers.push_back(values->data());
  size_t bytes = kernel->scratchpadBytes() + 64;
  void *scratchpad = std::aligned_alloc(64, bytes);
  std::memset(scratchpad, 0xff, bytes);
  ASSERT_TRUE(kernel->execute(pointers.data(), scratchpad))
      << takeKernelError();
  // The bytes behind the scratchpad are not the kernel's.
  for (int i = 0; i < 64; ++i)
    ASSERT_EQ(static_cast<unsigned char *>(scratchpad)[bytes - 64 + i], 0xff);
  std::vector<Values> first;
  for (Values *values : tensors)
    first.push_back(*values);
  std::memset(scratchpad, 0x11, bytes);
  pp_execute_kernel(kernel.get(), pointers.data(), scratchpad);
  EXPECT_EQ(takeKernelError(), "");
  for (size_t i = 0; i < tensors.size(); ++i)
    EXPECT_EQ(0, std::memcmp(first[i].data(), tensors[i]->data(),
                             first[i].size() * sizeof(float)));
  std::free(scratchpad);
}

/// Calls `body` for every index below `dims`.
void forEach(const Dims &dims, const std::function<void(const Dims &)> &body) {
  Dims index(dims.size(), 0);
  if (count(dims) == 0)
    return;
  while (true) {
    body(index);
    size_t axis = dims.size();
    while (axis-- > 0) {
      if (++index[axis] < dims[axis])
        break;
      index[axis] = 0;
      if (axis == 0)
        return;
    }
    if (axis == size_t(-1))
      return;
  }
}

int64_t offset(const Dims &dims, const Dims &index) {
  int64_t result = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    result = result * dims[i] + index[i];
  return result;
}

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

struct MatmulCase {
  Dims a, b, c;
  Dims as, bs, cs; // empty: dense
};

Dims denseStrides(const Dims &dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return strides;
}

static void PrintTo(const MatmulCase &p, std::ostream *out) {
  *out << join(p.a) << " by " << join(p.b);
}

class MatmulTest : public testing::TestWithParam<MatmulCase> {};

TEST_P(MatmulTest, MatchesLoops) {
  const MatmulCase &p = GetParam();
  std::string text =
      "matmul a=" + join(p.a) + " b=" + join(p.b) + " c=" + join(p.c);
  if (!p.as.empty())
    text += " as=" + join(p.as);
  if (!p.bs.empty())
    text += " bs=" + join(p.bs);
  if (!p.cs.empty())
    text += " cs=" + join(p.cs);
  Dims as = p.as.empty() ? denseStrides(p.a) : p.as;
  Dims bs = p.bs.empty() ? denseStrides(p.b) : p.bs;
  Dims cs = p.cs.empty() ? denseStrides(p.c) : p.cs;
  Values a = randomValues(count(p.a), 1), b = randomValues(count(p.b), 2);
  Values c(count(p.c), 7.0f), expected(count(p.c), 0.0f);
  size_t rank = p.a.size();
  auto at = [&](const Dims &strides, const Dims &dims, const Dims &batch,
                int64_t row, int64_t column) {
    int64_t result = row * strides[rank - 2] + column * strides[rank - 1];
    for (size_t i = 0; i + 2 < rank; ++i)
      result += dims[i] == 1 ? 0 : batch[i] * strides[i];
    return result;
  };
  forEach(p.c, [&](const Dims &index) {
    double sum = 0;
    for (int64_t k = 0; k < p.a[rank - 1]; ++k)
      sum += double(a[at(as, p.a, index, index[rank - 2], k)]) *
             b[at(bs, p.b, index, k, index[rank - 1])];
    expected[at(cs, p.c, index, index[rank - 2], index[rank - 1])] = sum;
  });
  run(text, {&a, &b, &c});
  expectNear(c, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MatmulTest,
    testing::Values(
        MatmulCase{{8, 64}, {64, 10}, {8, 10}, {}, {}, {}},
        MatmulCase{{1, 7}, {7, 1}, {1, 1}, {}, {}, {}},
        MatmulCase{{8, 64}, {64, 10}, {8, 10}, {}, {1, 64}, {}},
        MatmulCase{{13, 9}, {9, 17}, {13, 17}, {1, 13}, {}, {}},
        MatmulCase{{13, 9}, {9, 17}, {13, 17}, {1, 13}, {1, 9}, {}},
        MatmulCase{{3, 5, 4}, {3, 4, 6}, {3, 5, 6}, {}, {}, {}},
        MatmulCase{{3, 5, 4}, {1, 4, 6}, {3, 5, 6}, {}, {}, {}},
        MatmulCase{{1, 5, 4}, {3, 4, 6}, {3, 5, 6}, {}, {24, 1, 4}, {}},
        // Attention: q and k are [batch, token, head, channel].
        MatmulCase{{2, 3, 5, 8},
                   {2, 3, 8, 5},
                   {2, 3, 5, 5},
                   {120, 8, 24, 1},
                   {120, 8, 1, 24},
                   {}},
        MatmulCase{{2, 1, 5, 8}, {1, 3, 8, 5}, {2, 3, 5, 5}, {}, {}, {}},
        MatmulCase{{2, 3, 5, 5},
                   {2, 3, 5, 8},
                   {2, 3, 5, 8},
                   {},
                   {120, 8, 24, 1},
                   {120, 8, 24, 1}}));

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

/// Rounds to the nearest bf16, ties to even.
float rounded(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits += 0x7fff + ((bits >> 16) & 1);
  bits &= 0xffff0000u;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

Values roundedValues(int64_t size, uint32_t seed) {
  Values values = randomValues(size, seed);
  for (float &value : values)
    value = rounded(value);
  return values;
}

/// The upper halves of floats that are rounded, two in each float of the
/// result.
Values packed(const Values &values) {
  Values result((values.size() + 1) / 2, 0.0f);
  auto *halves = reinterpret_cast<unsigned char *>(result.data());
  for (size_t i = 0; i < values.size(); ++i)
    std::memcpy(halves + 2 * i,
                reinterpret_cast<const unsigned char *>(&values[i]) + 2, 2);
  return result;
}

Values unpacked(const Values &values, size_t size) {
  Values result(size, 0.0f);
  auto *halves = reinterpret_cast<const unsigned char *>(values.data());
  for (size_t i = 0; i < size; ++i)
    std::memcpy(reinterpret_cast<unsigned char *>(&result[i]) + 2,
                halves + 2 * i, 2);
  return result;
}

TEST(MixedTest, MatmulOfShortFactors) {
  constexpr int64_t m = 13, k = 40, n = 9;
  Values a = roundedValues(m * k, 1), b = roundedValues(k * n, 2);
  Values expected(m * n, 0.0f);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t x = 0; x < k; ++x)
        expected[i * n + j] += a[i * k + x] * b[x * n + j];
  Values shortA = packed(a), shortB = packed(b), c(m * n, 7.0f);
  std::string text = "matmul a=13x40 b=40x9 c=13x9";
  run(text + " types=bf16xbf16xf32", {&shortA, &shortB, &c});
  expectNear(c, expected);
  Values shortC((m * n + 1) / 2, 0.0f);
  run(text + " types=bf16xbf16xbf16", {&shortA, &shortB, &shortC});
  expectNear(unpacked(shortC, m * n), expected, 1.0f / 256);
}

/// The bits of f16 numbers, two in each float of the result.
Values halves(const Values &values) {
  Values result((values.size() + 1) / 2, 0.0f);
  auto *to = reinterpret_cast<_Float16 *>(result.data());
  for (size_t i = 0; i < values.size(); ++i)
    to[i] = static_cast<_Float16>(values[i]);
  return result;
}

TEST(MatmulAccumulation, AddsToWhatIsThere) {
  setKernelThreads(1);
  for (bool isShort : {false, true}) {
    std::string text = "matmul a=13x9 b=9x17 c=13x17 as=1x13 accumulate=1";
    std::string error;
    auto kernel = LibraryKernel::create(
        text + (isShort ? " types=bf16xbf16xf32" : ""), error);
    ASSERT_TRUE(kernel) << error;
    ASSERT_EQ(kernel->tensorCount(), 3u);
    Values a = roundedValues(13 * 9, 1), b = roundedValues(9 * 17, 2);
    Values c = randomValues(13 * 17, 3), expected = c;
    for (int i = 0; i < 13; ++i)
      for (int j = 0; j < 17; ++j)
        for (int k = 0; k < 9; ++k)
          expected[i * 17 + j] += 2 * a[k * 13 + i] * b[k * 17 + j];
    Values aRead = isShort ? packed(a) : a, bRead = isShort ? packed(b) : b;
    void *tensors[] = {aRead.data(), bRead.data(), c.data()};
    std::vector<char> scratchpad(kernel->scratchpadBytes() + 64);
    void *aligned = scratchpad.data();
    size_t space = scratchpad.size();
    std::align(64, kernel->scratchpadBytes(), aligned, space);
    for (int times = 0; times < 2; ++times)
      ASSERT_TRUE(kernel->execute(tensors, aligned)) << takeKernelError();
    expectNear(c, expected);
  }
}

/// The library may have no layout of its own, on a processor without AVX.
TEST(PackedWeights, GiveTheSameProduct) {
  setKernelThreads(1);
  for (bool isShort : {false, true})
    for (const char *strides : {"", " bs=1x64"}) {
      std::string keys = std::string(" a=48x64 b=64x80 c=48x80") + strides +
                         (isShort ? " types=bf16xbf16xf32" : "");
      uint64_t bytes = getPackedBytes("matmul" + keys);
      if (bytes == 0)
        continue;
      Values a = roundedValues(48 * 64, 1), b = roundedValues(64 * 80, 2);
      Values plain(48 * 80), fromPacked(48 * 80), place(bytes / 4 + 1);
      Values aRead = isShort ? packed(a) : a, bRead = isShort ? packed(b) : b;
      std::string key = " packed=" + std::to_string(bytes);
      run("matmul" + keys, {&aRead, &bRead, &plain});
      run("pack_matmul" + keys + key, {&bRead, &place});
      run("matmul" + keys + key, {&aRead, &place, &fromPacked});
      expectNear(fromPacked, plain);
      std::string error;
      EXPECT_FALSE(LibraryKernel::create("matmul" + keys + " packed=7", error));
      EXPECT_NE(error.find("on this processor; compile for it"),
                std::string::npos)
          << error;
    }
  EXPECT_EQ(getPackedBytes("matmul a=1"), 0u);
}

TEST(PackedWeights, GiveTheSameConvolution) {
  setKernelThreads(1);
  struct Case {
    const char *kind, *more;
  };
  for (Case each : {Case{"conv_forward", " bias=0"},
                    Case{"conv_forward", " bias=0 algorithm=winograd"},
                    Case{"conv_forward", " bias=0 algorithm=winograd2"},
                    Case{"conv_forward", " bias=0 algorithm=winograd4"},
                    Case{"conv_backward_data", ""},
                    Case{"conv_backward_data", " algorithm=winograd"},
                    Case{"conv_backward_data", " algorithm=winograd2"},
                    Case{"conv_backward_data", " algorithm=winograd4"},
                    Case{"conv_backward_data",
                         " types=bf16xbf16xbf16 algorithm=winograd2_bf16"}}) {
    std::string keys = std::string(" src=2x16x12x12 weights=32x16x3x3 "
                                   "dst=2x32x12x12 strides=1x1 dilations=1x1 "
                                   "pad_lo=1x1 pad_hi=1x1 groups=1") +
                       each.more;
    uint64_t bytes = getPackedBytes(each.kind + keys);
    if (bytes == 0)
      continue;
    size_t src = 2 * 16 * 144, dst = 2 * 32 * 144;
    bool isForward = each.kind == std::string("conv_forward");
    Values from = roundedValues(isForward ? src : dst, 1);
    Values weights = roundedValues(32 * 16 * 9, 2), place(bytes / 4 + 1);
    Values plain(isForward ? dst : src), fromPacked(plain.size());
    std::string key = " packed=" + std::to_string(bytes);
    run(each.kind + keys, {&from, &weights, &plain});
    run(std::string("pack_") + each.kind + keys + key, {&weights, &place});
    run(each.kind + keys + key, {&from, &place, &fromPacked});
    EXPECT_EQ(fromPacked, plain) << each.kind << each.more;
  }
  EXPECT_EQ(getPackedBytes("conv_backward_weights src=1"), 0u);
}

/// With strides, and with few pixels: bf16 with channels last.
TEST(PackedWeights, GiveTheSameGradientOfAnImage) {
  setKernelThreads(1);
  struct Case {
    const char *keys;
    size_t dst, weights, src; // numbers
  };
  for (Case each :
       {Case{" src=2x32x9x9 weights=32x32x3x3 dst=2x32x5x5 strides=2x2 "
             "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1",
             2 * 32 * 25, 32 * 32 * 9, 2 * 32 * 81},
        Case{" src=2x128x2x2 weights=64x128x3x3 dst=2x64x2x2 strides=1x1 "
             "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1",
             2 * 64 * 4, 64 * 128 * 9, 2 * 128 * 4}}) {
    std::string keys = std::string("conv_backward_data") + each.keys +
                       " types=bf16xbf16xbf16 layout=channels_last";
    uint64_t bytes = getPackedBytes(keys);
    if (hasMatrixTiles())
      EXPECT_GE(bytes, each.weights * sizeof(uint16_t)) << keys;
    if (bytes == 0)
      continue;
    // A float is two of bf16.
    Values dy = roundedValues(each.dst / 2, 1);
    Values weights = roundedValues(each.weights / 2, 2), place(bytes / 4 + 1);
    Values plain(each.src / 2), fromPacked(each.src / 2);
    std::string key = " packed=" + std::to_string(bytes);
    run(keys, {&dy, &weights, &plain});
    run("pack_" + keys + key, {&weights, &place});
    run(keys + key, {&dy, &place, &fromPacked});
    EXPECT_EQ(fromPacked, plain) << keys;
    EXPECT_NE(plain, Values(each.src / 2)) << keys;
  }
}

TEST(MixedTest, MatmulOfHalves) {
  // Whole numbers: products and sums are exact, but for a result above 2048,
  // which f16 rounds to even, and one above 65504.
  constexpr int64_t m = 3, k = 4, n = 2;
  Values a = {1, 2, 3, 4, 2049, 0, 0, 2, 40000, 40000, 0, 0};
  Values b = {1, 0.5f, 1, 0, 0, 7, -1, 1};
  Values expected(m * n, 0.0f);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t x = 0; x < k; ++x)
        expected[i * n + j] +=
            static_cast<float>(static_cast<_Float16>(a[i * k + x])) *
            b[x * n + j];
  EXPECT_EQ(expected[2], 2046.0f); // 2049 became 2048
  Values shortA = halves(a), shortB = halves(b), c(m * n, 7.0f);
  std::string text = "matmul a=3x4 b=4x2 c=3x2";
  run(text + " types=f16xf16xf32", {&shortA, &shortB, &c});
  EXPECT_EQ(c, expected);
  Values shortC(m * n / 2, 0.0f);
  run(text + " types=f16xf16xf16", {&shortA, &shortB, &shortC});
  EXPECT_EQ(shortC, halves(expected));
  EXPECT_TRUE(std::isinf(
      static_cast<float>(reinterpret_cast<_Float16 *>(shortC.data())[4])));
  // What lies between the elements of a result stays: columns of stride 2.
  Values wide = halves({9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9});
  run(text + " cs=4x2 types=f16xf16xf16", {&shortA, &shortB, &wide});
  auto *numbers = reinterpret_cast<_Float16 *>(wide.data());
  for (int i = 0; i < 11; ++i)
    EXPECT_EQ(numbers[i], i % 2 ? static_cast<_Float16>(9)
                                : static_cast<_Float16>(expected[i / 2]));
}

//===----------------------------------------------------------------------===//
// epilogues
//===----------------------------------------------------------------------===//

float activated(const std::string &epilogue, float x) {
  if (epilogue == "bias_relu")
    return std::max(x, 0.0f);
  if (epilogue == "bias")
    return x;
  double inner = std::sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x);
  return static_cast<float>(0.5 * x * (1 + std::tanh(inner)));
}

TEST(EpilogueTest, MatmulWithBiasAndActivation) {
  constexpr int64_t m = 13, k = 40, n = 16;
  for (std::string epilogue :
       {"bias", "bias_relu", "bias_gelu", "bias_gelu_aux"})
    for (bool isHalf : {false, true}) {
      // Sixteenths: exact in f16, and so are their products and sums.
      auto sixteenths = [](Values values) {
        for (float &value : values)
          value = std::round(value * 16) / 16;
        return values;
      };
      Values a = sixteenths(randomValues(m * k, 1));
      Values b = sixteenths(randomValues(k * n, 2));
      Values bias = sixteenths(randomValues(n, 3));
      Values sum(m * n, 0.0f), expected(m * n, 0.0f);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t x = 0; x < k; ++x)
            sum[i * n + j] += a[i * k + x] * b[x * n + j];
          sum[i * n + j] += bias[j];
          expected[i * n + j] = activated(epilogue, sum[i * n + j]);
        }
      bool hasAuxiliary = epilogue == "bias_gelu_aux";
      Values shortA = halves(a), shortB = halves(b);
      Values auxiliary(m * n, 7.0f), c(m * n, 7.0f);
      std::vector<Values *> tensors{isHalf ? &shortA : &a,
                                    isHalf ? &shortB : &b, &bias};
      if (hasAuxiliary)
        tensors.push_back(&auxiliary);
      tensors.push_back(&c);
      run("matmul a=13x40 b=40x16 c=13x16 epilogue=" + epilogue +
              (isHalf ? " types=f16xf16xf32" : ""),
          tensors);
      expectNear(c, expected, 1e-6f);
      if (hasAuxiliary)
        expectNear(auxiliary, sum, 1e-6f);
    }
}

//===----------------------------------------------------------------------===//
// conv
//===----------------------------------------------------------------------===//

struct ConvCase {
  Dims src, weights, strides, dilations, low, high;
  int64_t groups;

  Dims dst() const {
    Dims dims{src[0], weights[0]};
    for (size_t i = 0; i < strides.size(); ++i)
      dims.push_back((src[i + 2] + low[i] + high[i] -
                      dilations[i] * (weights[i + 2] - 1) - 1) /
                         strides[i] +
                     1);
    return dims;
  }
  std::string text(const std::string &kind) const {
    return kind + " src=" + join(src) + " weights=" + join(weights) +
           " dst=" + join(dst()) + " strides=" + join(strides) +
           " dilations=" + join(dilations) + " pad_lo=" + join(low) +
           " pad_hi=" + join(high) + " groups=" + std::to_string(groups);
  }
  /// Calls body(source offset, weight offset, result offset) for each product.
  template <typename Body> void forEachProduct(const Body &body) const {
    const auto axes = [](const Dims &dims) {
      return Dims(dims.begin() + 2, dims.end());
    };
    const Dims image = axes(src), window = axes(weights), result = axes(dst());
    const int64_t ofImage = count(image), ofWindow = count(window);
    const int64_t ofResult = count(result);
    const int64_t outputs = weights[0], inputs = weights[1];
    const auto forEachChannel = [&](int64_t s, int64_t w, int64_t d) {
      for (int64_t sample = 0; sample < src[0]; ++sample)
        for (int64_t output = 0; output < outputs; ++output)
          for (int64_t input = 0; input < inputs; ++input) {
            const int64_t group = output / (outputs / groups);
            const int64_t channel = sample * src[1] + group * inputs + input;
            body(channel * ofImage + s,
                 (output * inputs + input) * ofWindow + w,
                 (sample * outputs + output) * ofResult + d);
          }
    };
    forEach(result, [&](const Dims &r) {
      forEach(window, [&](const Dims &k) {
        Dims seen;
        for (size_t i = 0; i < strides.size(); ++i) {
          int64_t x = r[i] * strides[i] + k[i] * dilations[i] - low[i];
          if (x < 0 || x >= image[i])
            return;
          seen.push_back(x);
        }
        forEachChannel(offset(image, seen), offset(window, k),
                       offset(result, r));
      });
    });
  }
};

static void PrintTo(const ConvCase &p, std::ostream *os) {
  *os << p.text("conv");
}

class ShortConvTest : public testing::TestWithParam<ConvCase> {};

TEST_P(ShortConvTest, MatchesLoops) {
  const ConvCase &p = GetParam();
  Values src = roundedValues(count(p.src), 1);
  Values weights = roundedValues(count(p.weights), 2);
  Values diff = roundedValues(count(p.dst()), 3);
  Sums dstSums(diff.size()), diffSrcSums(src.size());
  Sums diffWeightsSums(weights.size());
  p.forEachProduct([&](int64_t s, int64_t w, int64_t d) {
    dstSums[d] += src[s] * weights[w];
    diffSrcSums[s] += diff[d] * weights[w];
    diffWeightsSums[w] += src[s] * diff[d];
  });
  const Values dst = roundedSums(dstSums), diffSrc = roundedSums(diffSrcSums);
  const Values diffWeights = roundedSums(diffWeightsSums);
  Values shortSrc = packed(src), shortWeights = packed(weights);
  Values shortDiff = packed(diff);
  std::vector<std::string> algorithms{""};
  // The library's where bf16 is computed in f32; elsewhere it is the direct
  // one. Those in tiles of our own round once, too, but for pairs.
  const std::string librarys = " algorithm=winograd";
  const std::string pairs = " algorithm=winograd2_bf16";
  if (p.weights[2] == 3 && p.weights[3] == 3 && p.strides == Dims{1, 1})
    algorithms.insert(algorithms.end(), {librarys, " algorithm=winograd2",
                                         " algorithm=winograd4", pairs});
  for (const std::string &algorithm : algorithms) {
    auto expect = [&](const Values &actual, const Values &expected,
                      float slack) {
      algorithm == pairs ? expectOff(actual, expected, /*share=*/0.006)
                         : expectNear(actual, expected, slack);
    };
    float slack = algorithm == librarys ? 1.0f / 64 : 1.0f / 256;
    Values result(dst.size(), 9.0f);
    run(p.text("conv_forward") + " bias=0 types=bf16xbf16xf32" + algorithm,
        {&shortSrc, &shortWeights, &result});
    expectNear(result, dst, algorithm.empty() ? 1e-4f : 1e-3f);
    Values shortResult((dst.size() + 1) / 2, 0.0f);
    run(p.text("conv_forward") + " bias=0 types=bf16xbf16xbf16" + algorithm,
        {&shortSrc, &shortWeights, &shortResult});
    expect(unpacked(shortResult, dst.size()), dst, slack);
    shortResult.assign((src.size() + 1) / 2, 0.0f);
    run(p.text("conv_backward_data") + " types=bf16xbf16xbf16" + algorithm,
        {&shortDiff, &shortWeights, &shortResult});
    expect(unpacked(shortResult, src.size()), diffSrc, slack);
    result.assign(weights.size(), 9.0f);
    run(p.text("conv_backward_weights") + " types=bf16xf32xbf16" + algorithm,
        {&shortSrc, &shortDiff, &result});
    expect(result, diffWeights, algorithm == librarys ? 1e-3f : 1e-4f);
  }
}

/// Windows that few models have, of random shapes: the library's own code for
/// some of these is wrong.
static std::vector<ConvCase> unusualConvolutions() {
  std::vector<ConvCase> cases{
      {{1, 16, 16, 16}, {16, 16, 16, 16}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1},
      {{1, 32, 18, 17}, {16, 32, 17, 17}, {2, 1}, {1, 1}, {16, 0}, {16, 0}, 1},
      {{1, 16, 16, 16}, {16, 16, 32, 5}, {1, 1}, {1, 1}, {15, 0}, {15, 0}, 1},
      {{1, 64, 7, 7}, {32, 64, 7, 7}, {8, 8}, {1, 1}, {0, 2}, {0, 0}, 1},
      {{8, 128, 1, 1}, {128, 64, 2, 2}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2},
      {{4, 8, 17, 40}, {32, 8, 9, 20}, {1, 20}, {1, 1}, {0, 19}, {0, 0}, 1},
  };
  std::mt19937 random(1);
  auto upTo = [&](int64_t most) {
    return static_cast<int64_t>(random() % (most + 1));
  };
  while (cases.size() < 30) {
    int64_t groups = 1 + upTo(1);
    ConvCase p{{1 + upTo(2), groups * (1 + upTo(19))},
               {groups * (8 + upTo(8))},
               {},
               {},
               {},
               {},
               groups};
    p.weights.push_back(p.src[1] / groups);
    for (int axis = 0; axis < 2; ++axis) {
      int64_t kernel = 1 + upTo(19), low = upTo(kernel - 1);
      int64_t high = upTo(kernel - 1);
      p.src.push_back(std::max<int64_t>(1, kernel - low - high) + upTo(6));
      p.weights.push_back(kernel);
      p.strides.push_back(1 + upTo(kernel));
      p.dilations.push_back(1);
      p.low.push_back(low);
      p.high.push_back(high);
    }
    cases.push_back(p);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(
    Groups, ShortConvTest,
    testing::Values(ConvCase{
        {2, 6, 7, 5}, {8, 3, 3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 0}, 2}));
INSTANTIATE_TEST_SUITE_P(
    Tiles, ShortConvTest,
    testing::Values(ConvCase{
        {2, 32, 14, 11}, {16, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}));
// The gradient of these weights is made some output channels at a time.
INSTANTIATE_TEST_SUITE_P(
    LargeWeights, ShortConvTest,
    testing::Values(ConvCase{
        {1, 160, 4, 4}, {192, 160, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}));
INSTANTIATE_TEST_SUITE_P(Unusual, ShortConvTest,
                         testing::ValuesIn(unusualConvolutions()));

class ConvTest : public testing::TestWithParam<ConvCase> {};

TEST_P(ConvTest, Forward) {
  const ConvCase &p = GetParam();
  Values src = randomValues(count(p.src), 1);
  Values weights = randomValues(count(p.weights), 2);
  Values bias = randomValues(p.weights[0], 3);
  Values dst(count(p.dst()), 9.0f);
  Sums sums(dst.size());
  p.forEachProduct(
      [&](int64_t s, int64_t w, int64_t d) { sums[d] += src[s] * weights[w]; });
  Values expected = roundedSums(sums);
  run(p.text("conv_forward") + " bias=0", {&src, &weights, &dst});
  expectNear(dst, expected);
  forEach(p.dst(),
          [&](const Dims &d) { expected[offset(p.dst(), d)] += bias[d[1]]; });
  run(p.text("conv_forward") + " bias=1", {&src, &weights, &bias, &dst});
  expectNear(dst, expected);
}

TEST_P(ConvTest, BackwardData) {
  const ConvCase &p = GetParam();
  Values diffDst = randomValues(count(p.dst()), 1);
  Values weights = randomValues(count(p.weights), 2);
  Values diffSrc(count(p.src), 9.0f);
  Sums expected(diffSrc.size());
  p.forEachProduct([&](int64_t s, int64_t w, int64_t d) {
    expected[s] += diffDst[d] * weights[w];
  });
  run(p.text("conv_backward_data"), {&diffDst, &weights, &diffSrc});
  expectNear(diffSrc, roundedSums(expected));
}

TEST_P(ConvTest, BackwardWeights) {
  const ConvCase &p = GetParam();
  Values src = randomValues(count(p.src), 1);
  Values diffDst = randomValues(count(p.dst()), 2);
  Values diffWeights(count(p.weights), 9.0f);
  Sums expected(diffWeights.size());
  p.forEachProduct([&](int64_t s, int64_t w, int64_t d) {
    expected[w] += src[s] * diffDst[d];
  });
  run(p.text("conv_backward_weights"), {&src, &diffDst, &diffWeights});
  expectNear(diffWeights, roundedSums(expected));
}

// The gradient of these weights is one product.
INSTANTIATE_TEST_SUITE_P(
    FewPixels, ConvTest,
    testing::Values(
        ConvCase{
            {1, 64, 5, 6}, {464, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
        ConvCase{
            {3, 64, 8, 9}, {464, 64, 3, 3}, {2, 3}, {1, 2}, {0, 3}, {1, 0}, 1},
        ConvCase{
            {2, 80, 3, 2}, {140, 80, 5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, 1},
        ConvCase{{2, 512, 4, 4},
                 {520, 512, 1, 1},
                 {2, 2},
                 {1, 1},
                 {0, 0},
                 {0, 0},
                 1},
        // Pixels that see only padding.
        ConvCase{
            {1, 64, 2, 2}, {464, 64, 3, 3}, {1, 1}, {4, 4}, {4, 4}, {4, 4}, 1},
        ConvCase{{3, 128, 40}, {416, 128, 5}, {2}, {1}, {2}, {1}, 1},
        ConvCase{{2, 64, 3, 4, 5},
                 {160, 64, 3, 3, 3},
                 {1, 2, 1},
                 {1, 1, 1},
                 {1, 1, 0},
                 {1, 1, 1},
                 1}));
INSTANTIATE_TEST_SUITE_P(Unusual, ConvTest,
                         testing::ValuesIn(unusualConvolutions()));
INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvTest,
    testing::Values(
        ConvCase{
            {2, 3, 9, 8}, {16, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
        ConvCase{
            {2, 16, 9, 8}, {16, 16, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}, 1},
        ConvCase{
            {1, 4, 9, 11}, {6, 2, 3, 2}, {2, 1}, {1, 2}, {0, 2}, {1, 1}, 2},
        ConvCase{{2, 8, 7, 7}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 8},
        ConvCase{
            {2, 8, 5, 5}, {32, 8, 1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 1},
        // Its weights' gradient is made some output channels at a time.
        ConvCase{{2, 160, 12, 12},
                 {192, 160, 3, 3},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 {1, 1},
                 1},
        ConvCase{
            {1, 3, 15, 15}, {8, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1},
        ConvCase{{2, 3, 17}, {5, 3, 4}, {3}, {2}, {2}, {1}, 1},
        ConvCase{{1, 2, 5, 6, 4},
                 {3, 2, 2, 3, 2},
                 {1, 2, 1},
                 {2, 1, 1},
                 {1, 0, 1},
                 {0, 1, 1},
                 1}));

//===----------------------------------------------------------------------===//
// pooling
//===----------------------------------------------------------------------===//

struct PoolCase {
  Dims src, kernel, strides, dilations, low, high;

  Dims dst() const {
    Dims dims{src[0], src[1]};
    for (size_t i = 0; i < strides.size(); ++i)
      dims.push_back(
          (src[i + 2] + low[i] + high[i] - dilations[i] * (kernel[i] - 1) - 1) /
              strides[i] +
          1);
    return dims;
  }
  std::string text(const std::string &kind) const {
    return kind + " src=" + join(src) + " dst=" + join(dst()) +
           " kernel=" + join(kernel) + " strides=" + join(strides) +
           " dilations=" + join(dilations) + " pad_lo=" + join(low) +
           " pad_hi=" + join(high);
  }
  /// Calls body(result offset, offsets of the sources in its window).
  void forEachWindow(
      const std::function<void(int64_t, const std::vector<int64_t> &)> &body)
      const {
    Dims result = dst();
    forEach(result, [&](const Dims &r) {
      std::vector<int64_t> window;
      forEach(kernel, [&](const Dims &k) {
        Dims s{r[0], r[1]};
        for (size_t i = 0; i < strides.size(); ++i) {
          int64_t x = r[i + 2] * strides[i] + k[i] * dilations[i] - low[i];
          if (x < 0 || x >= src[i + 2])
            return;
          s.push_back(x);
        }
        window.push_back(offset(src, s));
      });
      body(offset(result, r), window);
    });
  }
};

static void PrintTo(const PoolCase &p, std::ostream *out) {
  *out << p.text("pool");
}

class PoolTest : public testing::TestWithParam<PoolCase> {};

TEST_P(PoolTest, Maximum) {
  const PoolCase &p = GetParam();
  Values src = randomValues(count(p.src), 1);
  Values diffDst = randomValues(count(p.dst()), 2);
  Values dst(count(p.dst()), 9.0f), expected(dst.size());
  Values diffSrc(src.size(), 9.0f), expectedDiff(src.size(), 0.0f);
  p.forEachWindow([&](int64_t d, const std::vector<int64_t> &window) {
    int64_t best = window[0];
    for (int64_t s : window)
      if (src[s] > src[best])
        best = s;
    expected[d] = src[best];
    expectedDiff[best] += diffDst[d];
  });
  run(p.text("max_pool_forward"), {&src, &dst});
  expectNear(dst, expected, 0.0f);
  run(p.text("max_pool_backward"), {&src, &diffDst, &diffSrc});
  expectNear(diffSrc, expectedDiff, 1e-6f);
}

TEST_P(PoolTest, Average) {
  const PoolCase &p = GetParam();
  for (bool includePad : {false, true}) {
    std::string flag = includePad ? " include_pad=1" : " include_pad=0";
    Values src = randomValues(count(p.src), 1);
    Values diffDst = randomValues(count(p.dst()), 2);
    Values dst(count(p.dst()), 9.0f), expected(dst.size());
    Values diffSrc(src.size(), 9.0f), expectedDiff(src.size(), 0.0f);
    p.forEachWindow([&](int64_t d, const std::vector<int64_t> &window) {
      float divisor = includePad ? count(p.kernel) : window.size();
      for (int64_t s : window) {
        expected[d] += src[s] / divisor;
        expectedDiff[s] += diffDst[d] / divisor;
      }
    });
    run(p.text("avg_pool_forward") + flag, {&src, &dst});
    expectNear(dst, expected, 1e-6f);
    run(p.text("avg_pool_backward") + flag, {&diffDst, &diffSrc});
    expectNear(diffSrc, expectedDiff, 1e-6f);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PoolTest,
    testing::Values(
        PoolCase{{2, 16, 9, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
        PoolCase{{1, 3, 8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
        PoolCase{{2, 5, 9, 7}, {3, 2}, {1, 2}, {2, 1}, {1, 0}, {0, 1}},
        PoolCase{{2, 4, 7, 7}, {7, 7}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
        PoolCase{{2, 3, 12}, {3}, {2}, {1}, {1}, {0}},
        PoolCase{{1, 2, 5, 6, 4},
                 {2, 3, 2},
                 {1, 2, 2},
                 {1, 1, 1},
                 {1, 1, 0},
                 {0, 1, 0}}));

//===----------------------------------------------------------------------===//
// batch_norm
//===----------------------------------------------------------------------===//

class BatchNormTest : public testing::TestWithParam<Dims> {};

TEST_P(BatchNormTest, MatchesLoops) {
  const Dims &dims = GetParam();
  const float epsilon = 1e-3f;
  int64_t channels = dims[1], inner = 1;
  for (size_t i = 2; i < dims.size(); ++i)
    inner *= dims[i];
  int64_t samples = dims[0] * inner;
  std::string text = "src=" + join(dims) + " epsilon=0.001";
  Values src = randomValues(count(dims), 1);
  Values scale = randomValues(channels, 2), shift = randomValues(channels, 3);
  Values diffDst = randomValues(count(dims), 4);
  Values dst(src.size(), 9.0f), mean(channels, 9.0f), variance(channels, 9.0f);
  Values diffSrc(src.size(), 9.0f), diffScale(channels, 9.0f),
      diffShift(channels, 9.0f);
  Values eDst(src.size()), eMean(channels), eVariance(channels),
      eDiffSrc(src.size()), eDiffScale(channels), eDiffShift(channels);
  for (int64_t c = 0; c < channels; ++c) {
    auto forChannel = [&](const std::function<void(int64_t)> &body) {
      for (int64_t n = 0; n < dims[0]; ++n)
        for (int64_t i = 0; i < inner; ++i)
          body((n * channels + c) * inner + i);
    };
    double sum = 0, squares = 0, dSum = 0, dProduct = 0;
    forChannel([&](int64_t i) { sum += src[i]; });
    double m = sum / samples;
    forChannel([&](int64_t i) { squares += (src[i] - m) * (src[i] - m); });
    double v = squares / samples, inverse = 1 / std::sqrt(v + epsilon);
    forChannel([&](int64_t i) {
      eDst[i] = scale[c] * (src[i] - m) * inverse + shift[c];
      dSum += diffDst[i];
      dProduct += diffDst[i] * (src[i] - m) * inverse;
    });
    forChannel([&](int64_t i) {
      eDiffSrc[i] = scale[c] * inverse *
                    (diffDst[i] - dSum / samples -
                     (src[i] - m) * inverse * dProduct / samples);
    });
    eMean[c] = m;
    eVariance[c] = v;
    eDiffScale[c] = dProduct;
    eDiffShift[c] = dSum;
  }
  run("batch_norm_forward " + text,
      {&src, &scale, &shift, &dst, &mean, &variance});
  expectNear(dst, eDst);
  expectNear(mean, eMean);
  expectNear(variance, eVariance);
  run("batch_norm_backward " + text, {&src, &diffDst, &mean, &variance, &scale,
                                      &diffSrc, &diffScale, &diffShift});
  expectNear(diffSrc, eDiffSrc);
  expectNear(diffScale, eDiffScale);
  expectNear(diffShift, eDiffShift);
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchNormTest,
                         testing::Values(Dims{8, 5}, Dims{4, 16, 7},
                                         Dims{2, 3, 6, 5}, Dims{2, 16, 4, 4},
                                         Dims{2, 3, 4, 2, 3}));

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

struct AttentionCase {
  int64_t batch, heads, rows, columns, width, valueWidth;
  bool isCausal;
  const char *type;
  /// The axes of all tensors from the slowest to the fastest: "bhmd" is dense;
  /// `gap` numbers lie behind each row of the fastest.
  std::string layout;
  int64_t gap = 0;
};

static void PrintTo(const AttentionCase &p, std::ostream *out) {
  *out << join({p.batch, p.heads, p.rows, p.columns, p.width, p.valueWidth})
       << (p.isCausal ? " causal " : " ") << p.type << " " << p.layout
       << " gap " << p.gap;
}

/// A tensor batch x head x row x column in the layout of a case.
struct Laid {
  Dims dims, strides;
  std::string type;

  Laid(const AttentionCase &p, int64_t rows, int64_t columns)
      : dims{p.batch, p.heads, rows, columns}, strides(4), type(p.type) {
    int64_t stride = 1;
    for (size_t i = 4; i-- > 0;) {
      size_t axis = std::string("bhmd").find(p.layout[i]);
      strides[axis] = stride;
      stride = stride * dims[axis] + (i == 3 ? p.gap : 0);
    }
  }

  int64_t size() const {
    int64_t last = 0;
    for (size_t axis = 0; axis < 4; ++axis)
      last += (dims[axis] - 1) * strides[axis];
    return last + 1;
  }

  Values shortened(const Values &values) const {
    return type == "bf16"  ? packed(values)
           : type == "f16" ? halves(values)
                           : values;
  }

  /// In memory, with 9 in the gaps.
  Values store(const Values &values) const {
    Values memory(size(), 9.0f);
    forEach(dims, [&](const Dims &i) {
      memory[std::inner_product(i.begin(), i.end(), strides.begin(),
                                int64_t(0))] = values[offset(dims, i)];
    });
    return shortened(memory);
  }

  /// Reads what is in memory, and demands that the gaps are as they were.
  Values load(const Values &memory) const {
    Values all = memory;
    if (type == "bf16")
      all = unpacked(memory, size());
    auto *numbers = reinterpret_cast<const _Float16 *>(memory.data());
    if (type == "f16")
      all = Values(numbers, numbers + size());
    Values values(count(dims));
    forEach(dims, [&](const Dims &i) {
      int64_t at =
          std::inner_product(i.begin(), i.end(), strides.begin(), int64_t(0));
      values[offset(dims, i)] = std::exchange(all[at], 9.0f);
    });
    EXPECT_EQ(all, Values(size(), 9.0f));
    return values;
  }

  /// Random numbers that the type can hold.
  Values random(uint32_t seed) const {
    return round(randomValues(count(dims), seed));
  }
  Values round(Values values) const {
    for (float &value : values)
      value = type == "bf16"  ? rounded(value)
              : type == "f16" ? static_cast<float>(static_cast<_Float16>(value))
                              : value;
    return values;
  }
};

class AttentionTest : public testing::TestWithParam<AttentionCase> {
protected:
  AttentionTest()
      : p(GetParam()), query(p, p.rows, p.width), key(p, p.columns, p.width),
        value(p, p.columns, p.valueWidth), output(p, p.rows, p.valueWidth),
        q(query.random(1)), k(key.random(2)), v(value.random(3)),
        out(count(output.dims)), logsumexp(p.batch * p.heads * p.rows),
        weights(logsumexp.size() * p.columns) {
    for (int64_t head = 0; head < p.batch * p.heads; ++head)
      for (int64_t i = 0; i < p.rows; ++i)
        computeRow(head, head * p.rows + i, i);
  }

  static constexpr double scale = 0.7;

  void computeRow(int64_t head, int64_t row, int64_t i) {
    double sum = 0;
    double *w = &weights[row * p.columns];
    for (int64_t j = 0; j < visible(i); ++j) {
      double score = 0;
      for (int64_t x = 0; x < p.width; ++x)
        score += double(q[row * p.width + x]) *
                 k[(head * p.columns + j) * p.width + x];
      w[j] = std::exp(scale * score);
      sum += w[j];
    }
    logsumexp[row] = static_cast<float>(std::log(sum));
    for (int64_t j = 0; j < p.columns; ++j)
      w[j] /= sum;
    for (int64_t y = 0; y < p.valueWidth; ++y) {
      double mean = 0;
      for (int64_t j = 0; j < p.columns; ++j)
        mean += w[j] * v[(head * p.columns + j) * p.valueWidth + y];
      out[row * p.valueWidth + y] = static_cast<float>(mean);
    }
  }

  int64_t visible(int64_t i) const { return p.isCausal ? i + 1 : p.columns; }

  /// `gradients`: the strides that only the derivative has.
  std::string descriptor(const std::string &kind, bool gradients) const {
    std::string text = kind + " q=" + join(query.dims) +
                       " k=" + join(key.dims) + " v=" + join(value.dims) +
                       " scale=0.7 causal=" + (p.isCausal ? "1" : "0") +
                       " types=" + p.type;
    if (p.layout == "bhmd" && p.gap == 0)
      return text;
    for (std::string prefix : {"", "d"})
      if (prefix.empty() || gradients)
        for (auto [name, tensor] :
             {std::pair("q", &query), {"k", &key}, {"v", &value}})
          text += " " + prefix + name + "s=" + join(tensor->strides);
    text += " os=" + join(output.strides);
    return gradients ? text + " dos=" + join(output.strides) : text;
  }

  /// Of results that are rounded to the type.
  float tolerance() const {
    std::string type = p.type;
    return type == "bf16" ? 1.0f / 256 : type == "f16" ? 1.0f / 2048 : 2e-6f;
  }

  AttentionCase p;
  Laid query, key, value, output;
  Values q, k, v, out, logsumexp;
  std::vector<double> weights;
};

TEST_P(AttentionTest, Forward) {
  Values qm = query.store(q), km = key.store(k), vm = value.store(v),
         om = output.store(Values(out.size(), 5.0f)),
         lse(logsumexp.size(), 7.0f);
  run(descriptor("attention_forward", false), {&qm, &km, &vm, &om, &lse});
  expectNear(output.load(om), out, tolerance());
  expectNear(lse, logsumexp, 2e-6f);
}

TEST_P(AttentionTest, Backward) {
  Values diff = output.random(4), roundedOut = output.round(out);
  std::vector<double> dq(q.size()), dk(k.size()), dv(v.size());
  for (int64_t head = 0; head < p.batch * p.heads; ++head)
    for (int64_t i = 0; i < p.rows; ++i) {
      int64_t row = head * p.rows + i;
      double mean = 0;
      for (int64_t y = 0; y < p.valueWidth; ++y)
        mean += double(diff[row * p.valueWidth + y]) *
                roundedOut[row * p.valueWidth + y];
      for (int64_t j = 0; j < p.columns; ++j) {
        double weight = weights[row * p.columns + j], slope = -mean;
        int64_t other = head * p.columns + j;
        for (int64_t y = 0; y < p.valueWidth; ++y) {
          double d = diff[row * p.valueWidth + y];
          slope += d * v[other * p.valueWidth + y];
          dv[other * p.valueWidth + y] += weight * d;
        }
        for (int64_t x = 0; x < p.width; ++x) {
          dq[row * p.width + x] +=
              scale * weight * slope * k[other * p.width + x];
          dk[other * p.width + x] +=
              scale * weight * slope * q[row * p.width + x];
        }
      }
    }
  Values qm = query.store(q), km = key.store(k), vm = value.store(v),
         om = output.store(roundedOut), dm = output.store(diff),
         dqm = query.store(Values(q.size(), 5.0f)),
         dkm = key.store(Values(k.size(), 5.0f)),
         dvm = value.store(Values(v.size(), 5.0f));
  run(descriptor("attention_backward", true),
      {&qm, &km, &vm, &om, &logsumexp, &dm, &dqm, &dkm, &dvm});
  // Sums of as many numbers as there are rows.
  float limit = std::max(tolerance(), 2e-5f);
  expectNear(query.load(dqm), Values(dq.begin(), dq.end()), limit);
  expectNear(key.load(dkm), Values(dk.begin(), dk.end()), limit);
  expectNear(value.load(dvm), Values(dv.begin(), dv.end()), limit);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
    testing::Values(
        AttentionCase{1, 1, 1, 1, 1, 1, true, "f32", "bhmd"},
        AttentionCase{2, 3, 5, 5, 4, 4, true, "f32", "bhmd"},
        AttentionCase{2, 3, 5, 7, 4, 4, false, "f32", "bhmd"},
        // Several blocks of rows, and a last one that is not full.
        AttentionCase{1, 2, 131, 131, 16, 16, true, "f32", "bhmd"},
        AttentionCase{1, 2, 131, 40, 16, 24, false, "f32", "bhmd"},
        AttentionCase{1, 2, 64, 200, 8, 3, false, "f32", "bhmd"},
        // Other layouts: rows of all heads side by side, columns apart, gaps.
        AttentionCase{2, 3, 70, 70, 8, 16, true, "f32", "bmhd"},
        AttentionCase{2, 3, 9, 11, 8, 5, false, "f32", "hbdm"},
        AttentionCase{2, 3, 9, 9, 8, 5, true, "f32", "bmhd", 3},
        AttentionCase{2, 3, 70, 70, 8, 16, true, "bf16", "bmhd"},
        AttentionCase{2, 2, 33, 65, 16, 8, false, "bf16", "bhmd"},
        AttentionCase{2, 2, 9, 9, 16, 8, true, "bf16", "bhmd", 5},
        AttentionCase{1, 2, 300, 300, 16, 24, true, "bf16", "bmhd"},
        AttentionCase{1, 2, 150, 70, 20, 8, false, "bf16", "bhmd"},
        AttentionCase{2, 3, 140, 140, 8, 5, true, "bf16", "hbdm"},
        AttentionCase{2, 3, 70, 70, 8, 16, true, "f16", "bmhd"},
        AttentionCase{2, 2, 33, 65, 16, 8, false, "f16", "bhmd"},
        AttentionCase{2, 2, 9, 9, 16, 8, true, "f16", "bhmd", 5}));

std::string attention(const std::string &rest) {
  return "attention_forward q=1x2x256x8 k=1x2x256x8 v=1x2x256x8 " + rest;
}

TEST(AttentionScores, MayBeLarge) {
  // exp of a score alone overflows; the largest is subtracted.
  Values q = {30, 30}, k = {30, 10}, v = {1, 2}, out(2), lse(2);
  run("attention_forward q=1x1x2x1 k=1x1x2x1 v=1x1x2x1 scale=1 causal=0",
      {&q, &k, &v, &out, &lse});
  EXPECT_EQ(out, Values({1, 1}));
  EXPECT_EQ(lse, Values({900, 900}));
}

TEST(AttentionScratchpad, IsLinearInTheRows) {
  auto bytes = [](int64_t rows, const std::string &kind) {
    std::string dims = "=8x4x" + std::to_string(rows) + "x16", error;
    auto kernel = LibraryKernel::create(kind + " q" + dims + " k" + dims +
                                            " v" + dims + " scale=1 causal=1",
                                        error);
    EXPECT_TRUE(kernel) << error;
    return kernel ? kernel->scratchpadBytes() : 0;
  };
  for (std::string kind : {"attention_forward", "attention_backward"}) {
    EXPECT_LE(bytes(4096, kind), 2 * bytes(2048, kind)) << kind;
    EXPECT_LT(bytes(4096, kind), uint64_t(4096) * 4096) << kind;
  }
}

TEST(AttentionThreads, DoNotMatter) {
  // Ranks run on one thread; other callers may have more.
  std::string error;
  auto kernel = LibraryKernel::create(attention("scale=1 causal=1"), error);
  ASSERT_TRUE(kernel) << error;
  constexpr size_t size = 2 * 256 * 8;
  Values q = randomValues(size, 1), k = randomValues(size, 2),
         v = randomValues(size, 3);
  void *scratchpad = std::aligned_alloc(64, kernel->scratchpadBytes());
  auto runOn = [&](int threads) {
    Values out(size), lse(2 * 256);
    void *tensors[] = {q.data(), k.data(), v.data(), out.data(), lse.data()};
    setKernelThreads(threads);
    EXPECT_TRUE(kernel->execute(tensors, scratchpad)) << takeKernelError();
    return out;
  };
  Values one = runOn(1);
  EXPECT_EQ(one, runOn(4));
  setKernelThreads(1);
  std::free(scratchpad);
}

//===----------------------------------------------------------------------===//
// errors and threads
//===----------------------------------------------------------------------===//

TEST(LibraryKernelErrors, NameTheFault) {
  const std::pair<const char *, const char *> cases[] = {
      {"", "empty descriptor"},
      {"gemm a=1x1", "unknown kind 'gemm'"},
      {"matmul a=2x3 b=3x4", "key 'c' is missing"},
      {"matmul a=2x3 b=3x4 c=2x4 d=1", "unknown key 'd'"},
      {"matmul a=2x3 a=2x3 b=3x4 c=2x4", "key 'a' is given twice"},
      {"matmul a=2x b=3x4 c=2x4", "a=2x"},
      {"matmul a=2x-3 b=3x4 c=2x4", "a=2x-3"},
      {"matmul a=2x0 b=0x4 c=2x4", "a=2x0"},
      {"matmul a=2x99999999999 b=3x4 c=2x4", "a=2x99999999999"},
      {"matmul a=2147483647x2147483647 b=2147483647x2 c=2147483647x2", "2^40"},
      {"matmul a=2 b=2 c=2", "at least two"},
      {"matmul a=2x3 b=1x3x4 c=2x4", "expected 2 integers"},
      {"matmul a=2x3 b=4x4 c=2x4", "c: is not the shape"},
      {"matmul a=2x3 b=3x4 c=2x4 as=3", "as=3"},
      {"matmul a=2x3 b=3x4 c", "expected key=value"},
      {"matmul a=2x3 b=3x4 c=2x4 epilogue=relu",
       "epilogue: unknown word 'relu', expected bias, bias_relu, bias_gelu or "
       "bias_gelu_aux"},
      {"matmul a=2x3 b=3x4 c=2x4 types=bf16xbf16xbf16 accumulate=1",
       "accumulate: the result must be f32"},
      {"matmul a=2x3 b=3x4 c=2x4 accumulate=2", "accumulate=2"},
      {"matmul a=2x3 b=3x4 c=2x4 accumulate=1 packed=64",
       "packed: only in products of f32 and bf16 without epilogue and sum"},
      {"pack_matmul a=2x3 b=3x4 c=2x4", "key 'packed' is missing"},
      {"matmul a=5x2x3 b=5x3x4 c=5x2x4 epilogue=bias",
       "epilogue: only of one product, not of a batch"},
      {"matmul a=2x3 b=3x4 c=2x4 cs=1x2 epilogue=bias",
       "epilogue: the result must be dense and row-major"},
      {"matmul a=2x3 b=3x4 c=2x4 epilogue=bias_gelu_aux",
       "the number of columns must be a multiple of 8"},
      {"conv_forward src=1x3x8x8 weights=4x2x3x3 dst=1x4x8x8 strides=1x1 "
       "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=2 bias=0",
       "groups"},
      {"conv_forward src=1x3x8x8 weights=4x3x3x3 dst=1x4x9x8 strides=1x1 "
       "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0",
       "oneDNN refuses"},
      {"conv_forward src=1x3x8x8 weights=4x3x3x3 dst=1x4x8x8 strides=1x1 "
       "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=2",
       "bias=2"},
      {"conv_forward src=1x3x8x8 weights=4x3x3x3 dst=1x4x8x8 strides=1x1 "
       "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 residual=1 "
       "types=bf16xbf16xbf16",
       "residual: only of f32"},
      {"pack_conv_forward src=1x3x8x8 weights=4x3x3x3 dst=1x4x8x8 strides=1x1 "
       "dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0 residual=1",
       "bias: weights are packed for none"},
      {"max_pool_forward src=1x3 dst=1x3 kernel=1 strides=1 dilations=1 "
       "pad_lo=0 pad_hi=0",
       "spatial"},
      {"attention_forward q=1x2x3x4 k=1x3x3x4 v=1x2x3x4 scale=1 causal=0",
       "q, k and v: expected the same batch and heads"},
      {"attention_forward q=1x2x3x4 k=1x2x3x5 v=1x2x3x4 scale=1 causal=0",
       "k: expected as many columns as q has"},
      {"attention_forward q=1x2x3x4 k=1x2x3x4 v=1x2x5x4 scale=1 causal=0",
       "v: expected as many rows as k has"},
      {"attention_backward q=1x2x3x4 k=1x2x5x4 v=1x2x5x4 scale=1 causal=1",
       "causal=1: expected as many rows of k as q has"},
      {"attention_forward q=2x3x4 k=2x3x4 v=2x3x4 scale=1 causal=0",
       "q=2x3x4: expected 4 integers"},
      {"attention_forward q=1x2x3x4 k=1x2x3x4 v=1x2x3x4 scale=1 causal=0 "
       "types=f64",
       "types=f64: unknown word 'f64'"},
      {"attention_forward q=1x2x3x4 k=1x2x3x4 v=1x2x3x4 scale=1 causal=0 "
       "dqs=1x1x1x1",
       "unknown key 'dqs'"},
      {"batch_norm_forward src=2x3 epsilon=abc", "epsilon=abc"},
      {"batch_norm_forward src=2x3 epsilon=nan", "epsilon=nan"},
      {"batch_norm_forward src=2x3 epsilon=-1", "epsilon"},
  };
  for (const auto &[text, expected] : cases) {
    std::string error;
    EXPECT_FALSE(LibraryKernel::create(text, error)) << text;
    EXPECT_NE(error.find(expected), std::string::npos)
        << text << "\n gave: " << error;
  }
}

TEST(LibraryKernelThreads, MadeHereRunThere) {
  // With oneDNN's own scratchpad a kernel crashes in another thread.
  setKernelThreads(1);
  std::string error;
  auto kernel = LibraryKernel::create(
      "conv_forward src=1x16x14x14 weights=16x16x3x3 dst=1x16x14x14 "
      "strides=1x1 dilations=1x1 pad_lo=1x1 pad_hi=1x1 groups=1 bias=0",
      error);
  ASSERT_TRUE(kernel) << error;
  Values src = randomValues(16 * 14 * 14, 1), w = randomValues(16 * 16 * 9, 2);
  Values here(src.size()), there(src.size());
  void *scratchpad = std::aligned_alloc(64, kernel->scratchpadBytes() + 64);
  auto runInto = [&](Values &dst) {
    void *tensors[] = {src.data(), w.data(), dst.data()};
    EXPECT_TRUE(kernel->execute(tensors, scratchpad));
  };
  runInto(here);
  std::thread([&] {
    setKernelThreads(1);
    runInto(there);
  }).join();
  std::free(scratchpad);
  EXPECT_EQ(here, there);
}

} // namespace
