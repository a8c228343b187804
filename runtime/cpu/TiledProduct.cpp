//===- TiledProduct.cpp ---------------------------------------------------===//
#include "cpu/TiledProduct.h"
#include "cpu/Processor.h"
#include "plan/ShortFloat.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

using namespace pp::runtime;

#define PP_AVX2 __attribute__((target("avx2,fma,f16c")))
#define PP_AVX2_INLINE PP_AVX2 __attribute__((always_inline)) static inline

/// Of a panel of a; a multiple of the rows of all tiles.
static constexpr int64_t mostTileRows = 12;
static constexpr int64_t rowChunk = 1024;

static int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

const ProductTiles &pp::runtime::productTiles() {
  return hasAvx512() ? productTilesAvx512 : productTilesAvx2;
}

bool TiledProduct::isPossible() {
  static const bool hasThem = __builtin_cpu_supports("avx2") &&
                              __builtin_cpu_supports("fma") &&
                              __builtin_cpu_supports("f16c");
  return hasThem;
}

bool TiledProduct::isPreferred(DataType factors) {
  if (!isPossible() || !hasAvx512())
    return isPossible();
  switch (factors) {
  case DataType::BF16:
    return !hasFastBFloat16() || hasMatrixTiles();
  case DataType::F16:
    return true;
  default:
    return isFromIntel();
  }
}

//===----------------------------------------------------------------------===//
// Numbers of the three types
//===----------------------------------------------------------------------===//

namespace {
struct Single {
  using Element = float;
  static float load(const float *from) { return *from; }
  PP_AVX2_INLINE __m128 load4(const float *from) { return _mm_loadu_ps(from); }
  static void store(float *to, float value) { *to = value; }
};

struct Brain {
  using Element = uint16_t;
  static float load(const uint16_t *from) { return fromBF16(*from); }
  PP_AVX2_INLINE __m128 load4(const uint16_t *from) {
    __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from));
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), bits));
  }
  static void store(uint16_t *to, float value) { *to = toBF16(value); }
};

struct Half {
  using Element = uint16_t;
  PP_AVX2_INLINE float load(const uint16_t *from) { return _cvtsh_ss(*from); }
  PP_AVX2_INLINE __m128 load4(const uint16_t *from) {
    return _mm_cvtph_ps(
        _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
  }
  PP_AVX2_INLINE void store(uint16_t *to, float value) {
    *to = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
  }
};
} // namespace

/// Calls `work` with what reads and writes a type.
template <typename Work> static void withType(DataType type, const Work &work) {
  if (type == DataType::BF16)
    return work(Brain());
  if (type == DataType::F16)
    return work(Half());
  work(Single());
}

//===----------------------------------------------------------------------===//
// Panels
//===----------------------------------------------------------------------===//

/// Four rows of four numbers, of which `to` gets the columns, `pitch` apart.
PP_AVX2_INLINE void storeTransposed(__m128 r0, __m128 r1, __m128 r2, __m128 r3,
                                    float *to, int64_t pitch) {
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(to, r0);
  _mm_storeu_ps(to + pitch, r1);
  _mm_storeu_ps(to + 2 * pitch, r2);
  _mm_storeu_ps(to + 3 * pitch, r3);
}

/// Brings `panels` of lanes that are one after the other into panels, `terms`
/// to each. Some panels at a time, so that a row is read in one go.
template <typename Reader, int64_t width>
PP_AVX2 static void packRows(const typename Reader::Element *from,
                             int64_t termStride, int64_t panels, int64_t terms,
                             float *to) {
  constexpr int64_t atOnce = 8, ahead = 8;
  for (int64_t first = 0; first < panels; first += atOnce) {
    int64_t count = std::min(atOnce, panels - first);
    for (int64_t term = 0; term < terms; ++term) {
      const auto *row = from + term * termStride + first * width;
      float *place = to + (first * terms + term) * width;
      for (int64_t panel = 0; panel < count;
           ++panel, row += width, place += terms * width) {
        // Rows may lie in pages of their own, which the processor does not
        // expect.
        __builtin_prefetch(row + ahead * termStride);
        int64_t lane = 0;
#pragma unroll
        for (; lane + 4 <= width; lane += 4)
          _mm_storeu_ps(place + lane, Reader::load4(row + lane));
        for (; lane < width; ++lane)
          place[lane] = Reader::load(row + lane);
      }
    }
  }
}

