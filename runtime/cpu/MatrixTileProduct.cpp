//===- MatrixTileProduct.cpp ----------------------------------------------===//
#include "cpu/MatrixTileProduct.h"
#include "cpu/MatrixBlocks.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

using namespace pp::runtime;

static constexpr int64_t lanes = matrixTileLanes, tileTerms = matrixTileTerms;
static constexpr int64_t blockLanes = matrixBlockLanes;
static constexpr int64_t blockNumbers = blockLanes * blockLanes;

static int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}
static int64_t roundUp(int64_t value, int64_t multiple) {
  return divideUp(value, multiple) * multiple;
}

int64_t MatrixTileProduct::rowsAtOnce() const {
  if (kept == Kept::A)
    return m;
  // So that a packed part of a takes at most 4 MiB, except of very long rows.
  constexpr int64_t most = 1024, least = 256, numbers = 1 << 21;
  return std::clamp(numbers / parts() / std::max<int64_t>(k, 1) / blockLanes *
                        blockLanes,
                    least, most);
}

int64_t MatrixTileProduct::termsAtOnce() const {
  // Sums that wait for more terms pass through L2 (Emerald Rapids, 3072 x 768
  // from 512 rows in three parts: 247 GFLOP/s, 214 with 256 terms at once).
  const int64_t most = isSplit ? 768 : 1024;
  int64_t blocks = std::max<int64_t>(1, divideUp(k, most));
  return roundUp(divideUp(k, blocks), tileTerms);
}

int64_t MatrixTileProduct::columnsAtOnce() const {
  // So that a packed part of b takes at most half a MiB of L2, or of three
  // parts three quarters.
  constexpr int64_t most = 512;
  const int64_t numbers = (isSplit ? 3 : 2) << 17;
  const int64_t step = std::lcm(blockLanes, std::max<int64_t>(together, 1));
  return std::max(step, std::min(most, numbers / parts() / termsAtOnce()) /
                            step * step);
}

bool MatrixTileProduct::packsTermByTerm() const {
  // What no cache holds of a is better packed just before it is needed, if the
  // sums are in one while all terms pass.
  constexpr int64_t largeA = 1 << 20, smallC = 1 << 18; // numbers
  if (kept != Kept::None)
    return false;
  const int64_t rows = std::min(m, rowsAtOnce());
  return rows * k * parts() > largeA && rows * n <= smallC;
}

uint64_t MatrixTileProduct::measureA() const {
  const int64_t terms = packsTermByTerm() ? std::min(k, termsAtOnce()) : k;
  return divideUp(std::min(m, rowsAtOnce()), lanes) *
         matrixPanelBytes(terms, parts());
}

uint64_t MatrixTileProduct::measureB() const {
  return isPacked   ? 0
         : keepsB() ? getPackedBytes()
                    : divideUp(std::min(n, columnsAtOnce()), lanes) *
                          matrixPanelBytes(std::min(k, termsAtOnce()), parts());
}

int64_t MatrixTileProduct::blocksInARow() const {
  return divideUp(packsTermByTerm() ? n : std::min(n, columnsAtOnce()),
                  blockLanes);
}

uint64_t MatrixTileProduct::measureSums() const {
  if (!keepsSums())
    return 0;
  const int64_t rows =
      hasMoreTerms() ? divideUp(std::min(m, rowsAtOnce()), blockLanes) : 1;
  return rows * blocksInARow() * blockNumbers * sizeof(float);
}

uint64_t MatrixTileProduct::getScratchpadBytes() const {
  return measureA() + measureB() + measureSums();
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
                            void *scratchpad, bool isKept) const {
  const PackPanels packA = packerOfA(aData), packB = packerOfB(bData);
  run({&packA, bData, &packB, cData, /*rows=*/nullptr, /*take=*/nullptr,
       /*finish=*/nullptr, isKept},
      scratchpad);
}

void MatrixTileProduct::run(const PackPanels &packA, const PackPanels &packB,
                            void *cData, const int64_t *rows,
                            void *scratchpad) const {
  run({&packA, /*b=*/nullptr, &packB, cData, rows}, scratchpad);
}

