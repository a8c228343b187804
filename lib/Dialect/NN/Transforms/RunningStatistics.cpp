//===- RunningStatistics.cpp - What micro-batches count in statistics -----===//

#include "RunningStatistics.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Interfaces/Step.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

class Weigher {
public:
  Weigher(func::FuncOp function, int64_t microbatches, int64_t batch)
      : function(function), microbatches(microbatches), batch(batch) {}

  LogicalResult run() {
    SmallVector<CommitStatisticsOp> commits;
    function.walk([&](CommitStatisticsOp commit) {
      if (commit.getEach() || commit.getSamples())
        commits.push_back(commit);
    });
    bool readsCounter = microbatches > 1 ||
                        llvm::any_of(commits, [](CommitStatisticsOp commit) {
                          return commit.getSamples().has_value();
                        });
    if (commits.empty())
      return success();
    if (readsCounter) {
      auto found = step::getRandomCounter(function);
      if (failed(found))
        return failure();
      counter = *found;
    }
    for (CommitStatisticsOp commit : commits)
      for (auto sum : llvm::to_vector(function.getOps<AccumulateOp>()))
        if (sum.getState() == State::statistics)
          weigh(commit, sum);
    return success();
  }

private:
  void weigh(CommitStatisticsOp commit, AccumulateOp sum) {
    bool isVariance = sum.getSymbol() == commit.getVariance();
    if (!isVariance && sum.getSymbol() != commit.getMean())
      return;
    builder.setInsertionPoint(sum);
    loc = sum.getLoc();
    RankedTensorType type = sum.getValue().getType();
    scalar = type.clone(ArrayRef<int64_t>());
    Value value = sum.getValue();
    if (commit.getEach() && isVariance)
      value = unbiased(commit, value, static_cast<int64_t>(commit.getUses()));
    Value weight =
        commit.getEach() ? weightOfEach(commit) : cast(present(batch));
    sum->setOperand(0, mul(value, spread(weight, type)));
  }

  /// The sum over `uses` of a norm of their variances, each of them that of a
  /// sample: ((v_0 rest) + v_1) rest + v_2. Where other passes have rewritten
  /// the sum, all uses count as having the elements of the first one.
  Value unbiased(CommitStatisticsOp commit, Value value, int64_t uses) {
    auto add = value.getDefiningOp<AddOp>();
    auto rest = add ? add.getLhs().getDefiningOp<MulOp>() : MulOp();
    if (uses > 1 && rest) {
      Value former = unbiased(commit, rest.getLhs(), uses - 1);
      return AddOp::create(builder, loc, mul(former, rest.getRhs()),
                           unbiased(commit, add.getRhs(), 1));
    }
    auto norm = value.getDefiningOp<BatchNormOp>();
    auto type = mlir::cast<RankedTensorType>(value.getType());
    auto elements =
        static_cast<double>(norm ? norm.getInput().getType().getNumElements() /
                                       type.getNumElements()
                                 : static_cast<int64_t>(commit.getElements()));
    if (commit.getSamples()) {
      // Of one element, the variance is 0.
      Value n = mul(cast(present(batch)),
                    number(elements / static_cast<double>(batch)));
      Value less = MaximumOp::create(
          builder, loc, AddOp::create(builder, loc, n, number(-1)), number(1));
      return mul(value, spread(DivOp::create(builder, loc, n, less), type));
    }
    if (elements <= 1)
      return value;
    return mul(value, spread(number(elements / (elements - 1)), type));
  }

  Value spread(Value weight, RankedTensorType type) {
    return BroadcastOp::create(builder, loc, type, weight, ArrayRef<int64_t>());
  }

  Value weightOfEach(CommitStatisticsOp commit) {
    double momentum = commit.getMomentum().convertToDouble();
    Value weight = number(momentum);
    if (microbatches == 1)
      return weight;
    // Micro-batches that come after this one: of l samples from its first one
    // on, floor((l - 1) / batch).
    Value left = present(microbatches * batch);
    Value later = DivOp::create(
        builder, loc, AddOp::create(builder, loc, left, numberLike(left, -1)),
        numberLike(left, batch));
    // Nothing is left with a momentum of 1.
    double kept = std::log(std::max(1 - momentum, 1e-30)) *
                  static_cast<double>(commit.getUses());
    return mul(weight,
               ExpOp::create(builder, loc, mul(cast(later), number(kept))));
  }

  /// Samples from the micro-batch's first one on, but at most `most`.
  Value present(int64_t most) {
    return PresentRowsOp::create(
        builder, loc, RankedTensorType::get({}, builder.getI32Type()), counter,
        most, /*rows=*/1);
  }
  Value cast(Value count) {
    return CastOp::create(builder, loc, scalar, count);
  }
  Value mul(Value x, Value y) { return MulOp::create(builder, loc, x, y); }
  Value number(double value) {
    return ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(
            scalar, builder.getFloatAttr(scalar.getElementType(), value)));
  }
  Value numberLike(Value count, int64_t value) {
    return ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(mlir::cast<RankedTensorType>(count.getType()),
                               builder.getI32IntegerAttr(value)));
  }

  func::FuncOp function;
  int64_t microbatches, batch;
  Value counter;
  OpBuilder builder{function.getContext()};
  Location loc = function.getLoc();
  RankedTensorType scalar;
};

} // namespace

LogicalResult nn::weighStatistics(func::FuncOp function, int64_t microbatches,
                                  int64_t batch) {
  return Weigher(function, microbatches, batch).run();
}
