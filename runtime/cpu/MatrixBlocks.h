//===- MatrixBlocks.h - Brings blocks of sums into a matrix -----*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_MATRIXBLOCKS_H
#define PP_RUNTIME_CPU_MATRIXBLOCKS_H

#include <cstdint>

namespace pp::runtime {

/// Writes a row of `columns` numbers, or adds it to what is there. The
/// elements of c are `stride` apart. Needs AVX-512 with BW and VL.
void writeRow(const float *row, int64_t columns, float *c, int64_t stride,
              bool isAdded);
/// The same as bf16, rounded to the nearest.
void writeRow(const float *row, int64_t columns, uint16_t *c, int64_t stride);

/// A row whose elements are `stride` apart; null: there is none.
struct RowPlace {
  float *at;
  int64_t stride;
};
/// Writes the sum of `before` and of `count` rows, `distance` apart, added in
/// this order, to `to`, which may be one of these.
void sumRows(const float *rows, int64_t count, int64_t distance,
             int64_t columns, RowPlace before, RowPlace to);
/// The same without `before`, as streamRow.
void streamSum(const float *rows, int64_t count, int64_t distance,
               int64_t columns, float *to);

/// Reads the columns of a dense matrix of 16 rows, up to 16 columns, one after
/// the other.
void readColumns(const float *c, int64_t count, float *columns);
/// Writes `count` times 16 numbers as columns of a dense matrix of 16 rows. The
/// numbers are `offset` after these places.
void writeColumns(const float *const *columns, int64_t count, int64_t offset,
                  float *c);

/// Writes a multiple of 16 numbers to a multiple of 64, past the caches;
/// endStreaming() makes what was written so visible to other threads before
/// what comes after it.
void streamRow(const float *row, int64_t columns, float *c);
void endStreaming();

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_MATRIXBLOCKS_H
