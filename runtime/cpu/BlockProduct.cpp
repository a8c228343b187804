//===- BlockProduct.cpp ---------------------------------------------------===//
//
// 16 bytes have 32 numbers: 16 in their lower halves, those in even places, and
// 16 in their upper ones. So rows are arranged likewise first:
//
//   bytes    q1 q0 | q3 q2 | ... | q31 q30
//   a        a0 a2 a4 ... a30 | a1 a3 a5 ... a31
//
// What a number stands for is looked up in the 16 lanes of a register. A tile
// is up to four rows and two columns, which share what is loaded and looked up.
// In each lane, a block is summed up, and times its scale added to the sum of
// the lane. AVX2 has half of the lanes at a time, and computes what a number
// stands for.
//
//===----------------------------------------------------------------------===//
#include "cpu/BlockProduct.h"
#include "cpu/KernelBuilder.h"
#include "cpu/TiledProduct.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

using namespace pp::runtime;

#define PP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define PP_AVX2 __attribute__((target("avx2,fma")))

static constexpr int64_t lanes = 16, unit = 2 * lanes;
static constexpr int64_t rowsAtOnce = BlockProduct::rowsAtOnce;

namespace {
/// Of a column with each row.
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
                            const Column *columns, Sums *results);
} // namespace

/// In the same order always.
static float addLanes(std::array<float, lanes> lane) {
  for (int64_t half = lanes / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i)
      lane[i] += lane[i + half];
  return lane[0];
}

template <int rows, int columns>
PP_AVX512 static void multiplyByVectors(const BlockProduct &work,
                                        const float *numbers,
                                        const Column *from, Sums *result) {
  const int64_t blockCount = work.countBlocks(), units = work.block / unit;
  const __m512 all =
      _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const uint8_t *blocks[columns];
  __m512 sums[columns][rows];
#pragma unroll
  for (int column = 0; column < columns; ++column) {
    blocks[column] = from[column].blocks;
#pragma unroll
    for (int row = 0; row < rows; ++row)
      sums[column][row] = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < blockCount; ++i) {
    // What the four bits stand for.
    __m512 table[columns], own[columns][rows];
#pragma unroll
    for (int column = 0; column < columns; ++column) {
      table[column] = _mm512_sub_ps(
          all, _mm512_set1_ps(static_cast<float>(from[column].zeroOf(i))));
#pragma unroll
      for (int row = 0; row < rows; ++row)
        own[column][row] = _mm512_setzero_ps();
    }
    for (int64_t j = 0; j < units; ++j, numbers += rows * unit) {
      __m512 even[columns], odd[columns];
#pragma unroll
      for (int column = 0; column < columns; ++column) {
        const __m512i bytes = _mm512_cvtepu8_epi32(
            _mm_loadu_si128(reinterpret_cast<const __m128i *>(blocks[column])));
        blocks[column] += lanes;
        // Of an index, the last four bits count.
        even[column] = _mm512_permutexvar_ps(bytes, table[column]);
        odd[column] =
            _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), table[column]);
      }
#pragma unroll
      for (int row = 0; row < rows; ++row) {
        const __m512 first = _mm512_loadu_ps(numbers + row * unit),
                     second = _mm512_loadu_ps(numbers + row * unit + lanes);
#pragma unroll
        for (int column = 0; column < columns; ++column) {
          own[column][row] =
              _mm512_fmadd_ps(first, even[column], own[column][row]);
          own[column][row] =
              _mm512_fmadd_ps(second, odd[column], own[column][row]);
        }
      }
    }
#pragma unroll
    for (int column = 0; column < columns; ++column) {
      const __m512 scale = _mm512_set1_ps(from[column].scales[i]);
#pragma unroll
      for (int row = 0; row < rows; ++row)
        sums[column][row] =
            _mm512_fmadd_ps(own[column][row], scale, sums[column][row]);
    }
  }
  for (int column = 0; column < columns; ++column)
    for (int row = 0; row < rows; ++row) {
      std::array<float, lanes> lane;
      _mm512_storeu_ps(lane.data(), sums[column][row]);
      result[column][row] = addLanes(lane);
    }
}

