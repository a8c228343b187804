//===- EmitLoops.cpp - Elementwise groups and reductions ------------------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

MemRefType pp::getMemRefType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get(type.getShape(), type.getElementType());
}

namespace {

/// Merges axes that every operand walks through together, so that loops are
/// long: a tensor plus a per-channel number runs over N, C, and the rest.
class AxisMerger {
public:
  explicit AxisMerger(ArrayRef<int64_t> shape) : shape(shape) {
    separate.assign(shape.size(), false);
  }

  /// Axis `axis` may not be merged with the one before it.
  void cut(int64_t axis) {
    if (axis >= 0 && axis < static_cast<int64_t>(separate.size()))
      separate[axis] = true;
  }
  /// An operand that walks along `axes` only (increasing).
  void addOperand(ArrayRef<int64_t> axes) {
    SmallVector<bool> present(shape.size(), false);
    for (int64_t axis : axes)
      present[axis] = true;
    for (size_t axis = 1; axis < shape.size(); ++axis)
      if (present[axis] != present[axis - 1])
        cut(axis);
  }

  /// The groups of axes, in order.
  SmallVector<ReassociationIndices> groups() const {
    SmallVector<ReassociationIndices> result;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis == 0 || separate[axis])
        result.emplace_back();
      result.back().push_back(axis);
    }
    return result;
  }

private:
  ArrayRef<int64_t> shape;
  SmallVector<bool> separate;
};

/// How a value inside the kernel is reached from the axes of the loop nest:
/// `axes[i]` is the loop that its axis i follows.
using Axes = SmallVector<int64_t>;

/// The leaves of an elementwise expression: what is read from memory.
struct Leaf {
  Value value;
  Axes axes;
};

class LoopBuilder {
public:
  LoopBuilder(OpBuilder &builder, Location loc,
              const DenseMap<Value, Value> &memories, ArrayRef<int64_t> shape)
      : builder(builder), loc(loc), memories(memories), shape(shape),
        merger(shape) {}

  /// Finds the leaves of `value`, which follows `axes`.
  LogicalResult collect(Value value, Axes axes, bool isRoot) {
    Operation *op = value.getDefiningOp();
    // What another loop of this kernel wrote is read back, but never the
    // value that this loop itself computes.
    if (!isRoot && memories.count(value)) {
      for (const Leaf &leaf : leaves)
        if (leaf.value == value && leaf.axes == axes)
          return success();
      merger.addOperand(axes);
      leaves.push_back({value, axes});
      return success();
    }
    if (!op)
      return failure();
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      Axes inner;
      for (int64_t axis : broadcast.getAxes())
        inner.push_back(axes[axis]);
      return collect(broadcast.getInput(), inner, false);
    }
    if (auto iota = dyn_cast<IotaOp>(op)) {
      int64_t axis = axes[iota.getAxis()];
      merger.cut(axis);
      merger.cut(axis + 1);
      return success();
    }
    if (auto uniform = dyn_cast<UniformOp>(op))
      return collectUniform(uniform, axes);
    if (auto constant = dyn_cast<ConstantOp>(op))
      return success(constant.getValue().isSplat());
    if (!op->hasTrait<OpTrait::Elementwise>())
      return failure();
    for (Value operand : op->getOperands())
      if (failed(collect(operand, axes, false)))
        return failure();
    return success();
  }

  /// Emits the loop nest: `value` over all axes, reduced over `reduced` by
  /// `reduction`, into `destination`, which holds the initial value of a
  /// reduction already. `isRoot` says that `value` itself is what the loop
  /// computes, not something that lies in memory.
  LogicalResult emit(Value value, Value destination, ArrayRef<int64_t> reduced,
                     std::optional<Reduction> reduction, bool isRoot) {
    Axes kept;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (!llvm::is_contained(reduced, axis))
        kept.push_back(axis);
    merger.addOperand(kept);
    groups = merger.groups();
    groupOf.assign(shape.size(), 0);
    for (auto [number, group] : llvm::enumerate(groups))
      for (int64_t axis : group)
        groupOf[axis] = number;

    SmallVector<Value> inputs;
    SmallVector<AffineMap> maps;
    for (const Leaf &leaf : leaves) {
      inputs.push_back(merged(memories.lookup(leaf.value), leaf.axes));
      maps.push_back(mapFor(leaf.axes));
    }
    for (Value counter : counters)
      for (int64_t word = 0; word < 4; ++word) {
        inputs.push_back(wordOf(memories.lookup(counter), word));
        maps.push_back(mapFor({}));
      }
    Value output = merged(destination, kept);
    maps.push_back(mapFor(kept));
    boundLoops(inputs, maps);
    SmallVector<utils::IteratorType> iterators(groups.size(),
                                               utils::IteratorType::parallel);
    for (int64_t axis : reduced)
      iterators[groupOf[axis]] = utils::IteratorType::reduction;
    bool ok = true;
    linalg::GenericOp::create(
        builder, loc, TypeRange(), inputs, output, maps, iterators,
        [&](OpBuilder &body, Location, ValueRange arguments) {
          scalars.clear();
          leafArguments = arguments;
          Axes all;
          for (size_t axis = 0; axis < shape.size(); ++axis)
            all.push_back(axis);
          Value result = scalar(body, value, all, isRoot);
          if (result && reduction)
            result = combine(body, *reduction, result, arguments.back());
          ok = static_cast<bool>(result);
          linalg::YieldOp::create(body, loc, ok ? result : arguments.back());
        });
    return success(ok);
  }