/// Four terms at a time of a panel whose lanes have their terms side by side;
/// returns how many terms that are.
template <typename Reader, int64_t width, bool isFull>
PP_AVX2_INLINE int64_t packTransposed(const typename Reader::Element *from,
                                      int64_t laneStride, int64_t lanes,
                                      int64_t terms, float *to) {
  int64_t term = 0;
  for (; term + 4 <= terms; term += 4, from += 4, to += 4 * width) {
    auto row = [&](int64_t lane) PP_AVX2 {
      return isFull || lane < lanes ? Reader::load4(from + lane * laneStride)
                                    : _mm_setzero_ps();
    };
    int64_t lane = 0;
    for (; lane + 4 <= width; lane += 4)
      storeTransposed(row(lane), row(lane + 1), row(lane + 2), row(lane + 3),
                      to + lane, width);
    // Two more of six.
    if (lane < width) {
      __m128 first = row(lane), second = row(lane + 1);
      __m128 low = _mm_unpacklo_ps(first, second);
      __m128 high = _mm_unpackhi_ps(first, second);
      _mm_storel_pi(reinterpret_cast<__m64 *>(to + lane), low);
      _mm_storeh_pi(reinterpret_cast<__m64 *>(to + width + lane), low);
      _mm_storel_pi(reinterpret_cast<__m64 *>(to + 2 * width + lane), high);
      _mm_storeh_pi(reinterpret_cast<__m64 *>(to + 3 * width + lane), high);
    }
  }
  return term;
}

/// Brings `lanes` x `terms` numbers into a panel, term by term, `width` lanes
/// to a term; lanes that there are not are 0.
template <typename Reader, int64_t width>
PP_AVX2 static void packPanel(const typename Reader::Element *from,
                              int64_t laneStride, int64_t termStride,
                              int64_t lanes, int64_t terms, float *to) {
  int64_t term = 0;
  if (termStride == 1)
    term = lanes == width
               ? packTransposed<Reader, width, true>(from, laneStride, lanes,
                                                     terms, to)
               : packTransposed<Reader, width, false>(from, laneStride, lanes,
                                                      terms, to);
  from += term * termStride;
  to += term * width;
  for (; term < terms; ++term, from += termStride, to += width)
    for (int64_t lane = 0; lane < width; ++lane)
      to[lane] = lane < lanes ? Reader::load(from + lane * laneStride) : 0;
}

/// Panels of `width` lanes, one after the other.
template <int64_t width>
static void packPanels(DataType type, const char *from, int64_t laneStride,
                       int64_t termStride, int64_t panelStride, int64_t lanes,
                       int64_t terms, float *to) {
  withType(type, [&]<typename Reader>(Reader) {
    auto *source = reinterpret_cast<const Reader::Element *>(from);
    int64_t lane = 0;
    if (laneStride == 1) {
      int64_t full = lanes / width;
      lane = full * width;
      if (panelStride == width)
        packRows<Reader, width>(source, termStride, full, terms, to);
      else
        for (int64_t panel = 0; panel < full; ++panel)
          packRows<Reader, width>(source + panel * panelStride, termStride, 1,
                                  terms, to + panel * terms * width);
    }
    for (; lane < lanes; lane += width)
      packPanel<Reader, width>(source + lane / width * panelStride, laneStride,
                               termStride, std::min(width, lanes - lane), terms,
                               to + lane * terms);
  });
}

uint64_t TiledProduct::getPackedBytes() const {
  auto product = inMatrixTiles();
  return product ? product->getPackedBytes()
                 : k * roundUp(n, panelColumns) * sizeOf(b.type);
}

