//===- ArrangeProducts.cpp - Transpose what a library cannot read ---------===//

#include "MainFunction.h"
#include "StepMarks.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"

namespace pp::nn {
#define GEN_PASS_DEF_ARRANGEPRODUCTS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

using Axes = SmallVector<int64_t>;

/// A product with its factors permuted; an empty permutation leaves one as it
/// is.
struct Arrangement {
  Axes lhs, rhs;                 // permutations
  Axes lhsContract, rhsContract; // of the factors as they are
};

/// Batch, free and contracted axes beside each other, in this order.
Axes inOrder(ArrayRef<int64_t> batch, ArrayRef<int64_t> first,
             ArrayRef<int64_t> second) {
  Axes axes(batch);
  axes.append(first.begin(), first.end());
  axes.append(second.begin(), second.end());
  return axes;
}

/// The axes that `axes` have become.
Axes moved(ArrayRef<int64_t> axes, ArrayRef<int64_t> permutation) {
  if (permutation.empty())
    return Axes(axes);
  return llvm::map_to_vector(axes, [&](int64_t axis) {
    return static_cast<int64_t>(llvm::find(permutation, axis) -
                                permutation.begin());
  });
}

class ProductArranger {
public:
  explicit ProductArranger(func::FuncOp function)
      : marks(function), builder(function.getContext()) {}

  void arrange(DotGeneralOp op) {
    Type element = op.getLhs().getType().getElementType();
    bool isKnown = element.isF32() || element.isBF16() || element.isF16();
    if (!isKnown || !op.getLibraryDescriptor().empty())
      return;
    // With the contracted axes in the order of one factor, the other one may be
    // all that has to move.
    auto [lhs, rhs] = sortedContract(op, /*byRhs=*/false);
    Arrangement moveRhs{{}, {}, lhs, rhs};
    moveRhs.rhs = inOrder(op.getRhsBatch(), rhs, op.getFreeAxes(true));
    Arrangement moveBoth = moveRhs;
    moveBoth.lhs = inOrder(op.getLhsBatch(), op.getFreeAxes(false), lhs);
    std::tie(lhs, rhs) = sortedContract(op, /*byRhs=*/true);
    Arrangement moveLhs{{}, {}, lhs, rhs};
    moveLhs.lhs = inOrder(op.getLhsBatch(), op.getFreeAxes(false), lhs);

    bool isRhsSmaller = getTensorBytes(op.getRhs().getType()) <=
                        getTensorBytes(op.getLhs().getType());
    for (const Arrangement &next : {isRhsSmaller ? moveRhs : moveLhs,
                                    isRhsSmaller ? moveLhs : moveRhs, moveBoth})
      if (apply(op, next))
        return;
  }

private:
  /// The pairs of contracted axes, sorted by those of one factor.
  static std::pair<Axes, Axes> sortedContract(DotGeneralOp op, bool byRhs) {
    SmallVector<std::pair<int64_t, int64_t>> pairs;
    for (auto [l, r] : llvm::zip(op.getLhsContract(), op.getRhsContract()))
      pairs.push_back({l, r});
    llvm::sort(pairs, [&](auto a, auto b) {
      return byRhs ? a.second < b.second : a.first < b.first;
    });
    std::pair<Axes, Axes> sorted;
    for (auto [l, r] : pairs) {
      sorted.first.push_back(l);
      sorted.second.push_back(r);
    }
    return sorted;
  }

  Value transposed(Value value, ArrayRef<int64_t> permutation) {
    if (permutation.empty())
      return value;
    return TransposeOp::create(builder, value.getLoc(), value, permutation);
  }

  /// Replaces the product, if the library has a kernel for it then.
  bool apply(DotGeneralOp op, const Arrangement &next) {
    builder.setInsertionPoint(op);
    Value lhs = transposed(op.getLhs(), next.lhs);
    Value rhs = transposed(op.getRhs(), next.rhs);
    auto product = DotGeneralOp::create(
        builder, op.getLoc(), op.getOutput().getType(), lhs, rhs,
        moved(op.getLhsBatch(), next.lhs), moved(op.getRhsBatch(), next.rhs),
        moved(next.lhsContract, next.lhs), moved(next.rhsContract, next.rhs));
    product->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    bool isBetter = !product.getLibraryDescriptor().empty();
    if (isBetter) {
      for (Value factor : {lhs, rhs})
        if (!llvm::is_contained(op->getOperands(), factor))
          marks.mark(factor.getDefiningOp(), op);
      op.replaceAllUsesWith(product.getOutput());
      op.erase();
      return true;
    }
    SmallVector<Value> factors = {lhs, rhs};
    product.erase();
    for (Value factor : factors)
      if (!llvm::is_contained(op->getOperands(), factor))
        factor.getDefiningOp()->erase();
    return false;
  }

  StepMarks marks;
  OpBuilder builder;
};

struct ArrangeProducts : pp::nn::impl::ArrangeProductsBase<ArrangeProducts> {
  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    ProductArranger arranger(*function);
    for (Operation &op :
         llvm::make_early_inc_range(function->getBody().front()))
      if (auto product = dyn_cast<DotGeneralOp>(op))
        arranger.arrange(product);
  }
};

} // namespace
