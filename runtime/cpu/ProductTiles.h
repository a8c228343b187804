//===- ProductTiles.h - Tiles of products in registers --------------------===//
#ifndef PP_RUNTIME_CPU_PRODUCTTILES_H
#define PP_RUNTIME_CPU_PRODUCTTILES_H

#include <cstdint>

namespace pp::runtime {

/// The columns of a panel of b.
inline constexpr int64_t panelColumns = 16;
/// The terms of a chain, which the bits of a product depend on.
inline constexpr int64_t chainTerms = 768;

/// c = a b, or c += a b where `isAdded`, for a block of rows of a and of
/// columns of b. The rows of a are `aStride` numbers apart; where that is 0,
/// they are packed in panels of ProductTiles::rows rows, term by term. Either
/// way a has memory for whole panels. b is in panels of 16 columns,
/// `panelStride` numbers apart, whose rows are `termStride` apart. Each number
/// of c is one chain of fused multiply-adds that begins at 0 and, with
/// `isAdded`, is added to what c has.
using MultiplyBlock = void(const float *a, int64_t aStride, const float *b,
                           int64_t panelStride, int64_t termStride,
                           int64_t rows, int64_t columns, int64_t terms,
                           float *c, int64_t rowStride, bool isAdded);

/// What a processor's registers hold. All have the same bits.
struct ProductTiles {
  int64_t rows;
  MultiplyBlock *multiplyBlock;
  /// The same where the first two caches do not hold b: asks for it ahead, or
  /// reads several panels at once.
  MultiplyBlock *multiplyFar;
  /// Fewer rows wait for memory whatever they do (measured on Cascade Lake and
  /// Zen 3).
  int64_t fewestFarRows;
};

/// 6 x 16 numbers in twelve registers of AVX2.
extern const ProductTiles productTilesAvx2;
/// 12 x 32 numbers in 24 registers of AVX-512.
extern const ProductTiles productTilesAvx512;

/// Those of this processor, which has AVX2.
const ProductTiles &productTiles();

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_PRODUCTTILES_H