DataType TiledProduct::getPackedType() const {
  return inMatrixTiles() ? DataType::BF16 : b.type;
}

void TiledProduct::packColumns(const void *from, void *to) const {
  if (auto product = inMatrixTiles())
    return product->packColumns(from, to);
  auto copy = [&]<typename Element>(Element *target) {
    auto *source = static_cast<const Element *>(from);
    for (int64_t panel = 0; panel < n; panel += panelColumns)
      for (int64_t row = 0; row < k; ++row)
        for (int64_t column = panel; column < panel + panelColumns; ++column)
          *target++ = column < n
                          ? source[row * b.rowStride + column * b.columnStride]
                          : Element();
  };
  if (b.type != DataType::F32)
    return copy(static_cast<uint16_t *>(to));
  packPanels<panelColumns>(
      b.type, static_cast<const char *>(from), b.columnStride, b.rowStride,
      panelColumns * b.columnStride, n, k, static_cast<float *>(to));
}

void TiledProduct::packTileRows(int64_t tileRows, const float *from,
                                int64_t rowStride, int64_t terms, float *to) {
  auto *pack = tileRows == 6 ? packPanel<Single, 6> : packPanel<Single, 12>;
  pack(from, rowStride, /*termStride=*/1, tileRows, terms, to);
}

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

TiledProduct::TiledProduct(std::vector<int64_t> batch, int64_t m, int64_t k,
                           int64_t n, Matrix a, Matrix b, Matrix c,
                           bool isAdded)
    : batch(std::move(batch)), m(m), k(k), n(n), a(std::move(a)),
      b(std::move(b)), c(std::move(c)), isAdded(isAdded),
      matrixTiles(hasMatrixTiles() ? &matrixTilesAmx : nullptr) {}

std::optional<MatrixTileProduct> TiledProduct::inMatrixTiles() const {
  bool isBrain = a.type == DataType::BF16 && b.type == DataType::BF16 &&
                 c.type != DataType::F16;
  if (!matrixTiles || !(isBrain || isSplit))
    return std::nullopt;
  MatrixTileProduct product(m, k, n, {a.rowStride, a.columnStride},
                            {b.rowStride, b.columnStride},
                            {c.rowStride, c.columnStride},
                            c.type == DataType::BF16, isAdded, *matrixTiles);
  if (isSplit)
    product.setSplit();
  if (isPacked)
    product.setPacked();
  // What all parts need, a thread packs once.
  constexpr int64_t mostKept = 4 << 20; // bytes
  const int64_t parts = isSplit ? 3 : 1;
  using Kept = MatrixTileProduct::Kept;
  if (batch.empty() && partOf == PartOf::Columns &&
      m * k * parts * 2 <= mostKept)
    product.setKept(Kept::A);
  if (batch.empty() && partOf == PartOf::Rows && !isPacked &&
      n * k * parts * 2 <= mostKept)
    product.setKept(Kept::B);
  return product;
}

bool TiledProduct::isReadAsItLies() const {
  return a.type == DataType::F32 && b.type == DataType::F32 && !isPacked &&
         isDirect();
}

std::optional<FewRowsProduct> TiledProduct::ofFewRows() const {
  if (!isReadAsItLies())
    return std::nullopt;
  return FewRowsProduct::find(m, k, n, {a.rowStride, a.columnStride},
                              {b.rowStride, b.columnStride},
                              {c.rowStride, c.columnStride}, isAdded);
}

std::optional<FewTermsProduct> TiledProduct::ofFewTerms() const {
  const MatrixStrides ofB{b.rowStride, b.columnStride};
  const MatrixStrides ofC{c.rowStride, c.columnStride};
  if (!isReadAsItLies() || !FewTermsProduct::isPreferred(m, k, n, ofB, ofC))
    return std::nullopt;
  return FewTermsProduct(m, k, n, {a.rowStride, a.columnStride}, ofB, ofC,
                         isAdded);
}