private:
  /// The axes beside that of the samples may be merged, the operation counts
  /// their elements row-major.
  LogicalResult collectUniform(UniformOp uniform, const Axes &axes) {
    if (!memories.count(uniform.getCounter()))
      return failure();
    counters.insert(uniform.getCounter());
    merger.addOperand(axes);
    if (std::optional<ArrayRef<int64_t>> samples = uniform.getSamples()) {
      int64_t axis = axes[samples->front()];
      merger.cut(axis);
      merger.cut(axis + 1);
    }
    return success();
  }

  Value wordOf(Value counter, int64_t word) {
    SmallVector<OpFoldResult> offset = {builder.getIndexAttr(word)},
                              one = {builder.getIndexAttr(1)};
    auto type = memref::SubViewOp::inferRankReducedResultType(
        {}, cast<MemRefType>(counter.getType()), offset, one, one);
    return memref::SubViewOp::create(builder, loc, type, counter, offset, one,
                                     one);
  }

  /// Loops that no operand walks along, as in the sum of a broadcast, get their
  /// number of iterations from an operand that nothing reads. The output's map
  /// stays last.
  void boundLoops(SmallVectorImpl<Value> &inputs,
                  SmallVectorImpl<AffineMap> &maps) {
    SmallVector<bool> isBound(groups.size(), false);
    for (AffineMap map : maps)
      for (AffineExpr result : map.getResults())
        isBound[cast<AffineDimExpr>(result).getPosition()] = true;
    for (auto [number, group] : llvm::enumerate(groups)) {
      if (isBound[number])
        continue;
      int64_t size = 1;
      for (int64_t axis : group)
        size *= shape[axis];
      auto type = MemRefType::get({size}, builder.getI8Type());
      inputs.push_back(memref::AllocaOp::create(builder, loc, type));
      maps.insert(
          std::prev(maps.end()),
          AffineMap::get(groups.size(), 0, builder.getAffineDimExpr(number)));
    }
  }

  /// The memory of a value that follows `axes`, with merged axes.
  Value merged(Value memory, ArrayRef<int64_t> axes) {
    auto type = cast<MemRefType>(memory.getType());
    SmallVector<ReassociationIndices> reassociation;
    int64_t last = -1;
    for (auto [index, axis] : llvm::enumerate(axes)) {
      if (groupOf[axis] != last)
        reassociation.emplace_back();
      reassociation.back().push_back(index);
      last = groupOf[axis];
    }
    if (static_cast<int64_t>(reassociation.size()) == type.getRank())
      return memory;
    return memref::CollapseShapeOp::create(builder, loc, memory, reassociation);
  }

  AffineMap mapFor(ArrayRef<int64_t> axes) {
    SmallVector<AffineExpr> results;
    int64_t last = -1;
    for (int64_t axis : axes) {
      if (groupOf[axis] != last)
        results.push_back(builder.getAffineDimExpr(groupOf[axis]));
      last = groupOf[axis];
    }
    return AffineMap::get(groups.size(), 0, results, builder.getContext());
  }

  Value scalar(OpBuilder &body, Value value, const Axes &axes, bool isRoot) {
    if (!isRoot)
      for (auto [index, leaf] : llvm::enumerate(leaves))
        if (leaf.value == value && leaf.axes == axes)
          return leafArguments[index];
    auto key = std::make_pair(value, axes);
    for (auto &[known, result] : scalars)
      if (known == key)
        return result;
    Operation *op = value.getDefiningOp();
    Value result;
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      Axes inner;
      for (int64_t axis : broadcast.getAxes())
        inner.push_back(axes[axis]);
      result = scalar(body, broadcast.getInput(), inner, false);
    } else if (auto iota = dyn_cast<IotaOp>(op)) {
      result = count(body, iota, axes[iota.getAxis()]);
    } else if (auto uniform = dyn_cast<UniformOp>(op)) {
      result = draw(body, uniform, axes);
    } else if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto dense = cast<DenseElementsAttr>(constant.getValue());
      result = arith::ConstantOp::create(
          body, loc, cast<TypedAttr>(dense.getSplatValue<Attribute>()));
    } else {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands()) {
        operands.push_back(scalar(body, operand, axes, false));
        if (!operands.back())
          return nullptr;
      }
      result = emitScalar(body, loc, op, operands);
    }
    scalars.push_back({key, result});
    return result;
  }

  Value count(OpBuilder &body, IotaOp iota, int64_t axis) {
    Value index = linalg::IndexOp::create(body, loc, groupOf[axis]);
    Type element = iota.getOutput().getType().getElementType();
    if (isa<FloatType>(element)) {
      Value integer =
          arith::IndexCastOp::create(body, loc, body.getI64Type(), index);
      return arith::SIToFPOp::create(body, loc, element, integer);
    }
    return arith::IndexCastOp::create(body, loc, element, index);
  }

  Value draw(OpBuilder &body, UniformOp uniform, const Axes &axes) {
    ImplicitLocOpBuilder b(loc, body);
    Type word = b.getI32Type();
    auto number = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(
          b, b.getIntegerAttr(word, static_cast<int32_t>(value)));
    };
    auto multiply = [&](Value x, int64_t factor) -> Value {
      return factor == 1 ? x : arith::MulIOp::create(b, x, number(factor));
    };
    auto add = [&](Value x, Value y) -> Value {
      return x ? arith::AddIOp::create(b, x, y) : y;
    };
    ArrayRef<int64_t> sizes = uniform.getOutput().getType().getShape();
    constexpr int64_t none[] = {-1, 1, 1};
    ArrayRef<int64_t> samples = uniform.getSamples().value_or(none);
    int64_t stride = 1, last = -1;
    Value element, sample;
    for (int64_t axis = axes.size() - 1; axis >= 0; --axis) {
      bool isOfSamples = axis == samples[0];
      // The index of merged axes counts all their elements.
      if (groupOf[axes[axis]] != last) {
        last = groupOf[axes[axis]];
        Value index = arith::IndexCastOp::create(
            b, word, linalg::IndexOp::create(b, last));
        if (isOfSamples) {
          auto [outer, inner] = std::pair(samples[1], samples[2]);
          int64_t count = sizes[axis] / (outer * inner);
          Value rest =
              inner == 1
                  ? Value()
                  : Value(arith::RemUIOp::create(b, index, number(inner)));
          Value row =
              inner == 1
                  ? index
                  : Value(arith::DivUIOp::create(b, index, number(inner)));
          sample = outer == 1
                       ? row
                       : Value(arith::RemUIOp::create(b, row, number(count)));
          if (rest)
            element = add(element, multiply(rest, stride));
          if (outer != 1)
            element = add(
                element, multiply(arith::DivUIOp::create(b, row, number(count)),
                                  stride * inner));
        } else {
          element = add(element, multiply(index, stride));
        }
      }
      stride *= isOfSamples ? samples[1] * samples[2] : sizes[axis];
    }
    if (!element)
      element = number(0);
    const auto *found = llvm::find(counters, uniform.getCounter());
    auto words = leafArguments.slice(
        leaves.size() + 4 * std::distance(counters.begin(), found), 4);
    auto withSeed = [&](Value half, int64_t seed) -> Value {
      return seed == 0 ? half : arith::XOrIOp::create(b, half, number(seed));
    };
    return emitUniform(b, loc, element, uniform.getSampleElements(),
                       {sample ? add(words[3], sample) : number(0), words[2],
                        number(uniform.getStream())},
                       {withSeed(words[0], uniform.getSeed() & UINT32_MAX),
                        withSeed(words[1], uniform.getSeed() >> 32)});
  }

  /// Sums may be reordered: that is what lets them run in vector lanes. The
  /// order is fixed when the kernel is compiled.
  Value combine(OpBuilder &body, Reduction reduction, Value x, Value sum) {
    bool isFloat = isa<FloatType>(x.getType());
    switch (reduction) {
    case Reduction::sum:
      if (!isFloat)
        return arith::AddIOp::create(body, loc, sum, x);
      return arith::AddFOp::create(body, loc, sum, x,
                                   arith::FastMathFlags::reassoc);
    case Reduction::max:
      if (!isFloat)
        return arith::MaxSIOp::create(body, loc, sum, x);
      return arith::MaximumFOp::create(body, loc, sum, x);
    case Reduction::min:
      if (!isFloat)
        return arith::MinSIOp::create(body, loc, sum, x);
      return arith::MinimumFOp::create(body, loc, sum, x);
    case Reduction::product:
      if (!isFloat)
        return arith::MulIOp::create(body, loc, sum, x);
      return arith::MulFOp::create(body, loc, sum, x,
                                   arith::FastMathFlags::reassoc);
    }
    return nullptr;
  }

  OpBuilder &builder;
  Location loc;
  const DenseMap<Value, Value> &memories;
  ArrayRef<int64_t> shape;
  AxisMerger merger;
  SmallVector<Leaf> leaves;
  /// Of random numbers; their words follow the leaves.
  llvm::SetVector<Value, SmallVector<Value, 1>> counters;
  SmallVector<ReassociationIndices> groups;
  SmallVector<int64_t> groupOf;
  SmallVector<std::pair<std::pair<Value, Axes>, Value>> scalars;
  ValueRange leafArguments;
};

