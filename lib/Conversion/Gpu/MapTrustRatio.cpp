//===- MapTrustRatio.cpp - Launches that measure a parameter --------------===//
//
// lamb and lars multiply the step of a parameter by a ratio of norms, for which
// two launches come before the update:
//
//   norms   a block for 4096 elements adds up the squares of the parameter, and
//           of what the optimizer's function gives to be measured: it changes
//           the states of lamb, and gives its step, or the gradient (lars)
//   ratio   one block adds up these sums, and writes the ratio to the scalars
//
// All sums are of f64, in an order that depends on the number of elements
// alone.
//
//===----------------------------------------------------------------------===//

#include "LaunchBuilder.h"
#include "plan/ParameterScalars.h"
#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace pp;

LaunchBuilder::Pair LaunchBuilder::sumPairs(Value end,
                                            function_ref<Pair(Value)> termsAt) {
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getF64FloatAttr(0));
  auto loop = scf::ForOp::create(builder, loc, threadIndex(), end,
                                 index(threads), {zero, zero});
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Pair terms = termsAt(loop.getInductionVar());
    SmallVector<Value> sums;
    for (auto [sum, term] : llvm::zip(loop.getRegionIterArgs(), terms))
      sums.push_back(arith::AddFOp::create(builder, loc, sum, term));
    scf::YieldOp::create(builder, loc, sums);
  }
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(builder, loc, x, y);
  };
  Value first = blockReduce(loop.getResult(0), add);
  return {first, blockReduce(loop.getResult(1), add)};
}

Value LaunchBuilder::toDouble(Value value) {
  Type f64 = builder.getF64Type();
  return value.getType() == f64
             ? value
             : Value(arith::ExtFOp::create(builder, loc, f64, value));
}

LaunchBuilder::Pair LaunchBuilder::placesOfSums(Value block) {
  Value first = arith::MulIOp::create(builder, loc, block, index(2));
  return {first, arith::AddIOp::create(builder, loc, first, index(1))};
}

LogicalResult LaunchBuilder::mapNorms(step::OptimizerAttr optimizer) {
  constexpr int64_t elements = pipeline::normElements;
  OptimizerArguments arguments = beginOptimizer(optimizer, elements);
  Value first =
      arith::MulIOp::create(builder, loc, blockIndex(), index(elements));
  Value left = arith::SubIOp::create(builder, loc, arguments.count, first);
  Value end = arith::MinUIOp::create(builder, loc, left, index(elements));
  auto square = [&](Value value) -> Value {
    value = toDouble(value);
    return arith::MulFOp::create(builder, loc, value, value);
  };
  LogicalResult result = success();
  Pair sums = sumPairs(end, [&](Value number) -> Pair {
    Value position = arith::AddIOp::create(builder, loc, first, number);
    Value parameter = square(
        memref::LoadOp::create(builder, loc, arguments.parameters, position));
    auto values = emitOptimizer(optimizer, arguments, position,
                                /*isMeasured=*/true);
    result = values;
    if (failed(values))
      return {parameter, parameter};
    storeStates(arguments, llvm::ArrayRef(*values).drop_front(), position);
    return {parameter, square(values->front())};
  });
  if (failed(result))
    return failure();
  ifThen(isZero(threadIndex()), [&] {
    for (auto [sum, place] : llvm::zip(sums, placesOfSums(blockIndex())))
      memref::StoreOp::create(builder, loc, sum, arguments.scratchpad, place);
  });
  finish();
  return success();
}

void LaunchBuilder::mapTrustRatio(step::OptimizerAttr optimizer) {
  OptimizerArguments arguments = beginOptimizer(optimizer, /*elements=*/0);
  constexpr int64_t elements = pipeline::normElements;
  Value rounded =
      arith::AddIOp::create(builder, loc, arguments.count, index(elements - 1));
  Value blocks = arith::DivUIOp::create(builder, loc, rounded, index(elements));
  Pair sums = sumPairs(blocks, [&](Value number) -> Pair {
    Pair terms = placesOfSums(number);
    for (Value &term : terms)
      term = memref::LoadOp::create(builder, loc, arguments.scratchpad, term);
    return terms;
  });
  ifThen(isZero(threadIndex()), [&] {
    auto constant = [&](double value) -> Value {
      return arith::ConstantOp::create(builder, loc,
                                       builder.getF64FloatAttr(value));
    };
    auto multiply = [&](StringRef name, Value value) -> Value {
      Value scalar = memref::LoadOp::create(builder, loc, arguments.scalars,
                                            index(*optimizer.findScalar(name)));
      return arith::MulFOp::create(builder, loc, toDouble(scalar), value);
    };
    auto isPositive = [&](Value value) -> Value {
      return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT,
                                   value, constant(0));
    };
    Value parameter = math::SqrtOp::create(builder, loc, sums[0]);
    Value measured = math::SqrtOp::create(builder, loc, sums[1]);
    Value isKnown = arith::AndIOp::create(builder, loc, isPositive(parameter),
                                          isPositive(measured));
    Value above = parameter, below = measured;
    if (optimizer.findScalar("trust_coefficient")) {
      above = multiply("trust_coefficient", parameter);
      below = arith::AddFOp::create(builder, loc, measured,
                                    multiply("weight_decay", parameter));
      below = arith::AddFOp::create(builder, loc, below, constant(1e-8));
    }
    Value ratio = arith::DivFOp::create(builder, loc, above, below);
    ratio = arith::SelectOp::create(builder, loc, isKnown, ratio, constant(1));
    Type type = cast<MemRefType>(arguments.scalars.getType()).getElementType();
    if (type != ratio.getType())
      ratio = arith::TruncFOp::create(builder, loc, type, ratio);
    memref::StoreOp::create(
        builder, loc, ratio, arguments.scalars,
        index(*optimizer.findScalar(runtime::trustRatioName)));
  });
  finish();
}
