//===- MatrixTilePanels.cpp -----------------------------------------------===//
#include "cpu/MatrixTilePanels.h"
#include "cpu/TransposeRows.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <type_traits>

using namespace pp::runtime;

#define PP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))
#define PP_AVX512_INLINE PP_AVX512 __attribute__((always_inline)) static inline
static constexpr int64_t lanes = matrixTileLanes, tileTerms = matrixTileTerms;

int64_t pp::runtime::matrixPanelBytes(int64_t terms, int64_t parts) {
  return (terms + tileTerms - 1) / tileTerms * parts * matrixTileBytes;
}

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

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

/// The three parts of numbers of f32, each in the upper half of 32 bits, whose
/// lower half is anything in the last one. Halves are rounded up.
PP_AVX512_INLINE std::array<__m512i, 3> split(__m512 numbers) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  auto round = [&](__m512 value) PP_AVX512 {
    return _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(value), half),
                            upper);
  };
  const __m512i bits = _mm512_castps_si512(numbers);
  __m512i first = round(numbers);
  __m512 rest = _mm512_sub_ps(numbers, _mm512_castsi512_ps(first));
  // Beyond its sign, what would become infinite, and what is it or no number.
  const __m512i size = _mm512_add_epi32(bits, bits);
  const __mmask16 isFull = _mm512_cmpge_epu32_mask(
      size, _mm512_set1_epi32(static_cast<int>(0xfeff0000)));
  if (isFull != 0) [[unlikely]] {
    const __m512i infinite = _mm512_set1_epi32(static_cast<int>(0xff000000));
    const __mmask16 isInvalid = _mm512_cmpge_epu32_mask(size, infinite);
    const __mmask16 isNone = _mm512_cmpgt_epu32_mask(size, infinite);
    first = _mm512_mask_and_epi32(first, isFull, bits, upper);
    first = _mm512_mask_or_epi32(first, isNone, first,
                                 _mm512_set1_epi32(0x00400000));
    rest = _mm512_maskz_sub_ps(static_cast<__mmask16>(~isInvalid), numbers,
                               _mm512_castsi512_ps(first));
  }
  const __m512i second = round(rest);
  rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(second));
  return {first, second, _mm512_add_epi32(_mm512_castps_si512(rest), half)};
}

/// The upper halves of two registers, side by side.
PP_AVX512_INLINE __m512i pairUp(__m512i low, __m512i high) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(low, 16), high);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

template <typename Element>
static constexpr int64_t partsOf = std::is_same_v<Element, float> ? 3 : 1;

/// Terms that lie together: a row for each lane.
PP_AVX512_INLINE void readLanes(const uint16_t *from, int64_t laneStride,
                                int64_t count, int64_t terms,
                                std::array<LaneRows, 1> &tiles) {
  __mmask32 mask = terms < 32 ? (1u << terms) - 1 : ~0u;
  for (int64_t lane = 0; lane < lanes; ++lane)
    tiles[0][lane] =
        lane < count ? _mm512_maskz_loadu_epi16(mask, from + lane * laneStride)
                     : _mm512_setzero_si512();
}
PP_AVX512_INLINE void readLanes(const float *from, int64_t laneStride,
                                int64_t count, int64_t terms,
                                std::array<LaneRows, 3> &tiles) {
  const __mmask32 mask = terms < 32 ? (1u << terms) - 1 : ~0u;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const float *row = from + lane * laneStride;
    std::array<__m512i, 3> low{}, high{};
    if (lane < count) {
      low = split(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), row));
      high = split(
          _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), row + 16));
    }
    for (int part = 0; part < 3; ++part)
      tiles[part][lane] = pairUp(low[part], high[part]);
  }
}

/// Lanes that lie together: a row for each pair of terms.
PP_AVX512_INLINE void readPairs(const uint16_t *from, int64_t termStride,
                                int64_t count, int64_t terms,
                                std::array<LaneRows, 1> &tiles) {
  const __mmask16 mask = (1u << count) - 1;
  auto row = [&](int64_t term) PP_AVX512 {
    return term < terms
               ? _mm256_maskz_loadu_epi16(mask, from + term * termStride)
               : _mm256_setzero_si256();
  };
  for (int64_t term = 0; term < tileTerms; term += 2)
    tiles[0][term / 2] = interleave(row(term), row(term + 1));
}
PP_AVX512_INLINE void readPairs(const float *from, int64_t termStride,
                                int64_t count, int64_t terms,
                                std::array<LaneRows, 3> &tiles) {
  const __mmask16 mask = (1u << count) - 1;
  auto row = [&](int64_t term) PP_AVX512 {
    return split(term < terms
                     ? _mm512_maskz_loadu_ps(mask, from + term * termStride)
                     : _mm512_setzero_ps());
  };
  for (int64_t term = 0; term < tileTerms / 2; ++term) {
    std::array<__m512i, 3> low = row(term), high = row(term + tileTerms / 2);
    for (int part = 0; part < 3; ++part)
      tiles[part][term] = pairUp(low[part], high[part]);
  }
}

