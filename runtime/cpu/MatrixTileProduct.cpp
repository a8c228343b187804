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

bool MatrixTileProduct::packsTermByTerm() const {
  // What no cache holds of a is better packed just before it is needed, if the
  // sums are in one while all terms pass.
  constexpr int64_t largeA = 1 << 20, smallC = 1 << 18; // numbers
  const int64_t rows = std::min(m, rowsAtOnce());
  return isDirect() && rows * k * parts() > largeA && rows * n <= smallC;
}

uint64_t MatrixTileProduct::measureA() const {
  const int64_t terms = packsTermByTerm() ? std::min(k, termsAtOnce()) : k;
  return divideUp(std::min(m, rowsAtOnce()), lanes) *
         matrixPanelBytes(terms, parts());
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

namespace {
struct Range {
  int64_t first, count;
};
/// Panels of tiles; `bytes` from one to the next.
struct Panels {
  const char *first;
  int64_t bytes;
};
} // namespace

/// One product, with the memory that it needs.
class MatrixTileProduct::Run {
public:
  Run(const MatrixTileProduct &product, const Operands &operands,
      void *scratchpad)
      : product(product), operands(operands),
        packedA(static_cast<char *>(scratchpad)),
        packedB(packedA + product.measureA()),
        sums(reinterpret_cast<float *>(packedB + product.measureB())),
        isStreamed(findIsStreamed()) {}

  void multiply() {
    product.tiles.begin();
    const int64_t atOnce = product.rowsAtOnce();
    for (int64_t first = 0; first < product.m; first += atOnce)
      multiplyRows({first, std::min(atOnce, product.m - first)});
    product.tiles.end();
    if (isStreamed)
      _mm_sfence();
  }

private:
  bool findIsStreamed() const {
    // A large result is read when it has left the caches; then its memory need
    // not be read before it is written.
    constexpr int64_t large = 1 << 19; // numbers
    return product.isDirect() && !product.isAdded &&
           product.k <= product.termsAtOnce() &&
           product.m * product.n >= large && product.c.row % lanes == 0 &&
           reinterpret_cast<uintptr_t>(operands.c) % 64 == 0;
  }

  template <typename Work>
  void forEachRange(int64_t extent, int64_t atOnce, const Work &work) {
    for (int64_t first = 0; first < extent; first += atOnce)
      work(Range{first, std::min(atOnce, extent - first)});
  }
  Panels packA(Range rows, Range terms) {
    const int64_t bytes = matrixPanelBytes(terms.count, product.parts());
    (*operands.packA)(rows.first, rows.count, terms.first, terms.count, packedA,
                      bytes);
    return {packedA, bytes};
  }

  void multiplyRows(Range rows) {
    const int64_t n = product.n, k = product.k;
    const int64_t columnBlock = product.columnsAtOnce();
    const int64_t termBlock = product.termsAtOnce();
    if (product.packsTermByTerm())
      return forEachRange(k, termBlock, [&](Range terms) {
        Panels a = packA(rows, terms);
        forEachRange(n, columnBlock, [&](Range columns) {
          multiplyTerms(rows, columns, terms, a);
        });
      });
    Panels a = packA(rows, {0, k});
    forEachRange(n, columnBlock, [&](Range columns) {
      forEachRange(k, termBlock, [&](Range terms) {
        multiplyTerms(rows, columns, terms,
                      {a.first + matrixPanelBytes(terms.first, product.parts()),
                       a.bytes});
      });
    });
  }

  void multiplyTerms(Range rows, Range columns, Range terms, Panels a) {
    const int64_t parts = product.parts();
    Panels b{packedB, matrixPanelBytes(terms.count, parts)};
    if (operands.packedB) {
      b.bytes = matrixPanelBytes(product.k, parts);
      b.first = operands.packedB + columns.first / lanes * b.bytes +
                matrixPanelBytes(terms.first, parts);
    } else {
      (*operands.packB)(columns.first, columns.count, terms.first, terms.count,
                        packedB, b.bytes);
    }
    for (int64_t row = 0; row < rows.count; row += pair)
      for (int64_t column = 0; column < columns.count; column += pair)
        multiplyBlock(
            {rows.first + row, std::min(pair, rows.count - row)},
            {columns.first + column, std::min(pair, columns.count - column)},
            terms, {a.first + row / lanes * a.bytes, a.bytes},
            {b.first + column / lanes * b.bytes, b.bytes},
            sums + row * product.columnsAtOnce() + column);
  }

  /// Up to 2 x 2 tiles of c; `sum` is where its sums are kept.
  void multiplyBlock(Range rows, Range columns, Range terms, Panels a, Panels b,
                     float *sum) {
    const bool isFirst = terms.first == 0;
    const bool isLast = terms.first + terms.count == product.k;
    auto multiply = [&](float *to, int64_t pitch, bool isAdded) {
      product.tiles.multiply(product.parts(), divideUp(rows.count, lanes),
                             divideUp(columns.count, lanes), a.first, a.bytes,
                             b.first, b.bytes, terms.count, to, pitch, isAdded);
    };
    if (!product.isDirect()) {
      float *to = product.keepsSums() ? sum : local.data();
      const int64_t pitch =
          product.keepsSums() ? product.columnsAtOnce() : pair;
      multiply(to, pitch, !isFirst);
      if (isLast)
        write(to, pitch, rows, columns, product.isAdded);
      return;
    }
    const int64_t pitch = product.c.row;
    auto *direct =
        static_cast<float *>(operands.c) + rows.first * pitch + columns.first;
    const bool isAdded = product.isAdded || !isFirst;
    if (isStreamed && rows.count == pair && columns.count == pair) {
      multiply(local.data(), pair, false);
      return streamBlock(local.data(), direct, pitch);
    }
    if (rows.count % lanes == 0 && columns.count % lanes == 0)
      return multiply(direct, pitch, isAdded);
    for (int64_t row = 0; isAdded && row < rows.count; ++row)
      std::copy_n(direct + row * pitch, columns.count, &local[row * pair]);
    multiply(local.data(), pair, isAdded);
    write(local.data(), pair, rows, columns, false);
  }

  void write(const float *from, int64_t pitch, Range rows, Range columns,
             bool isAdded) {
    const Strides c = product.c;
    for (int64_t row = rows.first; row < rows.first + rows.count;
         ++row, from += pitch) {
      int64_t at = (operands.rows ? operands.rows[row] : row * c.row) +
                   columns.first * c.column;
      if (product.isShort)
        writeRow(from, columns.count, static_cast<uint16_t *>(operands.c) + at,
                 c.column, /*isAdded=*/false);
      else
        writeRow(from, columns.count, static_cast<float *>(operands.c) + at,
                 c.column, isAdded);
    }
  }

  const MatrixTileProduct &product;
  const Operands &operands;
  char *packedA, *packedB;
  float *sums;
  const bool isStreamed;
  alignas(64) std::array<float, pair * pair> local;
};

void MatrixTileProduct::run(const Operands &operands, void *scratchpad) const {
  Run(*this, operands, scratchpad).multiply();
}
