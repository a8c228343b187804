//===- PanelTerms.h - Columns of matrices, term by term ---------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_PANELTERMS_H
#define PP_RUNTIME_CPU_PANELTERMS_H

#include <immintrin.h>

#include <cstdint>

namespace pp::runtime {

/// Brings some columns, a multiple of four, `columnStride` numbers apart and
/// each in one piece, into a panel, term by term: each to where `placeOf` says
/// that the term is.
template <typename PlaceOf>
void packTerms(const float *from, int64_t columnStride, int64_t terms,
               int64_t columns, float *panel, const PlaceOf &placeOf) {
  constexpr int64_t atOnce = 4;
  for (int64_t lane = 0; lane < columns; lane += atOnce) {
    const float *own = from + lane * columnStride;
    float *to = panel + lane;
    int64_t term = 0;
    for (; term + atOnce <= terms; term += atOnce) {
      __m128 rows[atOnce];
      for (int64_t i = 0; i < atOnce; ++i)
        rows[i] = _mm_loadu_ps(own + i * columnStride + term);
      _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
      for (int64_t i = 0; i < atOnce; ++i)
        _mm_storeu_ps(to + placeOf(term + i) * columns, rows[i]);
    }
    for (; term < terms; ++term)
      for (int64_t i = 0; i < atOnce; ++i)
        to[placeOf(term) * columns + i] = own[i * columnStride + term];
  }
}

/// The other way: from a panel to rows of `terms` numbers, one for each of its
/// columns, or added to them.
template <typename PlaceOf>
void unpackTerms(const float *panel, int64_t columns, int64_t terms,
                 bool isAdded, float *to, const PlaceOf &placeOf) {
  constexpr int64_t atOnce = 4;
  for (int64_t lane = 0; lane < columns; lane += atOnce) {
    const float *from = panel + lane;
    float *own = to + lane * terms;
    int64_t term = 0;
    for (; term + atOnce <= terms; term += atOnce) {
      __m128 rows[atOnce];
      for (int64_t i = 0; i < atOnce; ++i)
        rows[i] = _mm_loadu_ps(from + placeOf(term + i) * columns);
      _MM_TRANSPOSE4_PS(rows[0], rows[1], rows[2], rows[3]);
      for (int64_t i = 0; i < atOnce; ++i) {
        float *row = own + i * terms + term;
        _mm_storeu_ps(row, isAdded ? _mm_add_ps(_mm_loadu_ps(row), rows[i])
                                   : rows[i]);
      }
    }
    for (; term < terms; ++term)
      for (int64_t i = 0; i < atOnce; ++i) {
        const float value = from[placeOf(term) * columns + i];
        float &number = own[i * terms + term];
        number = isAdded ? number + value : value;
      }
  }
}

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PANELTERMS_H
