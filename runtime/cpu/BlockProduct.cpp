//===- BlockProduct.cpp ---------------------------------------------------===//
//
// 16 bytes have 32 numbers: 16 in their lower halves, those in even places, and
// 16 in their upper ones. So rows are arranged likewise first:
//
//   bytes    q1 q0 | q3 q2 | ... | q31 q30
//   a        a0 a2 a4 ... a30 | a1 a3 a5 ... a31
//
// In each lane, a block is summed up, and times its scale added to the sum of
// the lane.
//
//===----------------------------------------------------------------------===//
#include "cpu/BlockProduct.h"
#include "cpu/KernelBuilder.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

using namespace pp::runtime;

#define PP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

static constexpr int64_t lanes = 16, unit = 2 * lanes;
static constexpr int64_t rowsAtOnce = BlockProduct::rowsAtOnce;

namespace {
using Sums = std::array<float, rowsAtOnce>;
/// A row of b.
struct Column {
  const uint8_t *blocks;
  const float *scales;
  const uint8_t *zeros; // may be null

  int zeroOf(int64_t block) const {
    return zeros ? zeros[block / 2] >> block % 2 * 4 & 0xf : 8;
  }
};

/// Some arranged rows with a column.
using MultiplyColumn = void(const BlockProduct &work, const float *rows,
                            const Column &column, Sums &result);
} // namespace

/// In the same order always.
static float addLanes(std::array<float, lanes> lane) {
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      lane[i] += lane[i + half];
  return lane[0];
}

template <int count>
PP_AVX512 static void multiplyByVectors(const BlockProduct &work,
                                        const float *rows, const Column &column,
                                        Sums &result) {
  const int64_t blockCount = work.countBlocks(), units = work.block / unit,
                stride = blockCount * work.block;
  const __m128i low = _mm_set1_epi8(0xf);
  const uint8_t *blocks = column.blocks;
  __m512 sums[count];
#pragma unroll
  for (int row = 0; row < count; ++row)
    sums[row] = _mm512_setzero_ps();
  for (int64_t i = 0; i < blockCount; ++i) {
    const __m512 zero = _mm512_set1_ps(static_cast<float>(column.zeroOf(i)));
    __m512 own[count];
#pragma unroll
    for (int row = 0; row < count; ++row)
      own[row] = _mm512_setzero_ps();
    for (int64_t j = 0; j < units; ++j, rows += unit, blocks += lanes) {
      const __m128i bytes =
          _mm_loadu_si128(reinterpret_cast<const __m128i *>(blocks));
      const __m512 even = _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(
                                            _mm_and_si128(bytes, low))),
                                        zero),
                   odd = _mm512_sub_ps(
                       _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(
                           _mm_and_si128(_mm_srli_epi16(bytes, 4), low))),
                       zero);
#pragma unroll
      for (int row = 0; row < count; ++row) {
        const float *from = rows + row * stride;
        own[row] = _mm512_fmadd_ps(_mm512_loadu_ps(from), even, own[row]);
        own[row] =
            _mm512_fmadd_ps(_mm512_loadu_ps(from + lanes), odd, own[row]);
      }
    }
    const __m512 scale = _mm512_set1_ps(column.scales[i]);
#pragma unroll
    for (int row = 0; row < count; ++row)
      sums[row] = _mm512_fmadd_ps(own[row], scale, sums[row]);
  }
  for (int row = 0; row < count; ++row) {
    std::array<float, lanes> lane;
    _mm512_storeu_ps(lane.data(), sums[row]);
    result[row] = addLanes(lane);
  }
}

/// The same of one row, on any processor.
static void multiplyByNumbers(const BlockProduct &work, const float *row,
                              const Column &column, Sums &result) {
  const int64_t blockCount = work.countBlocks(), units = work.block / unit;
  const uint8_t *blocks = column.blocks;
  std::array<float, lanes> sums = {};
  for (int64_t i = 0; i < blockCount; ++i) {
    const int zero = column.zeroOf(i);
    std::array<float, lanes> own = {};
    for (int64_t j = 0; j < units; ++j, row += unit, blocks += lanes)
      for (int64_t lane = 0; lane < lanes; ++lane)
        own[lane] +=
            row[lane] * static_cast<float>((blocks[lane] & 0xf) - zero) +
            row[lanes + lane] * static_cast<float>((blocks[lane] >> 4) - zero);
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += own[lane] * column.scales[i];
  }
  result[0] = addLanes(sums);
}