std::optional<MatrixSums> TiledProduct::together(int64_t most) const {
  if (!batch.empty() || !isAdded || isPacked || !inMatrixTiles())
    return std::nullopt;
  const MatrixProductSizes sizes{m, k, n, isSplit};
  const int64_t atOnce = MatrixTileSums::atOnce(sizes, most);
  if (atOnce < 2)
    return std::nullopt;
  return MatrixSums(sizes, {a.rowStride, a.columnStride},
                    {b.rowStride, b.columnStride},
                    {c.rowStride, c.columnStride}, atOnce, *matrixTiles);
}

int64_t TiledProduct::columnsAtOnce() const {
  // What is not written into c itself is kept between blocks of terms.
  constexpr int64_t mostKept = 512;
  const int64_t columns = roundUp(n, panelColumns);
  return isDirect() ? columns : std::min(columns, mostKept);
}

namespace {
/// What lies in the scratchpad, in numbers of f32.
struct Places {
  uint64_t a, b, c;
};
} // namespace

static Places measurePlaces(int64_t m, int64_t k, int64_t columns,
                            int64_t columnGroup, bool isDirect, bool isBRead) {
  int64_t terms = std::min(k, chainTerms);
  return {uint64_t((terms + panelColumns) *
                   roundUp(std::min(m, rowChunk), mostTileRows)),
          isBRead ? uint64_t(terms * panelColumns)
                  : uint64_t(terms * std::min(columns, columnGroup)),
          isDirect ? 0 : uint64_t(std::min(m, rowChunk) * columns)};
}

bool TiledProduct::areRowsFew() const {
  constexpr int64_t most = 60;
  return isPacked && m >= tiles->fewestFarRows && m <= most &&
         a.type == DataType::F32 && b.type == DataType::F32;
}

TiledProduct::Group TiledProduct::group() const {
  constexpr int64_t fewTerms = 192, numbersOfB = 96 << 10, cache = 1 << 20;
  constexpr int64_t fewest = 96;
  const bool isOfMemory = m * n * int64_t(sizeof(float)) >= cache;
  if (!isDirect() || !isOfMemory || k > fewTerms)
    return {tiles->rows * 4, fewest};
  return {mostTileRows * 2, numbersOfB / k / fewest * fewest};
}

bool TiledProduct::areColumnsFew() const {
  constexpr int64_t most = 64;
  return !hasAvx512() && n <= most && a.type == DataType::F32 &&
         a.columnStride == 1 && a.rowStride != 0;
}

bool TiledProduct::isReadInPlace() const {
  // Else each row of panels would read strided memory again.
  constexpr int64_t mostRows = 48;
  bool areRows = b.columnStride == 1 && n >= panelColumns && m <= mostRows;
  return b.type == DataType::F32 && (isPacked || areRows);
}

uint64_t TiledProduct::getScratchpadBytes() const {
  if (auto product = inMatrixTiles())
    return product->getScratchpadBytes();
  if (auto product = ofFewRows())
    return product->getScratchpadBytes();
  Places places = measurePlaces(m, k, columnsAtOnce(), group().columns,
                                isDirect(), isReadInPlace());
  uint64_t bytes = 0;
  for (uint64_t numbers : {places.a, places.b, places.c})
    bytes += alignUp(numbers * sizeof(float));
  return bytes;
}

/// Four numbers that are to be stored, or to be added to what is there.
template <bool isAdded>
PP_AVX2_INLINE __m128 combined(__m128 value, const float *place) {
  return isAdded ? _mm_add_ps(_mm_loadu_ps(place), value) : value;
}

