//===- MatrixTileSums.cpp -------------------------------------------------===//
#include "cpu/MatrixTileSums.h"
#include "cpu/MatrixBlocks.h"

#include <algorithm>
#include <array>
#include <numeric>

using namespace pp::runtime;

static constexpr int64_t lanes = matrixTileLanes;
static constexpr int64_t blockLanes = matrixBlockLanes;
static constexpr int64_t blockNumbers = blockLanes * blockLanes;
static constexpr int64_t mostRows = 1024;
/// Blocks that are added in one go, which L1 holds beside their factors.
static constexpr int64_t blocksAtOnce = 4;

static int64_t divideUp(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

int64_t MatrixTileSums::atOnce(const MatrixProductSizes &sizes, int64_t most) {
  // Terms of all products together, so that what is packed fits into L2; more
  // than half of them in one product are summed in several blocks, or take so
  // long that the memory of the sums is no matter.
  const int64_t terms = sizes.isSplit ? 256 : 1024;
  const int64_t padded = divideUp(sizes.k, matrixTileTerms) * matrixTileTerms;
  return std::clamp<int64_t>(terms / std::max<int64_t>(padded, 1), 1, most);
}

int64_t MatrixTileSums::columnsAtOnce() const {
  constexpr int64_t mostColumns = 512;
  const int64_t step = std::lcm(blockLanes, std::max<int64_t>(together, 1));
  return std::max(step, mostColumns / step * step);
}

uint64_t MatrixTileSums::getScratchpadBytes() const {
  const int64_t columns = std::min(sizes.n, columnsAtOnce());
  const int64_t panels =
      divideUp(std::min(sizes.m, mostRows), lanes) + divideUp(columns, lanes);
  const int64_t blocks = together == 0 ? 0 : divideUp(columns, blockLanes);
  return panels * most * panelBytes() + blocks * blockNumbers * sizeof(float);
}

/// Asks for the rows of a block of c, which lie too far apart for the processor
/// to expect them.
static void askFor(const float *c, int64_t stride, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t half : {int64_t(0), lanes})
      __builtin_prefetch(c + i * stride + half, /*rw=*/1);
}

namespace {
struct Range {
  int64_t first, count;
};
} // namespace

/// Some products, with the memory that they need.
class MatrixTileSums::Run {
public:
  Run(const MatrixTileSums &sums, const Products &products, void *scratchpad)
      : sums(sums), sizes(sums.sizes), products(products),
        one(sums.panelBytes()), all(products.count * one),
        packedA(static_cast<char *>(scratchpad)),
        packedB(packedA + divideUp(std::min(sizes.m, mostRows), lanes) * all),
        taken(reinterpret_cast<float *>(
            packedB +
            divideUp(std::min(sizes.n, sums.columnsAtOnce()), lanes) * all)) {}

  void write(float *c, MatrixStrides strides) {
    const bool isStreamed = products.isFirst && canStream(c, strides);
    forRowsAndColumns([&](Range rows, Range columns) {
      for (int64_t row = 0; row < rows.count; row += blockLanes)
        for (int64_t column = 0; column < columns.count; column += blockLanes) {
          float *block = c + (rows.first + row) * strides.row +
                         (columns.first + column) * strides.column;
          if (strides.column == 1 && !isStreamed)
            askFor(block, strides.row, std::min(blockLanes, rows.count - row));
          addBlock(rows, row, columns, column, block, strides, isStreamed);
        }
    });
    if (isStreamed)
      endStreaming();
  }

  void take(const TakeSums &take) {
    forRowsAndColumns([&](Range rows, Range columns) {
      for (int64_t row = 0; row < rows.count; row += blockLanes) {
        auto hand = [&](bool isAdded) {
          take(rows.first + row, std::min(blockLanes, rows.count - row),
               columns.first, columns.count, taken, isAdded);
        };
        for (int64_t i = 0; i < products.count; ++i) {
          const bool isSummed = products.isFirst && i != 0;
          for (int64_t column = 0; column < columns.count;
               column += blockLanes) {
            float *total = taken + column / blockLanes * blockNumbers;
            if (!isSummed) {
              multiply(i, rows, row, columns, column, total);
              continue;
            }
            multiply(i, rows, row, columns, column, blocks.data());
            sumRows(blocks.data(), 1, /*distance=*/0, blockNumbers, {total, 1},
                    {total, 1});
          }
          if (!products.isFirst)
            hand(/*isAdded=*/true);
        }
        if (products.isFirst)
          hand(/*isAdded=*/false);
      }
    });
  }

private:
  /// With the panels of all products packed, which lie beside each other.
  template <typename Work> void forRowsAndColumns(const Work &work) {
    const int64_t atOnce = sums.columnsAtOnce();
    sums.tiles.begin();
    for (int64_t row = 0; row < sizes.m; row += mostRows) {
      const Range rows{row, std::min(mostRows, sizes.m - row)};
      for (int64_t i = 0; i < products.count; ++i)
        products.packA(i, rows.first, rows.count, packedA + i * one, all);
      for (int64_t column = 0; column < sizes.n; column += atOnce) {
        const Range columns{column, std::min(atOnce, sizes.n - column)};
        for (int64_t i = 0; i < products.count; ++i)
          products.packB(i, columns.first, columns.count, packedB + i * one,
                         all);
        work(rows, columns);
      }
    }
    sums.tiles.end();
  }