/// By the number of rows, less one.
static constexpr std::array<MultiplyColumn *, rowsAtOnce> multiplyColumns = {
    multiplyByVectors<1>, multiplyByVectors<2>, multiplyByVectors<3>,
    multiplyByVectors<4>, multiplyByVectors<5>, multiplyByVectors<6>,
    multiplyByVectors<7>, multiplyByVectors<8>};

/// A row in the order of its factors, 0 behind its end.
static void arrange(const BlockProduct &work, const float *row, float *to) {
  for (int64_t place = 0; place < work.countBlocks() * work.block; ++place)
    to[place / unit * unit + place % 2 * lanes + place % unit / 2] =
        place < work.terms ? row[place] : 0;
}

uint64_t BlockProduct::getScratchpadBytes() const {
  return alignUp(sizeof(float) *
                 static_cast<uint64_t>(rowsAtOnce * countBlocks() * block));
}

void BlockProduct::run(const float *a, const Matrix &b, float *c, int64_t first,
                       int64_t count, void *scratchpad) const {
  auto *arranged = static_cast<float *>(scratchpad);
  const int64_t blockCount = countBlocks(), most = isFast ? rowsAtOnce : 1;
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t height = std::min(rows - row, most);
    for (int64_t i = 0; i < height; ++i)
      arrange(*this, a + (row + i) * terms, arranged + i * blockCount * block);
    for (int64_t column = first; column < first + count; ++column) {
      const Column own{b.blocks + column * blockCount * block / 2,
                       b.scales + column * blockCount,
                       b.zeros ? b.zeros + column * ((blockCount + 1) / 2)
                               : nullptr};
      Sums products;
      auto *multiply = isFast ? multiplyColumns[height - 1] : multiplyByNumbers;
      multiply(*this, arranged, own, products);
      for (int64_t i = 0; i < height; ++i)
        c[(row + i) * columns + column] = products[i];
    }
  }
}

void pp::runtime::buildBlockProduct(Descriptor &descriptor,
                                    KernelBuilder &builder) {
  BlockProduct work;
  work.rows = descriptor.getInteger("rows", 1, INT32_MAX);
  work.terms = descriptor.getInteger("terms", 1, INT32_MAX);
  work.columns = descriptor.getInteger("columns", 1, INT32_MAX);
  work.block = descriptor.getInteger("block", unit, INT32_MAX);
  work.hasZeros = descriptor.getInteger("zeros", 0, 1) != 0;
  if (work.block % unit != 0)
    throw DescriptorError("block is no multiple of 32");
  constexpr int64_t line = 16; // of a cache
  const auto columns = builder.isWhole() ? KernelBuilder::Range{0, work.columns}
                                         : builder.share(work.columns, line);
  const int64_t blocks = work.columns * work.countBlocks();
  std::vector<KernelBuilder::Tensor> tensors = {
      KernelBuilder::tensorOf(DataType::F32, work.rows * work.terms),
      KernelBuilder::tensorOf(DataType::U8, blocks * work.block / 2),
      KernelBuilder::tensorOf(DataType::F32, blocks)};
  if (work.hasZeros)
    tensors.push_back(KernelBuilder::tensorOf(
        DataType::U8, work.columns * ((work.countBlocks() + 1) / 2)));
  tensors.push_back(
      KernelBuilder::tensorOf(DataType::F32, work.rows * work.columns));
  builder.setFunction(
      std::move(tensors),
      [work, columns](void *const *tensors, void *scratchpad) {
        const BlockProduct::Matrix matrix{
            static_cast<const uint8_t *>(tensors[1]),
            static_cast<const float *>(tensors[2]),
            work.hasZeros ? static_cast<const uint8_t *>(tensors[3]) : nullptr};
        work.run(static_cast<const float *>(tensors[0]), matrix,
                 static_cast<float *>(tensors[work.hasZeros ? 4 : 3]),
                 columns.begin, columns.count, scratchpad);
      },
      work.getScratchpadBytes());
}