/// What a reduction starts from.
TypedAttr initialValue(OpBuilder &builder, Reduction reduction, Type element) {
  if (reduction == Reduction::sum)
    return builder.getZeroAttr(element);
  if (reduction == Reduction::product)
    return builder.getOneAttr(element);
  bool isMax = reduction == Reduction::max;
  if (auto type = dyn_cast<FloatType>(element))
    return builder.getFloatAttr(
        type, APFloat::getInf(type.getFloatSemantics(), /*Negative=*/isMax));
  unsigned width = element.getIntOrFloatBitWidth();
  return builder.getIntegerAttr(element, isMax
                                             ? APInt::getSignedMinValue(width)
                                             : APInt::getSignedMaxValue(width));
}

} // namespace

/// state[i] += value[i].
static void emitAddition(OpBuilder &builder, Location loc, Value value,
                         Value state) {
  int64_t rank = cast<MemRefType>(state.getType()).getRank();
  SmallVector<AffineMap> maps(2, builder.getMultiDimIdentityMap(rank));
  SmallVector<utils::IteratorType> iterators(rank,
                                             utils::IteratorType::parallel);
  linalg::GenericOp::create(
      builder, loc, TypeRange(), value, state, maps, iterators,
      [](OpBuilder &body, Location loc, ValueRange x) {
        linalg::YieldOp::create(
            body, loc, Value(arith::AddFOp::create(body, loc, x[1], x[0])));
      });
}

