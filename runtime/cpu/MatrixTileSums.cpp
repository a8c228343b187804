//===- MatrixTileSums.cpp -------------------------------------------------===//
#include "cpu/MatrixTileSums.h"
#include "cpu/MatrixBlocks.h"

#include <algorithm>
#include <array>

using namespace pp::runtime;

static constexpr int64_t lanes = matrixTileLanes;
static constexpr int64_t blockLanes = matrixBlockLanes;
static constexpr int64_t blockNumbers = blockLanes * blockLanes;
static constexpr int64_t mostRows = 1024, mostColumns = 512;
/// Blocks that are added in one go, which L1 holds beside their factors.
static constexpr int64_t blocksAtOnce = 4;

static int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

int64_t MatrixTileSums::atOnce(const MatrixProductShape &shape, int64_t most) {
  // Terms of all products together, so that what is packed fits into L2; more
  // than half of them in one product are summed in several blocks, or take so
  // long that the memory of the sums is no matter.
  const int64_t terms = shape.isSplit ? 256 : 1024;
  return std::clamp<int64_t>(terms / std::max<int64_t>(shape.k, 1), 1, most);
}

uint64_t MatrixTileSums::getScratchpadBytes() const {
  return (divideUp(std::min(shape.m, mostRows), lanes) +
          divideUp(std::min(shape.n, mostColumns), lanes)) *
         most * panelBytes();
}

/// Asks for the rows of a block of c, which lie too far apart for the processor
/// to expect them.
static void askFor(const float *c, int64_t stride, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t half : {int64_t(0), lanes})
      __builtin_prefetch(c + i * stride + half, /*rw=*/1);
}

/// Whether c is so large that it has left the caches when it is read: then its
/// memory need not be read before it is written.
static bool canStream(const MatrixProductShape &shape, const void *c) {
  constexpr int64_t large = 1 << 19; // numbers
  return shape.c.column == 1 && shape.m * shape.n >= large &&
         shape.c.row % lanes == 0 && reinterpret_cast<uintptr_t>(c) % 64 == 0;
}

void MatrixTileSums::run(std::span<const Factors> products, void *cData,
                         bool isFirst, void *scratchpad) const {
  const auto count = static_cast<int64_t>(products.size());
  const int64_t one = panelBytes(), all = count * one;
  char *packedA = static_cast<char *>(scratchpad);
  char *packedB = packedA + divideUp(std::min(shape.m, mostRows), lanes) * all;
  auto *c = static_cast<float *>(cData);
  // The panels of a product lie beside those of the others, `all` apart.
  auto packA = [&](int64_t row, int64_t rows) {
    const int64_t at = row * shape.a.row;
    for (int64_t i = 0; i < count; ++i)
      if (shape.isSplit)
        packRows(static_cast<const float *>(products[i].a) + at, shape.a, rows,
                 shape.k, packedA + i * one, all);
      else
        packRows(static_cast<const uint16_t *>(products[i].a) + at, shape.a,
                 rows, shape.k, packedA + i * one, all);
  };
  auto packB = [&](int64_t column, int64_t columns) {
    const int64_t at = column * shape.b.column;
    for (int64_t i = 0; i < count; ++i)
      if (shape.isSplit)
        packColumns(static_cast<const float *>(products[i].b) + at, shape.b,
                    shape.k, columns, packedB + i * one, all);
      else
        packColumns(static_cast<const uint16_t *>(products[i].b) + at, shape.b,
                    shape.k, columns, packedB + i * one, all);
  };
  const bool isStreamed = isFirst && canStream(shape, cData);
  alignas(64) std::array<float, blocksAtOnce * blockNumbers> sums;
  auto addBlock = [&](int64_t row, int64_t rows, int64_t column,
                      int64_t columns, const char *a, const char *b) {
    // The first block becomes the sum of those before it, and of c.
    bool isBegun = isFirst;
    int64_t filled = 0;
    for (int64_t i = 0; i < count; ++i) {
      tiles.multiply(parts(), divideUp(rows, lanes), divideUp(columns, lanes),
                     a + i * one, all, b + i * one, all, shape.k,
                     sums.data() + filled++ * blockNumbers, /*isAdded=*/false);
      const bool isLast = i + 1 == count;
      if (!isLast && filled < blocksAtOnce)
        continue;
      for (int64_t r = 0; r < rows; ++r) {
        float *block = sums.data() + r * blockLanes;
        float *own = c + (row + r) * shape.c.row + column * shape.c.column;
        const RowPlace before{isBegun ? nullptr : own, shape.c.column};
        if (!isLast)
          sumRows(block, filled, blockNumbers, columns, before, {block, 1});
        else if (isStreamed && columns == blockLanes)
          streamSum(block, filled, blockNumbers, columns, own);
        else
          sumRows(block, filled, blockNumbers, columns, before,
                  {own, shape.c.column});
      }
      isBegun = true;
      filled = 1;
    }
  };

  tiles.begin();
  for (int64_t firstRow = 0; firstRow < shape.m; firstRow += mostRows) {
    const int64_t rows = std::min(mostRows, shape.m - firstRow);
    packA(firstRow, rows);
    for (int64_t firstColumn = 0; firstColumn < shape.n;
         firstColumn += mostColumns) {
      const int64_t columns = std::min(mostColumns, shape.n - firstColumn);
      packB(firstColumn, columns);
      for (int64_t row = 0; row < rows; row += blockLanes) {
        const int64_t some = std::min(blockLanes, rows - row);
        for (int64_t column = 0; column < columns; column += blockLanes) {
          if (shape.c.column == 1 && !isFirst) {
            const bool isLast = column + blockLanes >= columns;
            const int64_t nextRow = isLast ? row + blockLanes : row;
            askFor(c + (firstRow + nextRow) * shape.c.row + firstColumn +
                       (isLast ? 0 : column + blockLanes),
                   shape.c.row,
                   std::clamp<int64_t>(rows - nextRow, 0, blockLanes));
          }
          addBlock(firstRow + row, some, firstColumn + column,
                   std::min(blockLanes, columns - column),
                   packedA + row / lanes * all, packedB + column / lanes * all);
        }
      }
    }
  }
  tiles.end();
  if (isStreamed)
    endStreaming();
}
