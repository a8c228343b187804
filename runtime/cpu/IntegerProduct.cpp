//===- IntegerProduct.cpp -------------------------------------------------===//
//
// A tile is up to six rows of a panel, 24 registers of 16 sums. For each group
// of four terms, VNNI multiplies the four bytes of a row with those of 16
// columns and adds the products to the sums of these columns:
//
//   a   a0 a1 a2 a3 | a0 a1 a2 a3 | ...       of one row, in all lanes
//   b   b0 b1 b2 b3 | b0 b1 b2 b3 | ...       of 16 columns
//   c   += a0 b0 + a1 b1 + a2 b2 + a3 b3 ...
//
//===----------------------------------------------------------------------===//
#include "cpu/IntegerProduct.h"
#include "cpu/KernelBuilder.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

using namespace pp::runtime;

#define PP_VNNI __attribute__((target("avx512f,avx512vnni")))

static constexpr int64_t panelColumns = IntegerProduct::panelColumns,
                         panelTerms = IntegerProduct::panelTerms;
static constexpr int64_t tileRows = 6, lanes = 16;
static constexpr int vectors = panelColumns / lanes;

/// Up to four bytes of a row, 0 behind its end.
static int32_t readGroup(const uint8_t *from, int64_t bytes) {
  int32_t group = 0;
  std::memcpy(&group, from, static_cast<size_t>(std::min(bytes, panelTerms)));
  return group;
}

template <int rows>
PP_VNNI static void multiplyTile(const uint8_t *a, const int8_t *b, int32_t *c,
                                 int64_t terms, int64_t rowStride,
                                 int64_t columns) {
  __m512i sums[rows][vectors];
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int i = 0; i < vectors; ++i)
      sums[row][i] = _mm512_setzero_si512();
  auto addGroup = [&](int64_t term, int64_t bytes) PP_VNNI {
    __m512i own[vectors];
#pragma unroll
    for (int i = 0; i < vectors; ++i)
      own[i] =
          _mm512_loadu_si512(b + term * panelColumns + i * lanes * panelTerms);
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      __m512i group =
          _mm512_set1_epi32(readGroup(a + row * terms + term, bytes));
#pragma unroll
      for (int i = 0; i < vectors; ++i)
        sums[row][i] = _mm512_dpbusd_epi32(sums[row][i], group, own[i]);
    }
  };
  const int64_t whole = terms / panelTerms * panelTerms;
  for (int64_t term = 0; term < whole; term += panelTerms)
    addGroup(term, panelTerms);
  if (whole < terms)
    addGroup(whole, terms - whole);
#pragma unroll
  for (int row = 0; row < rows; ++row)
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
      const int64_t left = columns - i * lanes;
      const auto mask = static_cast<__mmask16>(left >= lanes ? 0xffff
                                               : left > 0    ? (1 << left) - 1
                                                             : 0);
      _mm512_mask_storeu_epi32(c + row * rowStride + i * lanes, mask,
                               sums[row][i]);
    }
}

using MultiplyTile = void(const uint8_t *a, const int8_t *b, int32_t *c,
                          int64_t terms, int64_t rowStride, int64_t columns);

/// By the number of rows, less one.
static constexpr std::array<MultiplyTile *, tileRows> multiplyTiles = {
    multiplyTile<1>, multiplyTile<2>, multiplyTile<3>,
    multiplyTile<4>, multiplyTile<5>, multiplyTile<6>};

/// One row, on any processor.
static void multiplyRow(const uint8_t *a, const int8_t *b, int32_t *c,
                        int64_t terms, int64_t columns) {
  // Without a sign, sums wrap around.
  std::array<uint32_t, panelColumns> sums = {};
  for (int64_t term = 0; term < terms; term += panelTerms) {
    const int8_t *group = b + term * panelColumns;
    const int64_t count = std::min(terms - term, panelTerms);
    for (int64_t column = 0; column < panelColumns; ++column)
      for (int64_t i = 0; i < count; ++i)
        sums[column] +=
            static_cast<uint32_t>(a[term + i] * group[column * panelTerms + i]);
  }
  for (int64_t column = 0; column < columns; ++column)
    c[column] = static_cast<int32_t>(sums[column]);
}

void IntegerProduct::run(const uint8_t *a, const int8_t *b, int32_t *c,
                         int64_t first, int64_t count) const {
  for (int64_t panel = first; panel < first + count; ++panel) {
    const int8_t *own = b + panel * panelBytes();
    int32_t *to = c + panel * panelColumns;
    const int64_t width =
        std::min(columns - panel * panelColumns, panelColumns);
    for (int64_t row = 0; row < rows;) {
      const int64_t height = isFast ? std::min(rows - row, tileRows) : 1;
      if (isFast)
        multiplyTiles[height - 1](a + row * terms, own, to + row * columns,
                                  terms, columns, width);
      else
        multiplyRow(a + row * terms, own, to + row * columns, terms, width);
      row += height;
    }
  }
}

void pp::runtime::buildIntegerProduct(Descriptor &descriptor,
                                      KernelBuilder &builder) {
  IntegerProduct work;
  work.rows = descriptor.getInteger("rows", 1, INT32_MAX);
  work.terms = descriptor.getInteger("terms", 1, INT32_MAX);
  work.columns = descriptor.getInteger("columns", 1, INT32_MAX);
  const auto panels = builder.isWhole()
                          ? KernelBuilder::Range{0, work.countPanels()}
                          : builder.share(work.countPanels());
  builder.setFunction(
      {KernelBuilder::tensorOf(DataType::U8, work.rows * work.terms),
       KernelBuilder::tensorOf(DataType::I8,
                               work.countPanels() * work.panelBytes()),
       KernelBuilder::tensorOf(DataType::I32, work.rows * work.columns)},
      [work, panels](void *const *tensors, void *) {
        work.run(static_cast<const uint8_t *>(tensors[0]),
                 static_cast<const int8_t *>(tensors[1]),
                 static_cast<int32_t *>(tensors[2]), panels.begin,
                 panels.count);
      });
}
