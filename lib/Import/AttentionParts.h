//===- AttentionParts.h - What forms of attention have in common *- C++ -*-===//
//
// Queries, keys and values are samples x heads x rows x columns, scores samples
// x heads x queries x keys.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_IMPORT_ATTENTIONPARTS_H
#define PP_LIB_IMPORT_ATTENTIONPARTS_H

#include "Expressions.h"
#include <limits>

namespace pp {

/// Less than every score: what is hidden.
inline constexpr double hiddenScore = -std::numeric_limits<double>::infinity();

/// Of a tensor that may have its heads in the columns: samples x rows x (heads
/// * columns). Fails with an error where it has another shape.
mlir::FailureOr<mlir::Value> splitHeads(NodeImporter &n, mlir::Value x,
                                        int64_t heads);

/// The inverse: samples x rows x (heads * columns).
mlir::Value mergeHeads(NodeImporter &n, mlir::Value x);

/// Each head of keys or values as often as `heads` of queries share it. Fails
/// with an error where they cannot share it equally.
mlir::FailureOr<mlir::Value> repeatHeads(NodeImporter &n, mlir::Value x,
                                         int64_t heads);

/// scale * q k^T; keys have as many heads as queries. Fails with an error where
/// queries, keys and values do not fit each other.
mlir::FailureOr<mlir::Value> scoreKeys(NodeImporter &n, mlir::Value q,
                                       mlir::Value k, mlir::Value v,
                                       double scale);

/// c tanh(x / c); `x` where the cap is 0.
mlir::Value capScores(NodeImporter &n, mlir::Value x, double cap);

/// The softmax of scores some of which are -infinity, 0 where all of a row are.
mlir::Value weighMasked(NodeImporter &n, mlir::Value scores);

/// The sums of values by their weights.
mlir::Value sumValues(NodeImporter &n, mlir::Value weights, mlir::Value v);

/// Turns pairs of the first columns of `x` by angles whose cosines and sines
/// are samples x heads x rows x pairs. Pairs lie side by side where
/// `interleaved`, else half of these columns apart (Su et al., arXiv
/// 2104.09864).
mlir::Value rotatePairs(NodeImporter &n, mlir::Value x, mlir::Value cosine,
                        mlir::Value sine, bool interleaved);

} // namespace pp

#endif // PP_LIB_IMPORT_ATTENTIONPARTS_H
