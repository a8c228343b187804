//===- FewRowsProduct.cpp -------------------------------------------------===//
#include "cpu/FewRowsProduct.h"
#include "cpu/ProductTiles.h"
#include "plan/DataType.h"

#include <immintrin.h>

#include <algorithm>
#include <array>

using namespace pp::runtime;

#define PP_AVX2 __attribute__((target("avx2,fma")))
#define PP_AVX2_INLINE PP_AVX2 __attribute__((always_inline)) static inline

static constexpr int64_t mostRows = 3, lanes = 8;
/// Of a strip whose chains stay in a cache.
static constexpr int64_t stripColumns = 4096;

std::optional<FewRowsProduct>
FewRowsProduct::find(int64_t m, int64_t k, int64_t n, const MatrixStrides &a,
                     const MatrixStrides &b, const MatrixStrides &c,
                     bool isAdded) {
  FewRowsProduct product(m, k, n, a, b, c, isAdded);
  if (m > mostRows)
    product = product.transposed();
  return product.fits() ? std::optional(product) : std::nullopt;
}

FewRowsProduct FewRowsProduct::transposed() const {
  auto transpose = [](const MatrixStrides &matrix) {
    return MatrixStrides{matrix.column, matrix.row};
  };
  FewRowsProduct result(n, k, m, transpose(b), transpose(a), transpose(c),
                        isAdded);
  result.isTransposed = !isTransposed;
  return result;
}

bool FewRowsProduct::fits() const {
  // Fewer are rather packed.
  constexpr int64_t fewest = 16;
  return m <= mostRows &&
         ((b.column == 1 && n >= fewest) || (b.row == 1 && k >= fewest));
}

uint64_t FewRowsProduct::getScratchpadBytes() const {
  return alignUp(m * std::min(n, stripColumns) * sizeof(float));
}

void FewRowsProduct::write(const float *chains, int64_t pitch, int64_t column,
                           int64_t columns, int64_t term, float *to) const {
  const bool isLater = isAdded || term > 0;
  for (int64_t row = 0; row < m; ++row)
    for (int64_t i = 0; i < columns; ++i) {
      float &place = to[row * c.row + (column + i) * c.column];
      const float chain = chains[row * pitch + i];
      place = isLater ? place + chain : chain;
    }
}

//===----------------------------------------------------------------------===//
// Rows of b
//===----------------------------------------------------------------------===//

namespace {
/// Terms that are added in one pass over chains of some rows.
struct Terms {
  const float *a;
  MatrixStrides ofA;
  const float *b;
  int64_t bRow;
};
} // namespace

/// `sums` are `pitch` apart; chains begin at 0 where they are new.
template <int rows, int terms>
PP_AVX2 static void addTerms(const Terms &given, int64_t columns, float *sums,
                             int64_t pitch, bool areNew) {
  float factors[rows][terms];
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int term = 0; term < terms; ++term)
      factors[row][term] =
          given.a[row * given.ofA.row + term * given.ofA.column];
  int64_t column = 0;
  for (; column + lanes <= columns; column += lanes) {
    __m256 chains[rows];
#pragma unroll
    for (int row = 0; row < rows; ++row)
      chains[row] = areNew ? _mm256_setzero_ps()
                           : _mm256_loadu_ps(sums + row * pitch + column);
#pragma unroll
    for (int term = 0; term < terms; ++term) {
      const __m256 numbers =
          _mm256_loadu_ps(given.b + term * given.bRow + column);
#pragma unroll
      for (int row = 0; row < rows; ++row)
        chains[row] = _mm256_fmadd_ps(_mm256_set1_ps(factors[row][term]),
                                      numbers, chains[row]);
    }
#pragma unroll
    for (int row = 0; row < rows; ++row)
      _mm256_storeu_ps(sums + row * pitch + column, chains[row]);
  }
  for (; column < columns; ++column)
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      float chain = areNew ? 0 : sums[row * pitch + column];
#pragma unroll
      for (int term = 0; term < terms; ++term)
        chain = __builtin_fmaf(factors[row][term],
                               given.b[term * given.bRow + column], chain);
      sums[row * pitch + column] = chain;
    }
}

using AddTerms = decltype(addTerms<1, 1>);
/// By rows - 1: as many terms as leave registers for their factors, and one.
static constexpr std::array<int64_t, mostRows> termsAtOnce = {8, 4, 4};
static constexpr std::array<AddTerms *, mostRows> addSeveral = {
    addTerms<1, 8>, addTerms<2, 4>, addTerms<3, 4>};
static constexpr std::array<AddTerms *, mostRows> addOne = {
    addTerms<1, 1>, addTerms<2, 1>, addTerms<3, 1>};

void FewRowsProduct::addRows(const float *aData, const float *bData,
                             float *cData, float *sums) const {
  const int64_t pitch = std::min(n, stripColumns);
  const int64_t several = termsAtOnce[m - 1];
  for (int64_t column = 0; column < n; column += stripColumns) {
    const int64_t columns = std::min(stripColumns, n - column);
    for (int64_t begin = 0; begin < k; begin += chainTerms) {
      const int64_t end = std::min(k, begin + chainTerms);
      for (int64_t count, term = begin; term < end; term += count) {
        count = end - term < several ? 1 : several;
        auto *add = count == 1 ? addOne[m - 1] : addSeveral[m - 1];
        add({aData + term * a.column, a, bData + term * b.row + column, b.row},
            columns, sums, pitch, term == begin);
      }
      write(sums, pitch, column, columns, begin, cData);
    }
  }
}