/// Transposes: rows of `from` are columns of `to`, each in one piece.
template <bool isAdded>
PP_AVX2 static void transposeMatrix(const float *from, int64_t fromRow,
                                    int64_t rows, int64_t columns, float *to,
                                    int64_t toColumn) {
  auto at = [&](int64_t row, int64_t column)
                PP_AVX2 { return _mm_loadu_ps(from + row * fromRow + column); };
  auto one = [&](int64_t row, int64_t column) {
    float &place = to[column * toColumn + row];
    place = from[row * fromRow + column] + (isAdded ? place : 0);
  };
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    int64_t column = 0;
    for (; column + 4 <= columns; column += 4) {
      __m128 r0 = at(row, column), r1 = at(row + 1, column),
             r2 = at(row + 2, column), r3 = at(row + 3, column);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      float *place = to + column * toColumn + row;
      _mm_storeu_ps(place, combined<isAdded>(r0, place));
      place += toColumn;
      _mm_storeu_ps(place, combined<isAdded>(r1, place));
      place += toColumn;
      _mm_storeu_ps(place, combined<isAdded>(r2, place));
      place += toColumn;
      _mm_storeu_ps(place, combined<isAdded>(r3, place));
    }
    for (; column < columns; ++column)
      for (int64_t i = 0; i < 4; ++i)
        one(row + i, column);
  }
  for (; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      one(row, column);
}

/// Copies a matrix of f32, or adds it to another.
static void copyMatrix(const float *from, int64_t fromRow, int64_t fromColumn,
                       int64_t rows, int64_t columns, float *to, int64_t toRow,
                       int64_t toColumn, bool isAdded) {
  auto *transpose = isAdded ? transposeMatrix<true> : transposeMatrix<false>;
  if (fromColumn == 1 && toRow == 1 && toColumn != 1)
    return transpose(from, fromRow, rows, columns, to, toColumn);
  if (fromRow == 1 && toColumn == 1 && fromColumn != 1)
    return transpose(from, fromColumn, columns, rows, to, toRow);
  for (int64_t row = 0; row < rows; ++row, from += fromRow, to += toRow) {
    if (fromColumn == 1 && toColumn == 1 && !isAdded) {
      std::copy_n(from, columns, to);
      continue;
    }
    for (int64_t column = 0; column < columns; ++column) {
      float &place = to[column * toColumn];
      place = from[column * fromColumn] + (isAdded ? place : 0);
    }
  }
}

void TiledProduct::transpose(Numbers from, int64_t rows, int64_t columns,
                             float *to, int64_t toColumn, int64_t toRow) {
  if (from.columnStride == 1 && toRow == 1)
    return transposeMatrix<false>(from.data, from.rowStride, rows, columns, to,
                                  toColumn);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      to[column * toColumn + row * toRow] =
          from.data[row * from.rowStride + column * from.columnStride];
}

/// Writes what was computed in f32 into a matrix of any type.
template <typename Writer>
PP_AVX2 static void writeMatrix(const float *from, int64_t rows,
                                int64_t columns, int64_t pitch,
                                typename Writer::Element *to, int64_t rowStride,
                                int64_t columnStride, bool isAdded) {
  for (int64_t row = 0; row < rows; ++row, from += pitch, to += rowStride) {
    if (columnStride == 1 && !isAdded) { // vectorised
      for (int64_t column = 0; column < columns; ++column)
        Writer::store(to + column, from[column]);
      continue;
    }
    for (int64_t column = 0; column < columns; ++column) {
      auto *place = to + column * columnStride;
      float value = from[column];
      Writer::store(place, isAdded ? Writer::load(place) + value : value);
    }
  }
}

TiledProduct::Panels TiledProduct::readColumns(const char *bData,
                                               const Block &block,
                                               int64_t first,
                                               float *packed) const {
  const int64_t column = isPacked ? 1 : b.columnStride;
  const int64_t row = isPacked ? panelColumns : b.rowStride;
  const int64_t panel =
      isPacked ? k * panelColumns : panelColumns * b.columnStride;
  const char *from = bData + ((block.column + first) / panelColumns * panel +
                              block.term * row) *
                                 sizeOf(b.type);
  int64_t width = block.columns - first;
  if (!areRowsFew())
    width = std::min(width, group().columns);
  // What fills no panel is packed after all.
  if (isReadInPlace() && (isPacked || width >= panelColumns)) {
    if (!isPacked)
      width = width / panelColumns * panelColumns;
    return {reinterpret_cast<const float *>(from), panel, row, width};
  }
  packPanels<panelColumns>(b.type, from, column, row, panel, width, block.terms,
                           packed);
  return {packed, block.terms * panelColumns, panelColumns, width};
}

