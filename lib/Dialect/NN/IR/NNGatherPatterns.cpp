//===- NNGatherPatterns.cpp - Gathers whose indices are known -------------===//
//
// Exporters write what picks from each sample (advanced indexing, as_strided)
// as one gather from the flattened tensor, by indices that count through all
// samples:
//
//   gather flat[0 3 | 10 13 | 20 23]     where a sample has 10 elements
//   ──▶ gather samples[0 3] axis 1
//
//===----------------------------------------------------------------------===//

#include "pp/Dialect/NN/IR/NN.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// The indices, in row-major order, where they are constant and count from the
/// start; none otherwise, nor if one of them is not trained.
static std::optional<SmallVector<int64_t>> readIndices(GatherOp op) {
  auto constant = op.getIndices().getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                        : DenseElementsAttr();
  const bool areAllTrained = static_cast<int64_t>(op.getUntrained()) < 0;
  if (!dense || op.getShared() != 0 || !areAllTrained)
    return std::nullopt;
  int64_t size = op.getInput().getType().getDimSize(op.getAxis());
  SmallVector<int64_t> indices;
  indices.reserve(dense.getNumElements());
  for (const APInt &index : dense.getValues<APInt>()) {
    indices.push_back(index.getSExtValue());
    if (indices.back() < 0 || indices.back() >= size)
      return std::nullopt;
  }
  return indices;
}

namespace {

/// A gather of all slices in order moves nothing.
struct FoldWholeGather : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto indices = readIndices(op);
    if (!indices || static_cast<int64_t>(indices->size()) !=
                        op.getInput().getType().getDimSize(op.getAxis()))
      return failure();
    for (auto [place, index] : llvm::enumerate(*indices))
      if (index != static_cast<int64_t>(place))
        return failure();
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};

/// Splits the axis, and the first axis of the indices off, where each index
/// there picks the same from a part of its own.
struct SplitGather : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType indexType = op.getIndices().getType();
    ArrayRef<int64_t> shape = indexType.getShape();
    const auto *first =
        llvm::find_if(shape, [](int64_t size) { return size != 1; });
    RankedTensorType type = op.getInput().getType();
    int64_t axis = op.getAxis(), size = type.getDimSize(axis);
    if (first == shape.end() || *first < 2 || size % *first != 0)
      return failure();
    auto indices = readIndices(op);
    if (!indices)
      return failure();
    int64_t parts = *first, length = size / parts;
    int64_t picked = indices->size() / parts;
    for (auto [place, index] : llvm::enumerate(*indices)) {
      int64_t within = (*indices)[place % picked];
      if (within >= length ||
          index != static_cast<int64_t>(place) / picked * length + within)
        return failure();
    }
    SmallVector<int64_t> split(type.getShape());
    split[axis] = parts;
    split.insert(split.begin() + axis + 1, length);
    SmallVector<int64_t> rest(first + 1, shape.end());
    SmallVector<int64_t> result(ArrayRef(split).take_front(axis + 1));
    llvm::append_range(result, rest);
    llvm::append_range(result, type.getShape().drop_front(axis + 1));

    auto restType = indexType.clone(rest);
    SmallVector<APInt> kept;
    unsigned width = indexType.getElementTypeBitWidth();
    for (int64_t index : ArrayRef(*indices).take_front(picked))
      kept.emplace_back(width, index, /*isSigned=*/true);
    Value table = ConstantOp::create(rewriter, op.getLoc(),
                                     DenseElementsAttr::get(restType, kept));
    Value samples = ReshapeOp::create(rewriter, op.getLoc(), type.clone(split),
                                      op.getInput());
    Value gather = GatherOp::create(rewriter, op.getLoc(), type.clone(result),
                                    samples, table, axis + 1, 0);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), gather);
    return success();
  }
};

} // namespace

void GatherOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<FoldWholeGather, SplitGather>(context);
}
