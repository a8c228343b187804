//===- MatrixTileProduct.cpp ----------------------------------------------===//
#include "cpu/MatrixTileProduct.h"
#include "plan/DataType.h"
#include "plan/ShortFloat.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

using namespace pp::runtime;

#define PP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define PP_AVX512_INLINE PP_AVX512 __attribute__((always_inline)) static inline

static constexpr int64_t lanes = matrixTileLanes, tileTerms = matrixTileTerms;
/// Two tiles of rows, or of columns.
static constexpr int64_t pair = 2 * lanes;
static constexpr int64_t mostTerms = 1024;

static int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}
static int64_t roundUp(int64_t value, int64_t multiple) {
  return divideUp(value, multiple) * multiple;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// 16 rows of 16 numbers of 32 bits become columns.
PP_AVX512_INLINE void transpose(std::array<__m512i, 16> &rows) {
  std::array<__m512i, 16> other;
  for (int i = 0; i < 16; i += 2) {
    other[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    other[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
  }
  // rows[4 g + j] has column j of each quarter, for the rows 4 g to 4 g + 3.
  for (int j = 0; j < 4; ++j) {
    __m512i low = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
    __m512i high = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd);
    __m512i low2 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
    __m512i high2 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
    other[j] = _mm512_shuffle_i32x4(low, low2, 0x88);
    other[8 + j] = _mm512_shuffle_i32x4(low, low2, 0xdd);
    other[4 + j] = _mm512_shuffle_i32x4(high, high2, 0x88);
    other[12 + j] = _mm512_shuffle_i32x4(high, high2, 0xdd);
  }
  rows = other;
}

namespace {
/// How a tile lies in memory: lane by lane, as a's, or pair of terms by pair of
/// terms, as b's.
enum class TileOrder { Lanes, Pairs };
} // namespace

/// Pairs of numbers of two rows.
PP_AVX512_INLINE __m512i interleave(__m256i first, __m256i second) {
  const __m512i mixed = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11,
                                         26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(
      mixed, _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
}

PP_AVX512 void MatrixTileProduct::packTile(const uint16_t *from,
                                           const int64_t *offsets, char *to) {
  auto row = [&](int64_t term) PP_AVX512 {
    return offsets[term] < 0
               ? _mm256_setzero_si256()
               : _mm256_loadu_si256(
                     reinterpret_cast<const __m256i *>(from + offsets[term]));
  };
  for (int64_t term = 0; term < tileTerms; term += 2, to += 64)
    _mm512_storeu_si512(to, interleave(row(term), row(term + 1)));
}

PP_AVX512 void MatrixTileProduct::packRowTile(const uint16_t *from,
                                              const int64_t *offsets,
                                              char *to) {
  for (int64_t row = 0; row < lanes; ++row, to += 64)
    _mm512_storeu_si512(to, offsets[row] < 0
                                ? _mm512_setzero_si512()
                                : _mm512_loadu_si512(from + offsets[row]));
}

/// Writes a tile of `count` lanes and `terms` terms; what there is not is 0.
template <TileOrder order>
PP_AVX512 static void packTile(const uint16_t *from, int64_t laneStride,
                               int64_t termStride, int64_t count, int64_t terms,
                               char *to) {
  std::array<__m512i, 16> rows;
  TileOrder own = TileOrder::Lanes;
  if (termStride == 1) {
    __mmask32 mask = terms < 32 ? (1u << terms) - 1 : ~0u;
    for (int64_t lane = 0; lane < lanes; ++lane)
      rows[lane] =
          lane < count
              ? _mm512_maskz_loadu_epi16(mask, from + lane * laneStride)
              : _mm512_setzero_si512();
  } else if (laneStride == 1) {
    own = TileOrder::Pairs;
    const __mmask16 mask = (1u << count) - 1;
    auto row = [&](int64_t term) PP_AVX512 {
      return term < terms
                 ? _mm256_maskz_loadu_epi16(mask, from + term * termStride)
                 : _mm256_setzero_si256();
    };
    // The next rows may lie in other pages, which the processor does not
    // expect.
    for (int64_t term = 0; term < tileTerms; ++term)
      __builtin_prefetch(from + (tileTerms + term) * termStride);
    for (int64_t term = 0; term < tileTerms; term += 2)
      rows[term / 2] = interleave(row(term), row(term + 1));
  } else {
    alignas(64) std::array<uint16_t, lanes * tileTerms> numbers{};
    for (int64_t lane = 0; lane < count; ++lane)
      for (int64_t term = 0; term < terms; ++term)
        numbers[lane * tileTerms + term] =
            from[lane * laneStride + term * termStride];
    for (int64_t lane = 0; lane < lanes; ++lane)
      rows[lane] = _mm512_load_si512(&numbers[lane * tileTerms]);
  }
  if (own != order)
    transpose(rows);
  for (int64_t row = 0; row < lanes; ++row)
    _mm512_storeu_si512(to + row * 64, rows[row]);
}

/// Panels of 16 lanes, `panelBytes` apart, each of the tiles of its terms.
template <TileOrder order>
static void packPanels(const uint16_t *from, int64_t laneStride,
                       int64_t termStride, int64_t count, int64_t terms,
                       char *to, int64_t panelBytes) {
  auto pack = [&](int64_t lane, int64_t term) {
    packTile<order>(
        from + lane * laneStride + term * termStride, laneStride, termStride,
        std::min(lanes, count - lane), std::min(tileTerms, terms - term),
        to + lane / lanes * panelBytes + term / tileTerms * matrixTileBytes);
  };
  // Memory is read in the order in which it lies.
  if (laneStride == 1)
    for (int64_t term = 0; term < terms; term += tileTerms)
      for (int64_t lane = 0; lane < count; lane += lanes)
        pack(lane, term);
  else
    for (int64_t lane = 0; lane < count; lane += lanes)
      for (int64_t term = 0; term < terms; term += tileTerms)
        pack(lane, term);
}

static int64_t panelBytes(int64_t terms) {
  return divideUp(terms, tileTerms) * matrixTileBytes;
}

uint64_t MatrixTileProduct::getPackedBytes(int64_t k, int64_t n) {
  return divideUp(n, lanes) * panelBytes(k);
}

void MatrixTileProduct::packColumns(const uint16_t *b, Strides strides,
                                    int64_t k, int64_t n, void *to) {
  packColumns(b, strides, k, n, static_cast<char *>(to), panelBytes(k));
}

void MatrixTileProduct::packColumns(const uint16_t *b, Strides strides,
                                    int64_t k, int64_t n, char *to,
                                    int64_t panelBytes) {
  packPanels<TileOrder::Pairs>(b, strides.column, strides.row, n, k, to,
                               panelBytes);
}

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

int64_t MatrixTileProduct::rowsAtOnce() const {
  // So that a packed part of a takes at most 4 MiB, except of very long rows.
  constexpr int64_t most = 1024, least = 256, numbers = 1 << 21;
  return std::clamp(numbers / std::max<int64_t>(k, 1) / pair * pair, least,
                    most);
}

int64_t MatrixTileProduct::termsAtOnce() const {
  int64_t blocks = std::max<int64_t>(1, divideUp(k, mostTerms));
  return roundUp(divideUp(k, blocks), tileTerms);
}

int64_t MatrixTileProduct::columnsAtOnce() const {
  // So that a packed part of b takes at most half a MiB of L2.
  constexpr int64_t most = 512, numbers = 1 << 18;
  return std::min(most, numbers / termsAtOnce() / pair * pair);
}

uint64_t MatrixTileProduct::measureA() const {
  return roundUp(std::min(m, rowsAtOnce()), lanes) / lanes * panelBytes(k);
}

uint64_t MatrixTileProduct::measureB() const {
  return isPacked ? 0
                  : getPackedBytes(std::min(k, termsAtOnce()),
                                   std::min(n, columnsAtOnce()));
}

uint64_t MatrixTileProduct::getScratchpadBytes() const {
  uint64_t sums = keepsSums() ? roundUp(std::min(m, rowsAtOnce()), pair) *
                                    columnsAtOnce() * sizeof(float)
                              : 0;
  return measureA() + measureB() + sums;
}

namespace {
/// A block of c of up to 2 x 2 tiles.
struct Block {
  int64_t rows, columns;
};
} // namespace

PP_AVX512_INLINE void store(float &to, float value, bool isAdded) {
  to = isAdded ? to + value : value;
}
/// Only f32 is added to.
PP_AVX512_INLINE void store(uint16_t &to, float value, bool /*isAdded*/) {
  to = toBF16(value);
}

/// Writes a row of a block that was computed in f32.
template <typename Element>
PP_AVX512 static void writeRow(const float *from, int64_t columns, Element *to,
                               int64_t stride, bool isAdded) {
  if (stride == 1 && !isAdded) { // vectorised
    for (int64_t column = 0; column < columns; ++column)
      store(to[column], from[column], false);
    return;
  }
  for (int64_t column = 0; column < columns; ++column)
    store(to[column * stride], from[column], isAdded);
}

/// Writes 32 x 32 numbers past the caches.
PP_AVX512 static void streamBlock(const float *from, float *to,
                                  int64_t rowStride) {
  for (int64_t row = 0; row < pair; ++row, from += pair, to += rowStride)
    for (int64_t half = 0; half < pair; half += lanes)
      _mm512_stream_ps(to + half, _mm512_load_ps(from + half));
}

MatrixTileProduct::PackPanels
MatrixTileProduct::packerOfA(const uint16_t *aData) const {
  return [this, aData](int64_t row, int64_t rows, int64_t term, int64_t terms,
                       char *to, int64_t panelBytes) {
    packPanels<TileOrder::Lanes>(aData + row * a.row + term * a.column, a.row,
                                 a.column, rows, terms, to, panelBytes);
  };
}

void MatrixTileProduct::run(const uint16_t *aData, const uint16_t *bData,
                            void *cData, void *scratchpad) const {
  const PackPanels packA = packerOfA(aData);
  const PackPanels packB = [&](int64_t column, int64_t columns, int64_t term,
                               int64_t terms, char *to, int64_t panelBytes) {
    packColumns(bData + column * b.column + term * b.row, b, terms, columns, to,
                panelBytes);
  };
  run({&packA, isPacked ? reinterpret_cast<const char *>(bData) : nullptr,
       &packB, cData, /*rows=*/nullptr},
      scratchpad);
}

void MatrixTileProduct::run(const uint16_t *aData, const PackPanels &packB,
                            void *cData, void *scratchpad) const {
  const PackPanels packA = packerOfA(aData);
  run({&packA, /*packedB=*/nullptr, &packB, cData, /*rows=*/nullptr},
      scratchpad);
}

void MatrixTileProduct::run(const PackPanels &packA, const PackPanels &packB,
                            uint16_t *cData, const int64_t *rows,
                            void *scratchpad) const {
  run({&packA, /*packedB=*/nullptr, &packB, cData, rows}, scratchpad);
}

void MatrixTileProduct::run(const Operands &operands, void *scratchpad) const {
  auto *packedA = static_cast<char *>(scratchpad);
  char *packedB = packedA + measureA();
  auto *sums = reinterpret_cast<float *>(packedB + measureB());
  alignas(64) std::array<float, pair * pair> local{};
  const int64_t aPanel = panelBytes(k), termBlock = termsAtOnce();
  const int64_t columnBlock = columnsAtOnce();

  // The block of c whose first number is in this row and column.
  auto write = [&](const float *from, int64_t pitch, Block block, int64_t row,
                   int64_t column, bool added) {
    for (int64_t i = row; i < row + block.rows; ++i, from += pitch) {
      int64_t at =
          (operands.rows ? operands.rows[i] : i * c.row) + column * c.column;
      if (isShort)
        writeRow(from, block.columns, static_cast<uint16_t *>(operands.c) + at,
                 c.column, /*isAdded=*/false);
      else
        writeRow(from, block.columns, static_cast<float *>(operands.c) + at,
                 c.column, added);
    }
  };

  // A large result is read when it has left the caches; then its memory need
  // not be read before it is written.
  constexpr int64_t large = 1 << 19; // numbers
  const bool isStreamed = isDirect() && !isAdded && k <= termBlock &&
                          m * n >= large && c.row % lanes == 0 &&
                          reinterpret_cast<uintptr_t>(operands.c) % 64 == 0;

  tiles.begin();
  for (int64_t firstRow = 0; firstRow < m; firstRow += rowsAtOnce()) {
    const int64_t rows = std::min(rowsAtOnce(), m - firstRow);
    (*operands.packA)(firstRow, rows, 0, k, packedA, aPanel);
    for (int64_t firstColumn = 0; firstColumn < n; firstColumn += columnBlock) {
      const int64_t columns = std::min(columnBlock, n - firstColumn);
      for (int64_t term = 0; term < k; term += termBlock) {
        const int64_t terms = std::min(termBlock, k - term);
        const int64_t steps = divideUp(terms, tileTerms);
        const bool isLast = term + terms == k;
        const char *panels = packedB;
        int64_t bPanel = panelBytes(terms);
        if (operands.packedB) {
          bPanel = aPanel;
          panels = operands.packedB + firstColumn / lanes * bPanel +
                   term / tileTerms * matrixTileBytes;
        } else {
          (*operands.packB)(firstColumn, columns, term, terms, packedB, bPanel);
        }
        for (int64_t row = 0; row < rows; row += pair)
          for (int64_t column = 0; column < columns; column += pair) {
            const Block block{std::min(pair, rows - row),
                              std::min(pair, columns - column)};
            auto writeHere = [&](const float *from, int64_t pitch, bool added) {
              write(from, pitch, block, firstRow + row, firstColumn + column,
                    added);
            };
            auto multiply = [&](float *to, int64_t pitch, bool added) {
              tiles.multiply(divideUp(block.rows, lanes),
                             divideUp(block.columns, lanes),
                             packedA + row / lanes * aPanel +
                                 term / tileTerms * matrixTileBytes,
                             aPanel, panels + column / lanes * bPanel, bPanel,
                             steps, to, pitch, added);
            };
            const bool isWhole =
                block.rows % lanes == 0 && block.columns % lanes == 0;
            auto *direct = static_cast<float *>(operands.c) +
                           (firstRow + row) * c.row +
                           (firstColumn + column) * c.column;
            if (isStreamed && block.rows == pair && block.columns == pair) {
              multiply(local.data(), pair, false);
              streamBlock(local.data(), direct, c.row);
            } else if (isDirect() && isWhole) {
              multiply(direct, c.row, isAdded || term > 0);
            } else if (isDirect()) {
              bool added = isAdded || term > 0;
              for (int64_t i = 0; added && i < block.rows; ++i)
                std::copy_n(direct + i * c.row, block.columns,
                            &local[i * pair]);
              multiply(local.data(), pair, added);
              writeHere(local.data(), pair, false);
            } else if (keepsSums()) {
              float *sum = sums + row * columnBlock + column;
              multiply(sum, columnBlock, term > 0);
              if (isLast)
                writeHere(sum, columnBlock, isAdded);
            } else {
              multiply(local.data(), pair, false);
              writeHere(local.data(), pair, isAdded);
            }
          }
      }
    }
  }
  tiles.end();
  if (isStreamed)
    _mm_sfence();
}
