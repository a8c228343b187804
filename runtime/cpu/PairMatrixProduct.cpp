//===- PairMatrixProduct.cpp ----------------------------------------------===//
#include "cpu/PairMatrixProduct.h"
#include "cpu/PairLanes.h"
#include "cpu/PairProduct.h"
#include "plan/DataType.h"

#include <algorithm>

using namespace pp::runtime;

/// Rows and columns of c in a block.
static constexpr int64_t tileRows = 12, blockRows = 8 * tileRows,
                         blockColumns = 2 * pairColumns;

bool PairMatrixProduct::isPossible(const Shape &shape) {
  return hasPairProducts() && shape.m % pairColumns == 0 &&
         shape.n % pairColumns == 0;
}

static int64_t pairsOf(int64_t terms) { return (terms + 1) / 2; }

/// Numbers of a panel of so many columns.
static int64_t panelOf(int64_t terms, int64_t columns) {
  return pairsOf(terms) * 2 * columns;
}

uint64_t PairMatrixProduct::packedBytes(int64_t columns) const {
  return alignUp(panelOf(shape.k, columns) * sizeof(uint16_t));
}

uint64_t PairMatrixProduct::getScratchpadBytes() const {
  return most *
         (packedBytes(std::min(blockRows, shape.m)) + packedBytes(shape.n));
}

/// Brings columns of a matrix with rows of terms into panels of some columns,
/// pair of terms after pair of terms.
PP_DOT static void packPairs(const uint16_t *from, int64_t row, int64_t terms,
                             int64_t columns, int64_t ofPanel, uint16_t *to) {
  // Rows lie too far apart for the processor to expect them.
  constexpr int64_t ahead = 8;
  const int64_t panel = panelOf(terms, ofPanel);
  for (int64_t term = 0; term < terms; term += 2, from += 2 * row) {
    const bool isPair = term + 1 < terms;
    for (int64_t column = 0; column < columns; column += pairColumns) {
      auto load = [](const uint16_t *at) __attribute__((always_inline)) PP_DOT {
        return _mm512_cvtepu16_epi32(
            _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at)));
      };
      if (term + ahead < terms)
        __builtin_prefetch(from + ahead * row + column);
      if (term + ahead + 1 < terms)
        __builtin_prefetch(from + (ahead + 1) * row + column);
      __m512i pairs = load(from + column);
      if (isPair)
        pairs = _mm512_or_si512(
            pairs, _mm512_slli_epi32(load(from + row + column), 16));
      _mm512_storeu_si512(to + column / ofPanel * panel + term * ofPanel +
                              column % ofPanel * 2,
                          pairs);
    }
  }
}

/// Lets a block of c come into the caches.
static void askFor(const float *c, int64_t rows, int64_t columns,
                   int64_t cRow) {
  constexpr int64_t perLine = 64 / sizeof(float);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; column += perLine)
      __builtin_prefetch(c + row * cRow + column, /*rw=*/1);
}

void PairMatrixProduct::run(std::span<const Factors> factors, float *c,
                            bool isFirst, void *scratchpad) const {
  const auto count = static_cast<int64_t>(factors.size());
  const int64_t pairs = pairsOf(shape.k), panel = panelOf(shape.k, pairColumns);
  const uint64_t ofA = packedBytes(std::min(blockRows, shape.m));
  const uint64_t ofB = packedBytes(shape.n);
  auto *bytes = static_cast<char *>(scratchpad);
  auto packedA = [&](int64_t i) {
    return reinterpret_cast<uint16_t *>(bytes + i * ofA);
  };
  auto packedB = [&](int64_t i) {
    return reinterpret_cast<uint16_t *>(bytes + count * ofA + i * ofB);
  };
  for (int64_t i = 0; i < count; ++i)
    packPairs(static_cast<const uint16_t *>(factors[i].b), shape.bRow, shape.k,
              shape.n, pairColumns, packedB(i));
  for (int64_t row = 0; row < shape.m; row += blockRows) {
    const int64_t rows = std::min(blockRows, shape.m - row);
    // A panel of a is a block of rows.
    for (int64_t i = 0; i < count; ++i)
      packPairs(static_cast<const uint16_t *>(factors[i].a) + row, shape.aRow,
                shape.k, rows, rows, packedA(i));
    for (int64_t column = 0; column < shape.n; column += blockColumns) {
      const int64_t columns = std::min(blockColumns, shape.n - column);
      const int64_t next = column + columns;
      const int64_t nextColumns = std::min(blockColumns, shape.n - next);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t at = 0; at < rows; at += tileRows) {
          const int64_t some = std::min(tileRows, rows - at);
          float *const from = c + (row + at) * shape.cRow;
          // A part at a time: the processor waits for few lines at once.
          if (i == 0)
            askFor(from + next, some, nextColumns, shape.cRow);
          multiplyPairs({packedA(i) + 2 * at, /*aRow=*/2, /*aPair=*/2 * rows,
                         packedB(i) + column / pairColumns * panel, panel,
                         pairs},
                        some, columns, from + column, shape.cRow,
                        /*isAdded=*/i > 0 || !isFirst);
        }
    }
  }
}
