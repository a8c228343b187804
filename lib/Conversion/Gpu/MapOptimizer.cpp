//===- MapOptimizer.cpp - Launches of an optimizer ------------------------===//

#include "LaunchBuilder.h"
#include "plan/ParameterScalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;

LaunchBuilder::OptimizerArguments
LaunchBuilder::beginOptimizer(step::OptimizerAttr optimizer, int64_t elements) {
  // The types are for addressing only: the number of elements is an argument.
  constexpr int64_t many = int64_t(1) << 40;
  Type element =
      cast<MemRefType>(function.getArgumentTypes().front()).getElementType();
  auto arena = MemRefType::get({many}, element);
  auto scratchpad = MemRefType::get({many}, builder.getF64Type());
  auto scalars = static_cast<int64_t>(optimizer.getScalars().size());
  auto values = MemRefType::get({std::max<int64_t>(scalars, 1)}, element);
  Type i64 = builder.getI64Type();
  SmallVector<Type> types = {arena, arena, arena, values, scratchpad, i64, i64};
  begin(types, elements, optimizerThreads);
  auto argument = [&](unsigned number) -> Value {
    return kernel.getArgument(number);
  };
  auto number = [&](unsigned number) -> Value {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      argument(number));
  };
  return {argument(0), argument(1), argument(2), argument(3),
          argument(4), number(5),   number(6)};
}

Value LaunchBuilder::stateIndex(const OptimizerArguments &arguments,
                                unsigned state, Value position) {
  Value offset =
      arith::MulIOp::create(builder, loc, arguments.stride, index(state));
  return arith::AddIOp::create(builder, loc, offset, position);
}

FailureOr<SmallVector<Value>>
LaunchBuilder::emitOptimizer(step::OptimizerAttr optimizer,
                             const OptimizerArguments &arguments,
                             Value position, bool isMeasured) {
  // Memory of the block function to the value of this thread's element.
  DenseMap<Value, Value> elements;
  unsigned next = 0, states = optimizer.countWholeStates();
  auto load = [&](Value memory, Value at) {
    elements[function.getArgument(next++)] =
        memref::LoadOp::create(builder, loc, memory, at);
  };
  load(arguments.parameters, position);
  load(arguments.gradients, position);
  for (unsigned i = 0; i < states; ++i)
    load(arguments.states, stateIndex(arguments, i, position));
  auto ratio = optimizer.findScalar(runtime::trustRatioName);
  for (unsigned i = 0; i < optimizer.getScalars().size(); ++i) {
    if (!isMeasured || i != ratio) {
      load(arguments.scalars, index(i));
      continue;
    }
    Type type = cast<MemRefType>(arguments.scalars.getType()).getElementType();
    elements[function.getArgument(next++)] =
        arith::ConstantOp::create(builder, loc, builder.getFloatAttr(type, -1));
  }
  // Memory that is computed, also on the stack: what later loops read.
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (op.hasTrait<OpTrait::ConstantLike>())
      builder.clone(op, mapping);
    if (op.hasTrait<OpTrait::ConstantLike>() || isa<memref::AllocaOp>(op))
      continue;
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic || generic.getNumReductionLoops() != 0)
      return op.emitError("not a part of an optimizer");
    LoopBody body(generic, mapping);
    SmallVector<Value> operands;
    for (Value operand : generic->getOperands())
      operands.push_back(elements.lookup(operand));
    SmallVector<Value> results =
        body.emitPoint(builder, ValueRange{position}, operands);
    for (auto [memory, value] : llvm::zip(generic.getDpsInits(), results))
      elements[memory] = value;
  }
  SmallVector<Value> results;
  for (unsigned i = 0; i <= states; ++i) {
    results.push_back(elements.lookup(function.getArgument(next + i)));
    if (!results.back())
      return function.emitError("an optimizer that leaves a result open");
  }
  return results;
}

void LaunchBuilder::storeStates(const OptimizerArguments &arguments,
                                ArrayRef<Value> states, Value position) {
  for (auto [state, value] : llvm::enumerate(states))
    memref::StoreOp::create(builder, loc, value, arguments.states,
                            stateIndex(arguments, state, position));
}

LogicalResult LaunchBuilder::runOptimizer(step::OptimizerAttr optimizer) {
  if (optimizer.findScalar(runtime::trustRatioName)) {
    if (failed(mapNorms(optimizer)))
      return failure();
    mapTrustRatio(optimizer);
  }
  return mapUpdate(optimizer);
}

LogicalResult LaunchBuilder::mapUpdate(step::OptimizerAttr optimizer) {
  // Parameters and states are changed in place.
  OptimizerArguments arguments = beginOptimizer(optimizer, optimizerThreads);
  Value first = arith::MulIOp::create(builder, loc, blockIndex(),
                                      index(optimizerThreads));
  Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
  LogicalResult result = success();
  ifThen(isLess(position, arguments.count), [&] {
    auto values = emitOptimizer(optimizer, arguments, position,
                                /*isMeasured=*/false);
    result = values;
    if (failed(values))
      return;
    memref::StoreOp::create(builder, loc, values->front(), arguments.parameters,
                            position);
    storeStates(arguments, ArrayRef(*values).drop_front(), position);
  });
  if (failed(result))
    return failure();
  finish();
  return success();
}
