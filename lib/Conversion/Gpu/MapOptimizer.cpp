//===- MapOptimizer.cpp - The launch of an optimizer ----------------------===//

#include "LaunchBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;

LogicalResult LaunchBuilder::runOptimizer(unsigned states, unsigned scalars) {
  // The type is for addressing only: the number of elements is an argument.
  Type element =
      cast<MemRefType>(function.getArgumentTypes().front()).getElementType();
  auto arena = MemRefType::get({int64_t(1) << 40}, element);
  auto values = MemRefType::get({std::max<int64_t>(scalars, 1)}, element);
  SmallVector<Type> types = {arena, arena, arena, values, builder.getI64Type()};
  begin(types, /*grid=*/0, optimizerThreads);
  // Parameters and states are changed in place.
  Value parameters = kernel.getArgument(0), gradients = kernel.getArgument(1);
  Value state = kernel.getArgument(2), cell = kernel.getArgument(3);
  Value count = arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                           kernel.getArgument(4));
  Value first = arith::MulIOp::create(builder, loc, blockIndex(),
                                      index(optimizerThreads));
  Value position = arith::AddIOp::create(builder, loc, first, threadIndex());
  LogicalResult result = success();
  ifThen(isLess(position, count), [&] {
    // Memory of the block function to the value of this thread's element.
    DenseMap<Value, Value> elements;
    SmallVector<std::pair<Value, Value>> places; // memory, index
    auto argument = [&](unsigned number) -> Value {
      return function.getArgument(number);
    };
    auto load = [&](unsigned number, Value memory, Value at) {
      elements[argument(number)] =
          memref::LoadOp::create(builder, loc, memory, at);
    };
    unsigned next = 0;
    load(next++, parameters, position);
    places.push_back({parameters, position});
    load(next++, gradients, position);
    for (unsigned i = 0; i < states; ++i) {
      Value offset = arith::MulIOp::create(builder, loc, count, index(i));
      Value at = arith::AddIOp::create(builder, loc, offset, position);
      load(next++, state, at);
      places.push_back({state, at});
    }
    for (unsigned i = 0; i < scalars; ++i)
      load(next++, cell, index(i));
    // Memory that is computed, also on the stack: what later loops read.
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (op.hasTrait<OpTrait::ConstantLike>())
        builder.clone(op, mapping);
      if (op.hasTrait<OpTrait::ConstantLike>() || isa<memref::AllocaOp>(op))
        continue;
      auto generic = dyn_cast<linalg::GenericOp>(op);
      if (!generic || generic.getNumReductionLoops() != 0) {
        result = op.emitError("not a part of an optimizer");
        return;
      }
      LoopBody body(generic, mapping);
      SmallVector<Value> operands;
      for (Value operand : generic->getOperands())
        operands.push_back(elements.lookup(operand));
      SmallVector<Value> results =
          body.emitPoint(builder, ValueRange{position}, operands);
      for (auto [memory, value] : llvm::zip(generic.getDpsInits(), results))
        elements[memory] = value;
    }
    for (auto [number, place] : llvm::enumerate(places)) {
      Value value = elements.lookup(argument(next + number));
      if (!value) {
        result = function.emitError("an optimizer that leaves a result open");
        return;
      }
      memref::StoreOp::create(builder, loc, value, place.first, place.second);
    }
  });
  if (failed(result))
    return failure();
  finish();
  return success();
}
