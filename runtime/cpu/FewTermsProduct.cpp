//===- FewTermsProduct.cpp ------------------------------------------------===//
#include "cpu/FewTermsProduct.h"
#include "cpu/Processor.h"
#include "cpu/TiledProduct.h"

#include <immintrin.h>

#include <algorithm>

using namespace pp::runtime;

#define PP_AVX2 __attribute__((target("avx2,fma")))

static constexpr int64_t mostTerms = 8, lanes = 8, atOnce = 2 * lanes;
/// What the third cache does not keep for the next who reads it, in bytes.
static constexpr int64_t farBytes = 16 << 20;

bool FewTermsProduct::isPreferred(int64_t m, int64_t k, int64_t n,
                                  const MatrixStrides &b,
                                  const MatrixStrides &c) {
  constexpr int64_t inL2 = 1 << 20; // bytes
  return TiledProduct::isPossible() && !hasAvx512() && k <= mostTerms &&
         b.column == 1 && c.column == 1 && n >= atOnce &&
         m * n * int64_t(sizeof(float)) >= inL2;
}

namespace {
/// Some rows of a product. Rows of b and of c are `bRow` and `cRow` apart.
struct Rows {
  int64_t terms, columns;
  const float *b;
  int64_t bRow;
  float *c;
  int64_t cRow;
};
enum class Write { Store, Stream, Add };
} // namespace

/// Factors are those of a row, term by term, mostTerms apart.
template <int rows, Write write>
PP_AVX2 static void writeRows(const float *factors, const Rows &own) {
  int64_t column = 0;
  for (; column + atOnce <= own.columns; column += atOnce) {
    __m256 sums[rows][2];
#pragma unroll
    for (int row = 0; row < rows; ++row)
      sums[row][0] = sums[row][1] = _mm256_setzero_ps();
    const float *from = own.b + column;
    for (int64_t term = 0; term < own.terms; ++term, from += own.bRow) {
      const __m256 left = _mm256_loadu_ps(from);
      const __m256 right = _mm256_loadu_ps(from + lanes);
#pragma unroll
      for (int row = 0; row < rows; ++row) {
        const __m256 factor =
            _mm256_broadcast_ss(factors + row * mostTerms + term);
        sums[row][0] = _mm256_fmadd_ps(factor, left, sums[row][0]);
        sums[row][1] = _mm256_fmadd_ps(factor, right, sums[row][1]);
      }
    }
#pragma unroll
    for (int row = 0; row < rows; ++row)
#pragma unroll
      for (int64_t half = 0; half < 2; ++half) {
        float *to = own.c + row * own.cRow + column + half * lanes;
        const __m256 sum = sums[row][half];
        if (write == Write::Stream)
          _mm256_stream_ps(to, sum);
        else
          _mm256_storeu_ps(to, write == Write::Add
                                   ? _mm256_add_ps(_mm256_loadu_ps(to), sum)
                                   : sum);
      }
  }
  for (; column < own.columns; ++column)
    for (int row = 0; row < rows; ++row) {
      float sum = 0;
      for (int64_t term = 0; term < own.terms; ++term)
        sum = __builtin_fmaf(factors[row * mostTerms + term],
                             own.b[term * own.bRow + column], sum);
      float &to = own.c[row * own.cRow + column];
      to = write == Write::Add ? to + sum : sum;
    }
}

void FewTermsProduct::run(const float *aData, const float *bData,
                          float *cData) const {
  constexpr int64_t rowsAtOnce = 4;
  const bool isAligned = reinterpret_cast<uintptr_t>(cData) % 32 == 0 &&
                         c.row % lanes == 0 && n % atOnce == 0;
  const bool isFar = m * n * int64_t(sizeof(float)) >= farBytes;
  const Write write = isAdded              ? Write::Add
                      : isFar && isAligned ? Write::Stream
                                           : Write::Store;
  auto *four = write == Write::Add      ? writeRows<rowsAtOnce, Write::Add>
               : write == Write::Stream ? writeRows<rowsAtOnce, Write::Stream>
                                        : writeRows<rowsAtOnce, Write::Store>;
  auto *one = write == Write::Add ? writeRows<1, Write::Add>
                                  : writeRows<1, Write::Store>;
  for (int64_t count, row = 0; row < m; row += count) {
    count = m - row < rowsAtOnce ? 1 : rowsAtOnce;
    float factors[rowsAtOnce * mostTerms];
    for (int64_t i = 0; i < count; ++i)
      for (int64_t term = 0; term < k; ++term)
        factors[i * mostTerms + term] =
            aData[(row + i) * a.row + term * a.column];
    (count == 1 ? one : four)(factors,
                              {k, n, bData, b.row, cData + row * c.row, c.row});
  }
  // Whoever reads c sees it.
  if (write == Write::Stream)
    _mm_sfence();
}