void MatrixTileProduct::run(const PackPanels &packA, const void *b, void *c,
                            const int64_t *rows, const FinishRow *finish,
                            void *scratchpad) const {
  run({&packA, b, /*packB=*/nullptr, c, rows, /*take=*/nullptr, finish},
      scratchpad);
}

void MatrixTileProduct::run(const PackPanels &packA, const PackPanels &packB,
                            const TakeSums &take, void *scratchpad) const {
  run({&packA, /*b=*/nullptr, &packB, /*c=*/nullptr, /*rows=*/nullptr, &take},
      scratchpad);
}

namespace {
struct Range {
  int64_t first, count;
};
/// What is multiplied while a part of b is packed.
struct Block {
  Range columns, terms;
};
/// Panels of tiles; `bytes` from one to the next.
struct Panels {
  const char *first = nullptr;
  int64_t bytes = 0;
};
} // namespace

/// One product, with the memory that it needs.
class MatrixTileProduct::Run {
public:
  Run(const MatrixTileProduct &product, const Operands &operands,
      void *scratchpad)
      : product(product), operands(operands),
        // What stays there is the first.
        packedA(static_cast<char *>(scratchpad) +
                (product.keepsB() ? product.measureB() : 0)),
        packedB(static_cast<char *>(scratchpad) +
                (product.keepsB() ? 0 : product.measureA())),
        sums(reinterpret_cast<float *>(static_cast<char *>(scratchpad) +
                                       product.measureA() +
                                       product.measureB())),
        isStreamed(findIsStreamed()),
        isAskedFor(!isStreamed && !operands.take && product.c.column == 1) {}

  void multiply() {
    product.tiles.begin();
    const int64_t atOnce = product.rowsAtOnce();
    for (int64_t first = 0; first < product.m; first += atOnce)
      multiplyRows({first, std::min(atOnce, product.m - first)});
    product.tiles.end();
    if (isStreamed)
      endStreaming();
  }

private:
  bool findIsStreamed() const {
    // A large result is read when it has left the caches; then its memory need
    // not be read before it is written.
    constexpr int64_t large = 1 << 19; // numbers
    return !operands.take && !product.isShort && product.c.column == 1 &&
           !product.isAdded && product.m * product.n >= large &&
           product.c.row % lanes == 0 &&
           reinterpret_cast<uintptr_t>(operands.c) % 64 == 0;
  }

  /// In the order in which they are multiplied.
  std::vector<Block> findBlocks() const {
    std::vector<Block> blocks;
    const int64_t columns = product.columnsAtOnce();
    const int64_t terms = product.termsAtOnce();
    auto add = [&](int64_t column, int64_t term) {
      blocks.push_back({{column, std::min(columns, product.n - column)},
                        {term, std::min(terms, product.k - term)}});
    };
    if (product.packsTermByTerm())
      for (int64_t term = 0; term < product.k; term += terms)
        for (int64_t column = 0; column < product.n; column += columns)
          add(column, term);
    else
      for (int64_t column = 0; column < product.n; column += columns)
        for (int64_t term = 0; term < product.k; term += terms)
          add(column, term);
    return blocks;
  }

  Panels packA(Range rows, Range terms) {
    const int64_t bytes = matrixPanelBytes(terms.count, product.parts());
    if (operands.isKept && product.kept == Kept::A)
      return {packedA, bytes};
    (*operands.packA)(rows.first, rows.count, terms.first, terms.count, packedA,
                      bytes);
    return {packedA, bytes};
  }

  void multiplyRows(Range rows) {
    const bool isByTerms = product.packsTermByTerm();
    const Panels all = isByTerms ? Panels{} : packA(rows, {0, product.k});
    Panels a = all;
    for (const Block &block : blocks) {
      if (!isByTerms)
        a.first =
            all.first + matrixPanelBytes(block.terms.first, product.parts());
      else if (block.columns.first == 0)
        a = packA(rows, block.terms);
      multiplyBlock(rows, block, a);
    }
  }

