//===- JoinProducts.cpp - Sums of small products become one ---------------===//

#include "MainFunction.h"
#include "StepMarks.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace pp::nn {
#define GEN_PASS_DEF_JOINPRODUCTS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

class ProductJoiner {
public:
  ProductJoiner(func::FuncOp function, int64_t mostTerms, int64_t mostProducts)
      : marks(function), builder(function.getContext()), mostTerms(mostTerms),
        mostProducts(mostProducts) {}

  /// A sum of several values, of which products are joined.
  void join(AddOp root) {
    if (isPartOfSum(root))
      return;
    SmallVector<Value> leaves;
    SmallVector<Operation *> sums;
    collect(root, step::getPhase(root), leaves, sums);
    builder.setInsertionPoint(root);
    SmallVector<Value> joined;
    SmallVector<DotGeneralOp> group, replaced;
    auto finish = [&] {
      if (group.size() > 1) {
        joined.push_back(joinGroup(group));
        llvm::append_range(replaced, group);
      } else if (!group.empty()) {
        joined.push_back(group.front().getOutput());
      }
      group.clear();
    };
    for (Value leaf : leaves) {
      DotGeneralOp product = findProduct(leaf, root);
      if (!product || (!group.empty() && !canFollow(group, product)))
        finish();
      if (product)
        group.push_back(product);
      else
        joined.push_back(leaf);
    }
    finish();
    if (replaced.empty())
      return;
    Value sum = joined.front();
    for (Value next : ArrayRef(joined).drop_front()) {
      Operation *like = earlier(sum, next);
      sum = AddOp::create(builder, root.getLoc(), sum, next);
      marks.mark(sum.getDefiningOp(), like ? like : root.getOperation());
    }
    root.getOutput().replaceAllUsesWith(sum);
    for (Operation *op : sums) // from the root on
      op->erase();
    for (DotGeneralOp product : replaced)
      product.erase();
  }

private:
  static bool isPartOfSum(AddOp op) {
    if (!op->hasOneUse())
      return false;
    auto user = dyn_cast<AddOp>(*op->user_begin());
    return user && step::getPhase(user) == step::getPhase(op) &&
           user.getType() == op.getType();
  }

  /// What is summed up, in this order, and the sums, each before its parts.
  static void collect(AddOp sum, Phase phase, SmallVectorImpl<Value> &leaves,
                      SmallVectorImpl<Operation *> &sums) {
    // A chain may have as many sums as a sequence has steps.
    SmallVector<Value> open{sum.getOutput()};
    while (!open.empty()) {
      Value value = open.pop_back_val();
      auto add = value.getDefiningOp<AddOp>();
      bool isSum = add && (add == sum ||
                           (add->hasOneUse() && step::getPhase(add) == phase &&
                            add.getType() == sum.getType()));
      if (!isSum) {
        leaves.push_back(value);
        continue;
      }
      sums.push_back(add);
      open.push_back(add.getRhs());
      open.push_back(add.getLhs());
    }
  }

  /// The product that `leaf` is, if it has few terms, nothing else reads it,
  /// and its factors are smaller than it: they are copied, so that it is not
  /// added.
  DotGeneralOp findProduct(Value leaf, AddOp root) const {
    auto product = leaf.getDefiningOp<DotGeneralOp>();
    bool isSmall = product && product->hasOneUse() &&
                   step::getPhase(product) == step::getPhase(root) &&
                   product.getLhsBatch().empty() &&
                   !product.getLhsContract().empty() &&
                   countTerms(product) < mostTerms &&
                   getTensorBytes(product.getLhs().getType()) +
                           getTensorBytes(product.getRhs().getType()) <=
                       getTensorBytes(product.getType());
    return isSmall ? product : DotGeneralOp();
  }

  static int64_t countTerms(DotGeneralOp product) {
    int64_t terms = 1;
    for (int64_t axis : product.getLhsContract())
      terms *= product.getLhs().getType().getDimSize(axis);
    return terms;
  }

  bool canFollow(ArrayRef<DotGeneralOp> group, DotGeneralOp product) const {
    DotGeneralOp first = group.front();
    int64_t terms = countTerms(product);
    for (DotGeneralOp op : group)
      terms += countTerms(op);
    return terms <= mostTerms && int64_t(group.size()) < mostProducts &&
           first->getOperandTypes() == product->getOperandTypes() &&
           first.getLhsContract() == product.getLhsContract() &&
           first.getRhsContract() == product.getRhsContract();
  }

  /// Backward values flow to earlier forward operations: which of two is the
  /// origin of the earlier one.
  static Operation *earlier(Value one, Value other) {
    auto originOf = [](Value value) {
      Operation *op = value.getDefiningOp();
      return op ? op->getAttrOfType<IntegerAttr>(step::originAttrName)
                : IntegerAttr();
    };
    IntegerAttr first = originOf(one), second = originOf(other);
    if (!first || (second && second.getInt() < first.getInt()))
      return other.getDefiningOp();
    return one.getDefiningOp();
  }

  Value joinGroup(ArrayRef<DotGeneralOp> group) {
    DotGeneralOp first = group.front();
    Operation *like = first;
    for (DotGeneralOp product : group)
      like = earlier(like->getResult(0), product.getOutput());
    auto concat = [&](unsigned operand, int64_t axis) -> Value {
      auto values = llvm::map_to_vector(group, [&](DotGeneralOp product) {
        return product->getOperand(operand);
      });
      auto type = cast<RankedTensorType>(values.front().getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[axis] *= group.size();
      auto joined = ConcatOp::create(builder, first.getLoc(), type.clone(shape),
                                     values, axis);
      marks.mark(joined, like);
      return joined.getOutput();
    };
    Value lhs = concat(0, first.getLhsContract().front());
    Value rhs = concat(1, first.getRhsContract().front());
    auto product = DotGeneralOp::create(
        builder, first.getLoc(), first.getType(), lhs, rhs, first.getLhsBatch(),
        first.getRhsBatch(), first.getLhsContract(), first.getRhsContract());
    marks.mark(product, like);
    return product.getOutput();
  }

  StepMarks marks;
  OpBuilder builder;
  int64_t mostTerms, mostProducts;
};

struct JoinProducts : pp::nn::impl::JoinProductsBase<JoinProducts> {
  using JoinProductsBase::JoinProductsBase;

  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    if (terms < 1 || products < 1) {
      function->emitError("terms and products must be positive");
      return signalPassFailure();
    }
    ProductJoiner joiner(*function, terms, products);
    for (Operation &op :
         llvm::make_early_inc_range(function->getBody().front()))
      if (auto sum = dyn_cast<AddOp>(op))
        joiner.join(sum);
  }
};

} // namespace