void TiledProduct::packRows(const char *aData, const Block &block,
                            int64_t first, int64_t count, float *to) const {
  auto *pack = tiles->rows == 6 ? packPanels<6> : packPanels<12>;
  pack(a.type,
       aData +
           ((block.row + first) * a.rowStride + block.term * a.columnStride) *
               sizeOf(a.type),
       a.rowStride, a.columnStride, tiles->rows * a.rowStride, count,
       block.terms, to);
}

void TiledProduct::multiplyFewRows(const char *aData, const Block &block,
                                   const Panels &panels, float *copied,
                                   float *to, int64_t pitch) const {
  const int64_t stride = block.terms + panelColumns;
  const bool areCopied = block.column > 0 && k <= chainTerms;
  const float *from = reinterpret_cast<const float *>(aData) +
                      block.row * a.rowStride + block.term * a.columnStride;
  if (!areCopied)
    copyMatrix(from, a.rowStride, a.columnStride, block.rows, block.terms,
               copied, stride, /*toColumn=*/1, /*isAdded=*/false);
  tiles->multiplyFar(copied, stride, panels.data, panels.panelStride,
                     panels.termStride, block.rows, panels.width, block.terms,
                     to, pitch, block.term > 0 || (isAdded && isDirect()));
}

void TiledProduct::multiply(const char *aData, const char *bData,
                            const Block &block, float *packedA, float *packedB,
                            float *to, int64_t pitch) const {
  if (areRowsFew())
    return multiplyFewRows(aData, block,
                           readColumns(bData, block, /*first=*/0, packedB),
                           packedA, to, pitch);
  const int64_t rowBlock = group().rows, packBlock = 2 * rowBlock;
  const bool isLater = block.term > 0 || (isAdded && isDirect());
  const bool areRowsPacked = block.column > 0 && k <= chainTerms;
  for (int64_t width, column = 0; column < block.columns; column += width) {
    const Panels panels = readColumns(bData, block, column, packedB);
    width = panels.width;
    for (int64_t row = 0; row < block.rows; row += rowBlock) {
      const int64_t rows = std::min(rowBlock, block.rows - row);
      if (areColumnsFew() && rows % tiles->rows == 0) {
        const float *from = reinterpret_cast<const float *>(aData) +
                            (block.row + row) * a.rowStride + block.term;
        tiles->multiplyBlock(from, a.rowStride, panels.data, panels.panelStride,
                             panels.termStride, rows, width, block.terms,
                             to + row * pitch + column, pitch, isLater);
        continue;
      }
      float *own = packedA + row * block.terms;
      const int64_t packed = areColumnsFew() ? rowBlock : packBlock;
      if (!areRowsPacked && column == 0 && row % packed == 0)
        packRows(aData, block, row, std::min(packed, block.rows - row), own);
      tiles->multiplyBlock(own, /*aStride=*/0, panels.data, panels.panelStride,
                           panels.termStride, rows, width, block.terms,
                           to + row * pitch + column, pitch, isLater);
    }
  }
}