/// Asks for the rows of the tile that is packed next, which may lie in other
/// pages than the processor expects.
template <typename Element>
static inline void askForRows(const Element *from, int64_t rows, int64_t stride,
                              int64_t numbers) {
  constexpr int64_t line = 64 / sizeof(Element);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < numbers; i += line)
      __builtin_prefetch(from + row * stride + i, /*rw=*/0, /*locality=*/2);
}

/// Writes the tiles of `count` lanes and `terms` terms.
template <TileOrder order, typename Element>
PP_AVX512 static void packTile(const Element *from, int64_t laneStride,
                               int64_t termStride, int64_t count, int64_t terms,
                               char *to) {
  std::array<LaneRows, partsOf<Element>> tiles;
  TileOrder own = TileOrder::Lanes;
  if (termStride == 1) {
    askForRows(from + lanes * laneStride, lanes, laneStride, tileTerms);
    readLanes(from, laneStride, count, terms, tiles);
  } else if (laneStride == 1) {
    own = TileOrder::Pairs;
    askForRows(from + tileTerms * termStride, tileTerms, termStride, lanes);
    readPairs(from, termStride, count, terms, tiles);
  } else {
    alignas(64) std::array<Element, lanes * tileTerms> numbers{};
    for (int64_t lane = 0; lane < count; ++lane)
      for (int64_t term = 0; term < terms; ++term)
        numbers[lane * tileTerms + term] =
            from[lane * laneStride + term * termStride];
    readLanes(numbers.data(), tileTerms, lanes, tileTerms, tiles);
  }
  for (LaneRows &rows : tiles) {
    if (own != order)
      transposeRows(rows);
    for (int64_t row = 0; row < lanes; ++row, to += 64)
      _mm512_storeu_si512(to, rows[row]);
  }
}

/// The terms `term` and `term` + 1 of 16 lanes that lie together.
PP_AVX512_INLINE __m512i readPair(const uint16_t *from, const int64_t *offsets,
                                  int64_t term, int64_t ahead) {
  __builtin_prefetch(from + offsets[term] + ahead);
  __builtin_prefetch(from + offsets[term + 1] + ahead);
  auto row = [&](int64_t offset) PP_AVX512 {
    return offset < 0 ? _mm256_setzero_si256()
                      : _mm256_loadu_si256(
                            reinterpret_cast<const __m256i *>(from + offset));
  };
  return interleave(row(offsets[term]), row(offsets[term + 1]));
}

PP_AVX512 void pp::runtime::packColumnTile(const uint16_t *from,
                                           const int64_t *offsets,
                                           int64_t ahead, char *to) {
  for (int64_t term = 0; term < tileTerms; term += 2, to += 64)
    _mm512_storeu_si512(to, readPair(from, offsets, term, ahead));
}

PP_AVX512 void pp::runtime::packTermsOfRows(const uint16_t *from,
                                            const int64_t *offsets,
                                            int64_t ahead, char *to) {
  LaneRows rows;
  for (int64_t term = 0; term < tileTerms; term += 2)
    rows[term / 2] = readPair(from, offsets, term, ahead);
  transposeRows(rows);
  for (int64_t row = 0; row < lanes; ++row, to += 64)
    _mm512_storeu_si512(to, rows[row]);
}

PP_AVX512 void pp::runtime::packRowTile(const uint16_t *from,
                                        const int64_t *offsets, char *to) {
  for (int64_t row = 0; row < lanes; ++row, to += 64)
    _mm512_storeu_si512(to, offsets[row] < 0
                                ? _mm512_setzero_si512()
                                : _mm512_loadu_si512(from + offsets[row]));
}

//===----------------------------------------------------------------------===//
// Panels
//===----------------------------------------------------------------------===//

template <TileOrder order, typename Element>
static void packPanels(const Element *from, int64_t laneStride,
                       int64_t termStride, int64_t count, int64_t terms,
                       char *to, int64_t panelBytes) {
  auto pack = [&](int64_t lane, int64_t term) {
    packTile<order>(from + lane * laneStride + term * termStride, laneStride,
                    termStride, std::min(lanes, count - lane),
                    std::min(tileTerms, terms - term),
                    to + lane / lanes * panelBytes +
                        term / tileTerms * partsOf<Element> * matrixTileBytes);
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

template <typename Element>
void pp::runtime::packRows(const Element *a, MatrixStrides strides,
                           int64_t rows, int64_t terms, char *to,
                           int64_t panelBytes) {
  packPanels<TileOrder::Lanes>(a, strides.row, strides.column, rows, terms, to,
                               panelBytes);
}

template <typename Element>
void pp::runtime::packColumns(const Element *b, MatrixStrides strides,
                              int64_t terms, int64_t columns, char *to,
                              int64_t panelBytes) {
  packPanels<TileOrder::Pairs>(b, strides.column, strides.row, columns, terms,
                               to, panelBytes);
}

template void pp::runtime::packRows(const uint16_t *, MatrixStrides, int64_t,
                                    int64_t, char *, int64_t);
template void pp::runtime::packRows(const float *, MatrixStrides, int64_t,
                                    int64_t, char *, int64_t);
template void pp::runtime::packColumns(const uint16_t *, MatrixStrides, int64_t,
                                       int64_t, char *, int64_t);
template void pp::runtime::packColumns(const float *, MatrixStrides, int64_t,
                                       int64_t, char *, int64_t);