LogicalResult KernelEmitter::emitLoop(Value value) {
  Value destination = memoryOf(value);
  std::optional<Reduction> reduction;
  SmallVector<int64_t> reduced;
  Value source = value;
  bool isSummand = summands.contains(value);
  if (isSummand)
    reduction = Reduction::sum;
  Value state;
  if (auto reduce = value.getDefiningOp<ReduceOp>()) {
    reduction = reduce.getReduction();
    reduced.assign(reduce.getAxes().begin(), reduce.getAxes().end());
    source = reduce.getInput();
    if (isSummand) {
      state = destination;
      destination = memref::AllocaOp::create(builder, loc,
                                             getMemRefType(value.getType()));
    }
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    Value initial = arith::ConstantOp::create(
        builder, loc, initialValue(builder, *reduction, element));
    linalg::FillOp::create(builder, loc, initial, destination);
  }
  auto shape = cast<RankedTensorType>(source.getType()).getShape();
  LoopBuilder loop(builder, loc, memories, shape);
  Axes all = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  // The source of a reduction may itself be an operand in memory.
  bool isRoot = source == value;
  if (failed(loop.collect(source, all, isRoot)) ||
      failed(loop.emit(source, destination, reduced, reduction, isRoot)))
    return failure();
  if (state)
    emitAddition(builder, loc, destination, state);
  return success();
}
