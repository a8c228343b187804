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

static int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}
static int64_t roundUp(int64_t value, int64_t multiple) {
  return divideUp(value, multiple) * multiple;
}

int64_t MatrixTileProduct::rowsAtOnce() const {
  // So that a packed part of a takes at most 4 MiB, except of very long rows.
  constexpr int64_t most = 1024, least = 256, numbers = 1 << 21;
  return std::clamp(numbers / parts() / std::max<int64_t>(k, 1) / pair * pair,
                    least, most);
}

int64_t MatrixTileProduct::termsAtOnce() const {
  // With three parts, so that two panels of a fit into L1.
  const int64_t most = isSplit ? 256 : 1024;
  int64_t blocks = std::max<int64_t>(1, divideUp(k, most));
  return roundUp(divideUp(k, blocks), tileTerms);
}

int64_t MatrixTileProduct::columnsAtOnce() const {
  // So that a packed part of b takes at most half a MiB of L2.
  constexpr int64_t most = 512, numbers = 1 << 18;
  return std::min(most, numbers / parts() / termsAtOnce() / pair * pair);
}

uint64_t MatrixTileProduct::measureA() const {
  return divideUp(std::min(m, rowsAtOnce()), lanes) *
         matrixPanelBytes(k, parts());
}

uint64_t MatrixTileProduct::measureB() const {
  return isPacked ? 0
                  : divideUp(std::min(n, columnsAtOnce()), lanes) *
                        matrixPanelBytes(std::min(k, termsAtOnce()), parts());
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

uint64_t MatrixTileProduct::getPackedBytes() const {
  return divideUp(n, lanes) * matrixPanelBytes(k, parts());
}

void MatrixTileProduct::packColumns(const void *bData, void *to) const {
  packerOfB(bData)(0, n, 0, k, static_cast<char *>(to),
                   matrixPanelBytes(k, parts()));
}

MatrixTileProduct::PackPanels
MatrixTileProduct::packerOfA(const void *data) const {
  return [this, data](int64_t row, int64_t rows, int64_t term, int64_t terms,
                      char *to, int64_t panelBytes) {
    const int64_t at = row * a.row + term * a.column;
    if (isSplit)
      packRows(static_cast<const float *>(data) + at, a, rows, terms, to,
               panelBytes);
    else
      packRows(static_cast<const uint16_t *>(data) + at, a, rows, terms, to,
               panelBytes);
  };
}

MatrixTileProduct::PackPanels
MatrixTileProduct::packerOfB(const void *data) const {
  return [this, data](int64_t column, int64_t columns, int64_t term,
                      int64_t terms, char *to, int64_t panelBytes) {
    const int64_t at = column * b.column + term * b.row;
    if (isSplit)
      runtime::packColumns(static_cast<const float *>(data) + at, b, terms,
                           columns, to, panelBytes);
    else
      runtime::packColumns(static_cast<const uint16_t *>(data) + at, b, terms,
                           columns, to, panelBytes);
  };
}

void MatrixTileProduct::run(const void *aData, const void *bData, void *cData,
                            void *scratchpad) const {
  const PackPanels packA = packerOfA(aData), packB = packerOfB(bData);
  run({&packA, isPacked ? static_cast<const char *>(bData) : nullptr, &packB,
       cData, /*rows=*/nullptr},
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
  alignas(64) std::array<float, pair * pair> local;
  const int64_t aPanel = matrixPanelBytes(k, parts()),
                termBlock = termsAtOnce();
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
        int64_t bPanel = matrixPanelBytes(terms, parts());
        if (operands.packedB) {
          bPanel = aPanel;
          panels = operands.packedB + firstColumn / lanes * bPanel +
                   matrixPanelBytes(term, parts());
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
              tiles.multiply(parts(), divideUp(block.rows, lanes),
                             divideUp(block.columns, lanes),
                             packedA + row / lanes * aPanel +
                                 matrixPanelBytes(term, parts()),
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
