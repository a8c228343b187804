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
// Without VNNI, bytes are widened to 16 bits, those of the rows once for all
// columns of a panel, and multiplied and added in pairs by AVX2, so that a sum
// is in two halves:
//
//   a   a0 a1 a2 a3 | a0 a1 a2 a3 | ...
//   b   b0 b1 b2 b3 | b0 b1 b2 b3 | ...       of 4 columns
//   c   += a0 b0 + a1 b1, a2 b2 + a3 b3 | ...
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
#define PP_AVX2 __attribute__((target("avx2")))

static constexpr int64_t panelColumns = IntegerProduct::panelColumns,
                         panelTerms = IntegerProduct::panelTerms;
static constexpr int64_t tileRows = 6, lanes = 16;
/// Rows that are widened at a time; whole tiles.
static constexpr int64_t rowsAtOnce = 96;
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

//===----------------------------------------------------------------------===//
// AVX2
//===----------------------------------------------------------------------===//

/// Two registers of 4 columns.
static constexpr int64_t columnsAtOnce = 8;

/// Rows of groups of four terms, of all rows one after the other, 0 behind the
/// end.
static void widenRows(const uint8_t *a, int64_t rows, int64_t terms,
                      int16_t *to) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t term = 0; term < terms; term += panelTerms) {
      const int32_t group = readGroup(a + row * terms + term, terms - term);
      const __m128i bytes = _mm_cvtsi32_si128(group);
      _mm_storel_epi64(
          reinterpret_cast<__m128i *>(to + term * rows + row * panelTerms),
          _mm_unpacklo_epi8(bytes, _mm_setzero_si128()));
    }
}

/// Columns of b likewise, which lie a panel's row apart.
PP_AVX2 static void widenColumns(const int8_t *b, int64_t groups, int16_t *to) {
  for (int64_t group = 0; group < groups; ++group) {
    const auto *from = reinterpret_cast<const __m128i *>(b);
    auto *at = reinterpret_cast<__m256i *>(to);
    _mm256_storeu_si256(at, _mm256_cvtepi8_epi16(_mm_loadu_si128(from)));
    _mm256_storeu_si256(at + 1,
                        _mm256_cvtepi8_epi16(_mm_loadu_si128(from + 1)));
    b += panelColumns * panelTerms;
    to += columnsAtOnce * panelTerms;
  }
}

PP_AVX2 static __m256i readColumns(const int16_t *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}
PP_AVX2 static __m256i readColumns(const int8_t *from) {
  return _mm256_cvtepi8_epi16(
      _mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}

/// b is that of a panel, or widened.
template <int rows, typename Element>
PP_AVX2 static void multiplyWidened(const int16_t *a, const Element *b,
                                    int32_t *c, int64_t groups,
                                    int64_t rowStride, int64_t columns) {
  constexpr bool isPanel = sizeof(Element) == 1;
  constexpr int64_t half = columnsAtOnce / 2 * panelTerms;
  constexpr int64_t next =
      (isPanel ? panelColumns : columnsAtOnce) * panelTerms;
  __m256i sums[rows][2];
#pragma unroll
  for (int row = 0; row < rows; ++row)
    sums[row][0] = sums[row][1] = _mm256_setzero_si256();
  for (int64_t group = 0; group < groups; ++group) {
    const __m256i first = readColumns(b), second = readColumns(b + half);
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      int64_t four;
      std::memcpy(&four, a + row * panelTerms, sizeof(four));
      const __m256i own = _mm256_set1_epi64x(four);
      sums[row][0] =
          _mm256_add_epi32(sums[row][0], _mm256_madd_epi16(own, first));
      sums[row][1] =
          _mm256_add_epi32(sums[row][1], _mm256_madd_epi16(own, second));
    }
    a += rows * panelTerms;
    b += next;
  }
  for (int row = 0; row < rows; ++row, c += rowStride) {
    // In each half of the register, two columns of the first four, then two of
    // the others.
    const __m256i result = _mm256_permute4x64_epi64(
        _mm256_hadd_epi32(sums[row][0], sums[row][1]), 0xd8);
    if (columns == columnsAtOnce)
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(c), result);
    else
      std::memcpy(c, &result, columns * sizeof(int32_t));
  }
}

template <typename Element>
using MultiplyWidened = void(const int16_t *a, const Element *b, int32_t *c,
                             int64_t groups, int64_t rowStride,
                             int64_t columns);

