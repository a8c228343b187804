//===- PairMatrixProduct.cpp ----------------------------------------------===//
#include "cpu/PairMatrixProduct.h"
#include "cpu/PairLanes.h"
#include "cpu/PairProduct.h"
#include "cpu/Processor.h"
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

bool PairMatrixProduct::isPreferred(const Shape &shape) {
  constexpr int64_t mostTerms = 1024;
  return hasFastBFloat16() && !hasMatrixTiles() && shape.k <= mostTerms &&
         isPossible(shape);
}

int64_t PairMatrixProduct::countTogether(const Shape &shape, int64_t most) {
  constexpr int64_t cache = 2 << 20;
  return std::clamp<int64_t>(
      cache / (shape.k * shape.n * int64_t(sizeof(uint16_t))), 1, most);
}

static int64_t pairsOf(int64_t terms) { return (terms + 1) / 2; }

/// Numbers of a panel of so many columns.
static int64_t panelOf(int64_t terms, int64_t columns) {
  return pairsOf(terms) * 2 * columns;
}

uint64_t PairMatrixProduct::packedBytes(int64_t columns) const {
  return alignUp(panelOf(shape.k, columns) * sizeof(uint16_t));
}

uint64_t PairMatrixProduct::offsetBytes() const {
  return alignUp(shape.k * sizeof(int64_t));
}

uint64_t PairMatrixProduct::getScratchpadBytes() const {
  return 2 * offsetBytes() + most * (packedBytes(std::min(blockRows, shape.m)) +
                                     packedBytes(shape.n));
}

/// Where each term begins.
static void findTerms(const PairMatrixProduct::Terms &terms, int64_t *offsets) {
  const auto &[samples, depth, height, width] = terms.counts;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t z = 0; z < depth; ++z)
      for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < width; ++x)
          *offsets++ = sample * terms.strides[0] + z * terms.strides[1] +
                       y * terms.strides[2] + x * terms.strides[3];
}

/// 16 columns of a term, and of the next one if there is one.
PP_DOT_INLINE void packPair(const uint16_t *term, const uint16_t *next,
                            uint16_t *to) {
  auto load = [](const uint16_t *at) __attribute__((always_inline)) PP_DOT {
    return _mm512_cvtepu16_epi32(
        _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at)));
  };
  __m512i pairs = load(term);
  if (next)
    pairs = _mm512_or_si512(pairs, _mm512_slli_epi32(load(next), 16));
  _mm512_storeu_si512(to, pairs);
}

/// Brings columns of a factor into panels, pair of terms after pair of terms.
/// Each 16 columns are `block` apart, and become so `ofColumns`; a pair takes
/// `ofPair` numbers.
PP_DOT static void packPairs(const uint16_t *from, const int64_t *offsets,
                             int64_t terms, int64_t block, int64_t columns,
                             int64_t ofColumns, int64_t ofPair, uint16_t *to) {
  // Rows lie too far apart for the processor to expect them.
  constexpr int64_t ahead = 8;
  const int64_t blocks = columns / pairColumns;
  auto pack = [&](int64_t pair,
                  int64_t column) __attribute__((always_inline)) PP_DOT {
    const uint16_t *at = from + column * block;
    const int64_t term = 2 * pair;
    if (term + ahead + 1 < terms) {
      __builtin_prefetch(at + offsets[term + ahead]);
      __builtin_prefetch(at + offsets[term + ahead + 1]);
    }
    packPair(at + offsets[term],
             term + 1 < terms ? at + offsets[term + 1] : nullptr,
             to + column * ofColumns + pair * ofPair);
  };
  // In the order in which they lie in memory.
  if (block == pairColumns)
    for (int64_t pair = 0; pair < pairsOf(terms); ++pair)
      for (int64_t column = 0; column < blocks; ++column)
        pack(pair, column);
  else
    for (int64_t column = 0; column < blocks; ++column)
      for (int64_t pair = 0; pair < pairsOf(terms); ++pair)
        pack(pair, column);
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
  auto *const termsOfA = reinterpret_cast<int64_t *>(bytes);
  auto *const termsOfB = reinterpret_cast<int64_t *>(bytes + offsetBytes());
  bytes += 2 * offsetBytes();
  findTerms(shape.a, termsOfA);
  findTerms(shape.b, termsOfB);
  auto packedA = [&](int64_t i) {
    return reinterpret_cast<uint16_t *>(bytes + i * ofA);
  };
  auto packedB = [&](int64_t i) {
    return reinterpret_cast<uint16_t *>(bytes + count * ofA + i * ofB);
  };
  for (int64_t i = 0; i < count; ++i)
    packPairs(static_cast<const uint16_t *>(factors[i].b), termsOfB, shape.k,
              shape.b.block, shape.n, /*ofColumns=*/panel,
              /*ofPair=*/2 * pairColumns, packedB(i));
  for (int64_t row = 0; row < shape.m; row += blockRows) {
    const int64_t rows = std::min(blockRows, shape.m - row);
    // A panel of a is a block of rows.
    for (int64_t i = 0; i < count; ++i)
      packPairs(static_cast<const uint16_t *>(factors[i].a) +
                    row / pairColumns * shape.a.block,
                termsOfA, shape.k, shape.a.block, rows,
                /*ofColumns=*/2 * pairColumns, /*ofPair=*/2 * rows, packedA(i));
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
