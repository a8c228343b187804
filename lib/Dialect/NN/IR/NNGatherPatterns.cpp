//===- NNGatherPatterns.cpp - Gathers whose indices are known -------------===//
//
// Exporters write what picks from each sample (advanced indexing, as_strided)
// as one gather from the flattened tensor, by indices that count through all
// samples:
//
//   gather flat[0 3 | 10 13 | 20 23]     where a sample has 10 elements
//   ──▶ gather samples[0 3] axis 1
//
// They also bring an axis that is picked from to the front first:
//
//   transpose, gather axis 0, transpose back  ──▶  gather axis 2
//
// What gathers all slices in another order has a gradient that is a gather,
// too:
//
//   scatter_add at [2 0 1]  ──▶  gather [1 2 0]
//
//===----------------------------------------------------------------------===//

#include "pp/Dialect/NN/IR/NN.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// The indices of slices of an axis with `size` of them, in row-major order,
/// where they are constant and count from the start; none otherwise.
static std::optional<SmallVector<int64_t>> readIndices(Value value,
                                                       int64_t size) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                        : DenseElementsAttr();
  if (!dense)
    return std::nullopt;
  SmallVector<int64_t> indices;
  indices.reserve(dense.getNumElements());
  for (const APInt &index : dense.getValues<APInt>()) {
    indices.push_back(index.getSExtValue());
    if (indices.back() < 0 || indices.back() >= size)
      return std::nullopt;
  }
  return indices;
}

/// The same of a gather; none if one of them is not trained.
static std::optional<SmallVector<int64_t>> readIndices(GatherOp op) {
  const bool areAllTrained = static_cast<int64_t>(op.getUntrained()) < 0;
  if (op.getShared() != 0 || !areAllTrained)
    return std::nullopt;
  return readIndices(op.getIndices(),
                     op.getInput().getType().getDimSize(op.getAxis()));
}

/// Puts `value` into the place of `op`; it and what it is computed from belong
/// to the same part of a step.
static void replaceInStep(PatternRewriter &rewriter, Operation *op,
                          ArrayRef<Value> made) {
  for (Value value : made)
    value.getDefiningOp()->setDiscardableAttrs(
        op->getDiscardableAttrDictionary());
  rewriter.replaceOp(op, made.back());
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
    replaceInStep(
        rewriter, op,
        ReshapeOp::create(rewriter, op.getLoc(), op.getType(), op.getInput())
            .getResult());
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
    Value whole =
        ReshapeOp::create(rewriter, op.getLoc(), op.getType(), gather);
    replaceInStep(rewriter, op, {table, samples, gather, whole});
    return success();
  }
};

/// Gathers along an axis where it is, not where transpositions bring it.
struct GatherInPlace : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto before = op.getInput().getDefiningOp<TransposeOp>();
    if (!before || !op->hasOneUse() || op.getShared() != 0)
      return failure();
    auto after = dyn_cast<TransposeOp>(*op->user_begin());
    // They belong to one part of a step.
    const DictionaryAttr part = op->getDiscardableAttrDictionary();
    if (!after || before->getDiscardableAttrDictionary() != part ||
        after->getDiscardableAttrDictionary() != part)
      return failure();
    const int64_t more = op.getIndices().getType().getRank() - 1;
    ArrayRef<int64_t> from = before.getPermutation();
    const int64_t place = op.getAxis(), axis = from[place];
    // Which axes of a gather along `axis` the axes of this one are.
    SmallVector<int64_t> axes;
    for (auto [i, each] : llvm::enumerate(from)) {
      if (static_cast<int64_t>(i) == place)
        for (int64_t j = 0; j <= more; ++j)
          axes.push_back(axis + j);
      else
        axes.push_back(each < axis ? each : each + more);
    }
    for (auto [i, each] : llvm::enumerate(after.getPermutation()))
      if (axes[each] != static_cast<int64_t>(i))
        return failure();
    auto gather = GatherOp::create(rewriter, op.getLoc(), after.getType(),
                                   before.getInput(), op.getIndices(), axis,
                                   /*shared=*/0, op.getUntrained());
    gather->setDiscardableAttrs(part);
    rewriter.replaceOp(after, gather);
    return success();
  }
};

/// The sum of slices that each have a place of their own, and leave none out,
/// is a gather by the inverse permutation.
struct GatherPermuted : OpRewritePattern<ScatterAddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ScatterAddOp op,
                                PatternRewriter &rewriter) const override {
    RankedTensorType indexType = op.getIndices().getType();
    int64_t axis = op.getAxis(),
            size = op.getOutput().getType().getDimSize(axis);
    if (op.getShared() != 0 || indexType.getRank() != 1 ||
        indexType.getDimSize(0) != size)
      return failure();
    auto indices = readIndices(op.getIndices(), size);
    if (!indices)
      return failure();
    SmallVector<int64_t> places(size, -1);
    for (auto [place, index] : llvm::enumerate(*indices)) {
      if (places[index] >= 0)
        return failure();
      places[index] = place;
    }
    unsigned width = indexType.getElementTypeBitWidth();
    auto inverse = llvm::map_to_vector(places, [&](int64_t place) {
      return APInt(width, place, /*isSigned=*/true);
    });
    Value table = ConstantOp::create(
        rewriter, op.getLoc(), DenseElementsAttr::get(indexType, inverse));
    Value gather = GatherOp::create(rewriter, op.getLoc(), op.getType(),
                                    op.getUpdates(), table, axis, 0);
    replaceInStep(rewriter, op, {table, gather});
    return success();
  }
};

} // namespace

void GatherOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<FoldWholeGather, SplitGather, GatherInPlace>(context);
}

void ScatterAddOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                               MLIRContext *context) {
  patterns.add<GatherPermuted>(context);
}