/// The same of one column, by AVX2.
template <int rows>
PP_AVX2 static void multiplyByHalves(const BlockProduct &work,
                                     const float *numbers, const Column *from,
                                     Sums *result) {
  constexpr int64_t width = lanes / 2;
  const int64_t blockCount = work.countBlocks(), units = work.block / unit;
  std::array<std::array<float, lanes>, rows> lane;
  for (int64_t half = 0; half < lanes; half += width) {
    const uint8_t *blocks = from->blocks + half;
    const float *at = numbers + half;
    __m256 sums[rows];
#pragma unroll
    for (int row = 0; row < rows; ++row)
      sums[row] = _mm256_setzero_ps();
    for (int64_t i = 0; i < blockCount; ++i) {
      const __m256i zero = _mm256_set1_epi32(from->zeroOf(i));
      __m256 own[rows];
#pragma unroll
      for (int row = 0; row < rows; ++row)
        own[row] = _mm256_setzero_ps();
      for (int64_t j = 0; j < units; ++j, at += rows * unit, blocks += lanes) {
        const __m256i bytes = _mm256_cvtepu8_epi32(
            _mm_loadl_epi64(reinterpret_cast<const __m128i *>(blocks)));
        const __m256 even = _mm256_cvtepi32_ps(_mm256_sub_epi32(
                         _mm256_and_si256(bytes, _mm256_set1_epi32(0xf)),
                         zero)),
                     odd = _mm256_cvtepi32_ps(
                         _mm256_sub_epi32(_mm256_srli_epi32(bytes, 4), zero));
#pragma unroll
        for (int row = 0; row < rows; ++row) {
          const float *pair = at + row * unit;
          own[row] = _mm256_fmadd_ps(_mm256_loadu_ps(pair), even, own[row]);
          own[row] =
              _mm256_fmadd_ps(_mm256_loadu_ps(pair + lanes), odd, own[row]);
        }
      }
      const __m256 scale = _mm256_set1_ps(from->scales[i]);
#pragma unroll
      for (int row = 0; row < rows; ++row)
        sums[row] = _mm256_fmadd_ps(own[row], scale, sums[row]);
    }
#pragma unroll
    for (int row = 0; row < rows; ++row)
      _mm256_storeu_ps(lane[row].data() + half, sums[row]);
  }
  for (int row = 0; row < rows; ++row)
    result[0][row] = addLanes(lane[row]);
}

/// The same of one row, on any processor.
static void multiplyByNumbers(const BlockProduct &work, const float *row,
                              const Column *from, Sums *result) {
  const Column &column = *from;
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
  result[0][0] = addLanes(sums);
}

/// By the number of rows, less one.
using Tiles = std::array<MultiplyColumn *, rowsAtOnce>;
template <int columns>
static constexpr Tiles vectorTiles =
    []<int... rows>(std::integer_sequence<int, rows...> /*numbers*/) {
      return Tiles{multiplyByVectors<rows + 1, columns>...};
    }(std::make_integer_sequence<int, rowsAtOnce>());
static constexpr Tiles halfTiles =
    []<int... rows>(std::integer_sequence<int, rows...> /*numbers*/) {
      return Tiles{multiplyByHalves<rows + 1>...};
    }(std::make_integer_sequence<int, rowsAtOnce>());

static constexpr int64_t columnsAtOnce = 2;

static MultiplyColumn *findTile(BlockProduct::Way way, int64_t rows,
                                int64_t columns) {
  switch (way) {
  case BlockProduct::Way::Avx512:
    return (columns == 1 ? vectorTiles<1> : vectorTiles<2>)[rows - 1];
  case BlockProduct::Way::Avx2:
    return halfTiles[rows - 1];
  case BlockProduct::Way::Anywhere:
    break;
  }
  return multiplyByNumbers;
}

BlockProduct::Way BlockProduct::findWay() {
  return hasAvx512()                  ? Way::Avx512
         : TiledProduct::isPossible() ? Way::Avx2
                                      : Way::Anywhere;
}

/// One of `height` rows in the order of its factors, 0 behind its end; units of
/// rows lie beside each other.
static void arrange(const BlockProduct &work, const float *row, int64_t height,
                    float *to) {
  for (int64_t first = 0; first < work.countBlocks() * work.block;
       first += unit, to += height * unit)
    for (int64_t i = 0; i < unit; ++i)
      to[i % 2 * lanes + i / 2] = first + i < work.terms ? row[first + i] : 0;
}

uint64_t BlockProduct::getScratchpadBytes() const {
  return alignUp(sizeof(float) *
                 static_cast<uint64_t>(rowsAtOnce * countBlocks() * block));
}

void BlockProduct::run(const float *a, const Matrix &b, float *c, int64_t first,
                       int64_t count, void *scratchpad) const {
  auto *arranged = static_cast<float *>(scratchpad);
  const int64_t blockCount = countBlocks(),
                most = way == Way::Anywhere ? 1 : rowsAtOnce;
  const int64_t mostColumns = way == Way::Avx512 ? columnsAtOnce : 1;
  auto columnOf = [&](const Matrix &from, int64_t column) {
    return Column{from.blocks + column * blockCount * block / 2,
                  from.scales + column * blockCount,
                  from.zeros ? from.zeros + column * ((blockCount + 1) / 2)
                             : nullptr};
  };
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t height = std::min(rows - row, most);
    for (int64_t i = 0; i < height; ++i)
      arrange(*this, a + (row + i) * terms, height, arranged + i * unit);
    for (int64_t column = first; column < first + count;) {
      const int64_t width = std::min(first + count - column, mostColumns);
      std::array<Column, columnsAtOnce> own;
      std::array<Sums, columnsAtOnce> products;
      for (int64_t i = 0; i < width; ++i)
        own[i] = columnOf(b, column + i);
      findTile(way, height, width)(*this, arranged, own.data(),
                                   products.data());
      for (int64_t i = 0; i < width; ++i, ++column)
        for (int64_t j = 0; j < height; ++j)
          c[(row + j) * columns + column] = products[i][j];
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