void TiledProduct::runOne(const char *aData, const char *bData, char *cData,
                          char *scratchpad, bool isContinued) const {
  if (auto product = inMatrixTiles())
    return product->run(aData, bData, cData, scratchpad, isContinued);
  if (auto product = ofFewTerms())
    return product->run(reinterpret_cast<const float *>(aData),
                        reinterpret_cast<const float *>(bData),
                        reinterpret_cast<float *>(cData));
  if (auto product = ofFewRows())
    return product->run(reinterpret_cast<const float *>(aData),
                        reinterpret_cast<const float *>(bData),
                        reinterpret_cast<float *>(cData), scratchpad);
  const int64_t columnBlock = columnsAtOnce();
  Places places = measurePlaces(m, k, columnBlock, group().columns, isDirect(),
                                isReadInPlace());
  auto *packedA = reinterpret_cast<float *>(scratchpad);
  scratchpad += alignUp(places.a * sizeof(float));
  auto *packedB = reinterpret_cast<float *>(scratchpad);
  scratchpad += alignUp(places.b * sizeof(float));
  auto *sums = reinterpret_cast<float *>(scratchpad);
  Block block;
  for (block.row = 0; block.row < m; block.row += rowChunk) {
    block.rows = std::min(rowChunk, m - block.row);
    for (block.column = 0; block.column < n; block.column += columnBlock) {
      block.columns = std::min(columnBlock, n - block.column);
      char *own =
          cData + (block.row * c.rowStride + block.column * c.columnStride) *
                      sizeOf(c.type);
      float *target = isDirect() ? reinterpret_cast<float *>(own) : sums;
      const int64_t pitch = isDirect() ? c.rowStride : columnBlock;
      for (block.term = 0; block.term < k; block.term += chainTerms) {
        block.terms = std::min(chainTerms, k - block.term);
        multiply(aData, bData, block, packedA, packedB, target, pitch);
      }
      if (c.type == DataType::F32 && !isDirect())
        copyMatrix(sums, pitch, 1, block.rows, block.columns,
                   reinterpret_cast<float *>(own), c.rowStride, c.columnStride,
                   isAdded);
      else if (!isDirect())
        withType(c.type, [&]<typename Writer>(Writer) {
          writeMatrix<Writer>(sums, block.rows, block.columns, pitch,
                              reinterpret_cast<Writer::Element *>(own),
                              c.rowStride, c.columnStride, isAdded);
        });
    }
  }
}

bool TiledProduct::isTiny() const {
  // Of more, tiles are as fast (measured on Emerald Rapids).
  constexpr int64_t most = 128;
  return !inMatrixTiles() && !isPacked && m * k * n <= most &&
         a.type == DataType::F32 && b.type == DataType::F32 &&
         c.type == DataType::F32;
}

namespace {
/// A matrix of f32; strides in elements.
template <typename Number> struct Strided {
  Number *data;
  int64_t rowStride, columnStride;

  Number *at(int64_t row, int64_t column) const {
    return data + row * rowStride + column * columnStride;
  }
};
} // namespace

/// Up to four numbers, `step` apart; beyond them are zeros.
template <int count>
PP_AVX2_INLINE __m128 loadLanes(const float *from, int64_t step) {
  if (count == 4 && step == 1)
    return _mm_loadu_ps(from);
  const __m128 low =
      count > 1 ? _mm_unpacklo_ps(_mm_load_ss(from), _mm_load_ss(from + step))
                : _mm_load_ss(from);
  if (count < 3)
    return low;
  const __m128 third = _mm_load_ss(from + 2 * step);
  return _mm_movelh_ps(
      low,
      count > 3 ? _mm_unpacklo_ps(third, _mm_load_ss(from + 3 * step)) : third);
}

template <int count> PP_AVX2_INLINE void storeLanes(__m128 value, float *to) {
  if (count == 4)
    return _mm_storeu_ps(to, value);
  if (count > 1)
    _mm_storel_pi(reinterpret_cast<__m64 *>(to), value);
  if (count == 1)
    _mm_store_ss(to, value);
  if (count == 3)
    _mm_store_ss(to + 2, _mm_movehl_ps(value, value));
}