/// By the number of rows, less one.
template <typename Element>
static constexpr std::array<MultiplyWidened<Element> *, tileRows>
    multiplyAllWidened = {
        multiplyWidened<1, Element>, multiplyWidened<2, Element>,
        multiplyWidened<3, Element>, multiplyWidened<4, Element>,
        multiplyWidened<5, Element>, multiplyWidened<6, Element>};

//===----------------------------------------------------------------------===//
// Any of them
//===----------------------------------------------------------------------===//

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

IntegerProduct::Way IntegerProduct::findWay() {
  return hasByteProducts()      ? Way::Vnni
         : hasIntegerProducts() ? Way::Avx2
                                : Way::Anywhere;
}

/// Terms, to whole groups.
static int64_t roundUp(int64_t terms) {
  return (terms + panelTerms - 1) / panelTerms * panelTerms;
}

/// Whether some columns are widened once for all rows: for a tile of rows, they
/// are as they are read.
static bool areColumnsWidened(int64_t rows) { return rows > tileRows; }

static uint64_t rowBytes(const IntegerProduct &product) {
  return alignUp(std::min(product.rows, rowsAtOnce) * roundUp(product.terms) *
                 sizeof(int16_t));
}

uint64_t IntegerProduct::getScratchpadBytes() const {
  if (way != Way::Avx2)
    return 0;
  const uint64_t ofColumns =
      alignUp(columnsAtOnce * roundUp(terms) * sizeof(int16_t));
  return rowBytes(*this) + (areColumnsWidened(rows) ? ofColumns : 0);
}

void IntegerProduct::runWidened(const uint8_t *a, const int8_t *b, int32_t *c,
                                int64_t first, int64_t count,
                                void *scratchpad) const {
  auto *ownRows = static_cast<int16_t *>(scratchpad);
  auto *ownColumns = reinterpret_cast<int16_t *>(
      static_cast<char *>(scratchpad) + rowBytes(*this));
  const int64_t groups = roundUp(terms) / panelTerms;
  const int64_t end = std::min(columns, (first + count) * panelColumns);
  for (int64_t begin = 0; begin < rows; begin += rowsAtOnce) {
    const int64_t lastRow = std::min(rows, begin + rowsAtOnce);
    auto widened = [&](int64_t row) {
      return ownRows + (row - begin) * roundUp(terms);
    };
    for (int64_t row = begin; row < lastRow; row += tileRows)
      widenRows(a + row * terms, std::min(lastRow - row, tileRows), terms,
                widened(row));
    for (int64_t column = first * panelColumns; column < end;
         column += columnsAtOnce) {
      const int8_t *own = b + column / panelColumns * panelBytes() +
                          column % panelColumns * panelTerms;
      const int64_t width = std::min(end - column, columnsAtOnce);
      if (areColumnsWidened(rows))
        widenColumns(own, groups, ownColumns);
      for (int64_t row = begin; row < lastRow; row += tileRows) {
        const int64_t height = std::min(lastRow - row, tileRows);
        int32_t *to = c + row * columns + column;
        if (areColumnsWidened(rows))
          multiplyAllWidened<int16_t>[height - 1](widened(row), ownColumns, to,
                                                  groups, columns, width);
        else
          multiplyAllWidened<int8_t>[height - 1](widened(row), own, to, groups,
                                                 columns, width);
      }
    }
  }
}

void IntegerProduct::run(const uint8_t *a, const int8_t *b, int32_t *c,
                         int64_t first, int64_t count, void *scratchpad) const {
  if (way == Way::Avx2)
    return runWidened(a, b, c, first, count, scratchpad);
  for (int64_t panel = first; panel < first + count; ++panel) {
    const int8_t *own = b + panel * panelBytes();
    int32_t *to = c + panel * panelColumns;
    const int64_t width =
        std::min(columns - panel * panelColumns, panelColumns);
    for (int64_t row = 0, height; row < rows; row += height) {
      height = way == Way::Vnni ? std::min(rows - row, tileRows) : 1;
      if (way == Way::Vnni)
        multiplyTiles[height - 1](a + row * terms, own, to + row * columns,
                                  terms, columns, width);
      else
        multiplyRow(a + row * terms, own, to + row * columns, terms, width);
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
      [work, panels](void *const *tensors, void *scratchpad) {
        work.run(static_cast<const uint8_t *>(tensors[0]),
                 static_cast<const int8_t *>(tensors[1]),
                 static_cast<int32_t *>(tensors[2]), panels.begin, panels.count,
                 scratchpad);
      },
      work.getScratchpadBytes());
}
