//===- RunningStatistics.cpp - Statistics that each micro-batch moves -----===//

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
      if (commit.getEach())
        commits.push_back(commit);
    });
    if (!commits.empty() && microbatches > 1 && failed(findCounter()))
      return failure();
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
    auto elements = static_cast<double>(commit.getElements());
    double factor = isVariance && elements > 1 ? elements / (elements - 1) : 1;
    double momentum = commit.getMomentum().convertToDouble();
    OpBuilder builder(sum);
    Location loc = sum.getLoc();
    RankedTensorType type = sum.getValue().getType();
    auto number = [&](RankedTensorType type, double value) -> Value {
      return ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(
              type, builder.getFloatAttr(type.getElementType(), value)));
    };
    Value weight = number(type, momentum * factor);
    if (microbatches > 1) {
      auto scalar = type.clone(ArrayRef<int64_t>());
      Value sample =
          CastOp::create(builder, loc, scalar, firstSample(builder, loc));
      // Of all that come after: M - 1 - sample / batch.
      Value later = AddOp::create(
          builder, loc,
          MulOp::create(builder, loc, sample,
                        number(scalar, -1.0 / static_cast<double>(batch))),
          number(scalar, static_cast<double>(microbatches - 1)));
      // Nothing is left with a momentum of 1.
      double kept = std::log(std::max(1 - momentum, 1e-30));
      Value power = ExpOp::create(
          builder, loc,
          MulOp::create(builder, loc, later, number(scalar, kept)));
      weight = MulOp::create(
          builder, loc, weight,
          BroadcastOp::create(builder, loc, type, power, ArrayRef<int64_t>()));
    }
    sum->setOperand(
        0, MulOp::create(builder, loc, sum.getValue(), weight).getOutput());
  }

  /// The number of the micro-batch's first sample in the step.
  Value firstSample(OpBuilder &builder, Location loc) {
    constexpr int64_t word = 3;
    Value part =
        SliceOp::create(builder, loc, counter, ArrayRef<int64_t>(word),
                        ArrayRef<int64_t>(word + 1), ArrayRef<int64_t>(1));
    return ReshapeOp::create(
        builder, loc, RankedTensorType::get({}, builder.getI32Type()), part);
  }

  LogicalResult findCounter() {
    auto role = step::Role::RandomCounter;
    StringRef name = stringifyRole(role);
    for (BlockArgument argument : function.getArguments()) {
      unsigned index = argument.getArgNumber();
      if (step::getRole(function, index) == role) {
        counter = argument;
        return success();
      }
      auto feed =
          function.getArgAttrOfType<StringAttr>(index, step::feedAttrName);
      if (feed && feed.getValue() == name)
        return function.emitError()
               << "input '" << name
               << "' has the name of an input that running statistics take; "
                  "rename that of the model";
    }
    counter = step::addRandomCounter(function);
    return success();
  }

  func::FuncOp function;
  int64_t microbatches, batch;
  Value counter;
};

} // namespace

LogicalResult nn::weighStatistics(func::FuncOp function, int64_t microbatches,
                                  int64_t batch) {
  return Weigher(function, microbatches, batch).run();
}