//===----------------------------------------------------------------------===//
// Columns of b
//===----------------------------------------------------------------------===//

/// Four terms of eight columns: of each term those of all columns.
PP_AVX2_INLINE void loadTerms(const float *const *columns, int64_t term,
                              __m256 (&terms)[4]) {
  __m256 rows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    rows[i] = _mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm_loadu_ps(columns[i] + term)),
        _mm_loadu_ps(columns[i + 4] + term), 1);
  const __m256 low01 = _mm256_unpacklo_ps(rows[0], rows[1]);
  const __m256 high01 = _mm256_unpackhi_ps(rows[0], rows[1]);
  const __m256 low23 = _mm256_unpacklo_ps(rows[2], rows[3]);
  const __m256 high23 = _mm256_unpackhi_ps(rows[2], rows[3]);
  terms[0] = _mm256_shuffle_ps(low01, low23, 0x44);
  terms[1] = _mm256_shuffle_ps(low01, low23, 0xee);
  terms[2] = _mm256_shuffle_ps(high01, high23, 0x44);
  terms[3] = _mm256_shuffle_ps(high01, high23, 0xee);
}

/// Chains of some rows and `groups` times eight columns.
template <int rows, int groups>
PP_AVX2 static void chainColumns(const float *a, const MatrixStrides &ofA,
                                 const float *const *columns, int64_t terms,
                                 float *sums) {
  __m256 chains[rows][groups];
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int group = 0; group < groups; ++group)
      chains[row][group] = _mm256_setzero_ps();
  int64_t term = 0;
  auto add = [&](int group, int64_t first) PP_AVX2 {
    __m256 numbers[4];
    loadTerms(columns + group * lanes, first, numbers);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int row = 0; row < rows; ++row)
        chains[row][group] = _mm256_fmadd_ps(
            _mm256_broadcast_ss(a + row * ofA.row + (first + i) * ofA.column),
            numbers[i], chains[row][group]);
  };
  // A line of each column: those of more columns may share a place of the
  // cache.
  for (; term + 16 <= terms; term += 16)
#pragma unroll
    for (int group = 0; group < groups; ++group)
#pragma unroll
      for (int64_t part = 0; part < 16; part += 4)
        add(group, term + part);
  for (; term + 4 <= terms; term += 4)
#pragma unroll
    for (int group = 0; group < groups; ++group)
      add(group, term);
  for (; term < terms; ++term)
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      const float *const *own = columns + group * lanes;
      const __m256 numbers = _mm256_setr_ps(
          own[0][term], own[1][term], own[2][term], own[3][term], own[4][term],
          own[5][term], own[6][term], own[7][term]);
#pragma unroll
      for (int row = 0; row < rows; ++row)
        chains[row][group] = _mm256_fmadd_ps(
            _mm256_broadcast_ss(a + row * ofA.row + term * ofA.column), numbers,
            chains[row][group]);
    }
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int group = 0; group < groups; ++group)
      _mm256_storeu_ps(sums + (row * groups + group) * lanes,
                       chains[row][group]);
}

using ChainColumns = decltype(chainColumns<1, 1>);
static constexpr std::array<ChainColumns *, mostRows> chainEight = {
    chainColumns<1, 1>, chainColumns<2, 1>, chainColumns<3, 1>};

void FewRowsProduct::addColumns(const float *aData, const float *bData,
                                float *cData) const {
  // Chains of one row wait for one another, which is longer than what a cache
  // takes, but not than memory: that gives eight columns more than sixteen.
  constexpr int64_t mostInCache = 2 << 20;
  const bool areTwo = m == 1 && k * n <= mostInCache;
  float sums[mostRows * 2 * lanes];
  for (int64_t count, column = 0; column < n; column += count) {
    const int64_t width = (areTwo && n - column > lanes ? 2 : 1) * lanes;
    count = std::min(width, n - column);
    auto *chain = width > lanes ? chainColumns<1, 2> : chainEight[m - 1];
    for (int64_t begin = 0; begin < k; begin += chainTerms) {
      // Those that there are not are the last one again.
      const float *columns[2 * lanes];
      for (int64_t i = 0; i < width; ++i)
        columns[i] =
            bData + (column + std::min(i, count - 1)) * b.column + begin;
      chain(aData + begin * a.column, a, columns,
            std::min(chainTerms, k - begin), sums);
      write(sums, width, column, count, begin, cData);
    }
  }
}

void FewRowsProduct::run(const float *aData, const float *bData, float *cData,
                         void *scratchpad) const {
  if (isTransposed)
    std::swap(aData, bData);
  if (b.column == 1)
    return addRows(aData, bData, cData, static_cast<float *>(scratchpad));
  addColumns(aData, bData, cData);
}