/// Up to four columns of a product of a few numbers, side by side in c.
/// Four of its rows at a time; those that there are not are the last one again.
template <int columns>
PP_AVX2 static void multiplyNarrow(int64_t m, int64_t k,
                                   const Strided<const float> &a,
                                   const Strided<const float> &b,
                                   const Strided<float> &c, bool isAdded) {
  constexpr int64_t atOnce = 4;
  for (int64_t row = 0; row < m; row += atOnce) {
    __m128 sums[atOnce];
    const float *from[atOnce];
#pragma unroll
    for (int64_t i = 0; i < atOnce; ++i) {
      sums[i] = _mm_setzero_ps();
      from[i] = a.at(std::min(row + i, m - 1), 0);
    }
    for (int64_t term = 0; term < k; ++term) {
      const __m128 factors = loadLanes<columns>(b.at(term, 0), b.columnStride);
#pragma unroll
      for (int64_t i = 0; i < atOnce; ++i)
        sums[i] =
            _mm_fmadd_ps(_mm_broadcast_ss(from[i] + term * a.columnStride),
                         factors, sums[i]);
    }
    for (int64_t i = 0; i < atOnce && row + i < m; ++i) {
      float *to = c.at(row + i, 0);
      storeLanes<columns>(
          isAdded ? _mm_add_ps(loadLanes<columns>(to, 1), sums[i]) : sums[i],
          to);
    }
  }
}

/// One of many products of a few numbers, for which panels and tiles are more
/// work than the product. With the same chains.
PP_AVX2 void TiledProduct::multiplyTiny(const float *aData, const float *bData,
                                        float *cData) const {
  static constexpr std::array narrow = {multiplyNarrow<1>, multiplyNarrow<2>,
                                        multiplyNarrow<3>, multiplyNarrow<4>};
  constexpr int64_t most = narrow.size();
  if (c.columnStride == 1) {
    for (int64_t column = 0; column < n; column += most)
      narrow[std::min(most, n - column) - 1](
          m, k, {aData, a.rowStride, a.columnStride},
          {bData + column * b.columnStride, b.rowStride, b.columnStride},
          {cData + column, c.rowStride, c.columnStride}, isAdded);
    return;
  }
  for (int64_t row = 0; row < m; ++row)
    for (int64_t column = 0; column < n; ++column) {
      const float *x = aData + row * a.rowStride;
      const float *y = bData + column * b.columnStride;
      float sum = 0;
      for (int64_t term = 0; term < k;
           ++term, x += a.columnStride, y += b.rowStride)
        sum = __builtin_fmaf(*x, *y, sum);
      float &place = cData[row * c.rowStride + column * c.columnStride];
      place = isAdded ? place + sum : sum;
    }
}

void TiledProduct::run(const void *aData, const void *bData, void *cData,
                       void *scratchpad, bool isContinued) const {
  const bool areTiny = isTiny();
  auto runAt = [&](int64_t atA, int64_t atB, int64_t atC) {
    if (areTiny)
      return multiplyTiny(static_cast<const float *>(aData) + atA,
                          static_cast<const float *>(bData) + atB,
                          static_cast<float *>(cData) + atC);
    runOne(static_cast<const char *>(aData) + atA * sizeOf(a.type),
           static_cast<const char *>(bData) + atB * sizeOf(b.type),
           static_cast<char *>(cData) + atC * sizeOf(c.type),
           static_cast<char *>(scratchpad), isContinued);
  };
  if (batch.empty())
    return runAt(0, 0, 0);
  const size_t last = batch.size() - 1;
  int64_t outer = 1;
  for (size_t axis = 0; axis < last; ++axis)
    outer *= batch[axis];
  std::vector<int64_t> place(last);
  const std::array strides = {&a.batchStrides, &b.batchStrides,
                              &c.batchStrides};
  std::array<int64_t, 3> at{}, step{};
  for (size_t i = 0; i < step.size(); ++i)
    step[i] = (*strides[i])[last];
  // The axis before the last one goes on; where it has ended, it begins again
  // and the one before it goes on.
  auto goOn = [&] {
    for (size_t axis = last; axis-- > 0;) {
      const bool hasEnded = ++place[axis] == batch[axis];
      if (hasEnded)
        place[axis] = 0;
      for (size_t i = 0; i < at.size(); ++i)
        at[i] += (*strides[i])[axis] * (hasEnded ? 1 - batch[axis] : 1);
      if (!hasEnded)
        return;
    }
  };
  for (int64_t index = 0; index < outer; ++index, goOn())
    for (int64_t i = 0; i < batch[last]; ++i)
      runAt(at[0] + i * step[0], at[1] + i * step[1], at[2] + i * step[2]);
}