  void multiplyBlock(Range rows, const Block &block, Panels a) {
    const auto &[columns, terms] = block;
    const int64_t parts = product.parts();
    char *to = packedB;
    Panels b{packedB, matrixPanelBytes(terms.count, parts)};
    if (product.isPacked || product.keepsB()) {
      b.bytes = matrixPanelBytes(product.k, parts);
      const int64_t at = columns.first / lanes * b.bytes +
                         matrixPanelBytes(terms.first, parts);
      to += at;
      b.first =
          product.isPacked ? static_cast<const char *>(operands.b) + at : to;
    }
    const bool isThere =
        product.isPacked ||
        (product.keepsB() && (rows.first != 0 || operands.isKept));
    if (!isThere)
      (*operands.packB)(columns.first, columns.count, terms.first, terms.count,
                        to, b.bytes);
    for (int64_t row = 0; row < rows.count; row += blockLanes) {
      const int64_t place =
          (product.hasMoreTerms() ? row / blockLanes * product.blocksInARow()
                                  : 0) +
          (product.packsTermByTerm() ? columns.first / blockLanes : 0);
      const Range some = tilesAt(rows, row);
      for (int64_t column = 0; column < columns.count; column += blockLanes) {
        if (isAskedFor && isLast(terms))
          askFor(some, tilesAt(columns, column));
        multiplyTiles(some, tilesAt(columns, column), terms,
                      {a.first + row / lanes * a.bytes, a.bytes},
                      {b.first + column / lanes * b.bytes, b.bytes},
                      product.keepsSums()
                          ? sums + (place + column / blockLanes) * blockNumbers
                          : local.data());
      }
      if (operands.take && isLast(terms))
        (*operands.take)(some.first, some.count, columns.first, columns.count,
                         sums + place * blockNumbers);
    }
  }
  bool isLast(Range terms) const {
    return terms.first + terms.count == product.k;
  }
  static Range tilesAt(Range range, int64_t at) {
    return {range.first + at, std::min(blockLanes, range.count - at)};
  }

  /// Asks for the part of c where a block goes when it is multiplied: rows lie
  /// too far apart for the processor to expect them, and one that waits to
  /// write them does not load tiles meanwhile.
  void askFor(Range rows, Range columns) {
    const int64_t size = product.isShort ? sizeof(uint16_t) : sizeof(float);
    for (int64_t i = rows.first; i < rows.first + rows.count; ++i) {
      const int64_t at = placeOf(i) + columns.first;
      const auto *c = static_cast<const char *>(operands.c) + at * size;
      for (int64_t byte = 0; byte < columns.count * size; byte += 64)
        __builtin_prefetch(c + byte, /*rw=*/1);
    }
  }

  /// Where a row of c begins.
  int64_t placeOf(int64_t row) const {
    return operands.rows ? operands.rows[row] : row * product.c.row;
  }

  /// Up to 2 x 2 tiles of c; `sum` is where its sums are kept.
  void multiplyTiles(Range rows, Range columns, Range terms, Panels a, Panels b,
                     float *sum) {
    product.tiles.multiply(product.parts(), divideUp(rows.count, lanes),
                           divideUp(columns.count, lanes), a.first, a.bytes,
                           b.first, b.bytes, terms.count, sum,
                           /*isAdded=*/terms.first != 0);
    if (!operands.take && isLast(terms))
      write(sum, rows, columns);
  }

  void write(float *block, Range rows, Range columns) {
    const Strides c = product.c;
    for (int64_t row = rows.first; row < rows.first + rows.count;
         ++row, block += blockLanes) {
      const int64_t at = placeOf(row) + columns.first * c.column;
      if (operands.finish)
        (*operands.finish)(block, columns.first, columns.count);
      if (product.isShort)
        writeRow(block, columns.count, static_cast<uint16_t *>(operands.c) + at,
                 c.column);
      else if (isStreamed && columns.count == blockLanes)
        streamRow(block, blockLanes, static_cast<float *>(operands.c) + at);
      else
        writeRow(block, columns.count, static_cast<float *>(operands.c) + at,
                 c.column, product.isAdded);
    }
  }

  const MatrixTileProduct &product;
  const Operands &operands;
  char *packedA, *packedB;
  float *sums;
  const bool isStreamed;
  const bool isAskedFor; // c, a row after the other
  const std::vector<Block> blocks = findBlocks();
  alignas(64) std::array<float, blockNumbers> local;
};

void MatrixTileProduct::run(const Operands &operands, void *scratchpad) const {
  Run(*this, operands, scratchpad).multiply();
}