  /// Up to 2 x 2 tiles of product `i`.
  void multiply(int64_t i, Range rows, int64_t row, Range columns,
                int64_t column, float *block) {
    auto tilesFrom = [](Range range, int64_t at) {
      return divideUp(std::min(blockLanes, range.count - at), lanes);
    };
    sums.tiles.multiply(sums.parts(), tilesFrom(rows, row),
                        tilesFrom(columns, column),
                        packedA + row / lanes * all + i * one, all,
                        packedB + column / lanes * all + i * one, all, sizes.k,
                        block, /*isAdded=*/false);
  }

  /// Adds a block of c up; `to` is where it lies.
  void addBlock(Range rows, int64_t row, Range columns, int64_t column,
                float *to, MatrixStrides strides, bool isStreamed) {
    const int64_t height = std::min(blockLanes, rows.count - row);
    const int64_t width = std::min(blockLanes, columns.count - column);
    // The first block becomes the sum of those before it, and of c.
    bool isBegun = products.isFirst;
    int64_t filled = 0;
    for (int64_t i = 0; i < products.count; ++i) {
      multiply(i, rows, row, columns, column,
               blocks.data() + filled++ * blockNumbers);
      const bool isLast = i + 1 == products.count;
      if (!isLast && filled < blocksAtOnce)
        continue;
      for (int64_t r = 0; r < height; ++r) {
        float *block = blocks.data() + r * blockLanes;
        float *own = to + r * strides.row;
        const RowPlace before{isBegun ? nullptr : own, strides.column};
        if (!isLast)
          sumRows(block, filled, blockNumbers, width, before, {block, 1});
        else if (isStreamed && width == blockLanes)
          streamSum(block, filled, blockNumbers, width, own);
        else
          sumRows(block, filled, blockNumbers, width, before,
                  {own, strides.column});
      }
      isBegun = true;
      filled = 1;
    }
  }

  /// Whether c is so large that it has left the caches when it is read: then
  /// its memory need not be read before it is written.
  bool canStream(const float *c, MatrixStrides strides) const {
    constexpr int64_t large = 1 << 19; // numbers
    return strides.column == 1 && sizes.m * sizes.n >= large &&
           strides.row % lanes == 0 && reinterpret_cast<uintptr_t>(c) % 64 == 0;
  }

  const MatrixTileSums &sums;
  const MatrixProductSizes &sizes;
  const Products &products;
  const int64_t one, all; // bytes of a panel with one product, and with all
  char *packedA, *packedB;
  float *taken; // a row of blocks
  alignas(64) std::array<float, blocksAtOnce * blockNumbers> blocks;
};

void MatrixTileSums::run(const Products &products, float *c,
                         MatrixStrides strides, void *scratchpad) const {
  Run(*this, products, scratchpad).write(c, strides);
}

void MatrixTileSums::run(const Products &products, const TakeSums &take,
                         void *scratchpad) const {
  Run(*this, products, scratchpad).take(take);
}

void MatrixSums::run(std::span<const Factors> products, float *into,
                     bool isFirst, void *scratchpad) const {
  auto packA = [&](int64_t i, int64_t row, int64_t rows, char *to,
                   int64_t panelBytes) {
    const int64_t at = row * a.row;
    if (sizes.isSplit)
      packRows(static_cast<const float *>(products[i].a) + at, a, rows, sizes.k,
               to, panelBytes);
    else
      packRows(static_cast<const uint16_t *>(products[i].a) + at, a, rows,
               sizes.k, to, panelBytes);
  };
  auto packB = [&](int64_t i, int64_t column, int64_t columns, char *to,
                   int64_t panelBytes) {
    const int64_t at = column * b.column;
    if (sizes.isSplit)
      packColumns(static_cast<const float *>(products[i].b) + at, b, sizes.k,
                  columns, to, panelBytes);
    else
      packColumns(static_cast<const uint16_t *>(products[i].b) + at, b, sizes.k,
                  columns, to, panelBytes);
  };
  sums.run({static_cast<int64_t>(products.size()), packA, packB, isFirst}, into,
           c, scratchpad);
}
