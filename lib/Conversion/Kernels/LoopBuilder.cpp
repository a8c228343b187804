//===- LoopBuilder.cpp - One loop nest of a kernel ------------------------===//

#include "LoopBuilder.h"
#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// Words of a block of the generator.
static constexpr int64_t words = 4;

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

void AxisMerger::cut(int64_t axis) {
  if (axis >= 0 && axis < static_cast<int64_t>(separate.size()))
    separate[axis] = true;
}

void AxisMerger::addOperand(ArrayRef<int64_t> axes) {
  SmallVector<bool> present(separate.size(), false);
  for (int64_t axis : axes)
    present[axis] = true;
  for (size_t axis = 1; axis < separate.size(); ++axis)
    if (present[axis] != present[axis - 1])
      cut(axis);
}

SmallVector<ReassociationIndices> AxisMerger::groups() const {
  SmallVector<ReassociationIndices> result;
  for (size_t axis = 0; axis < separate.size(); ++axis) {
    if (axis == 0 || separate[axis])
      result.emplace_back();
    result.back().push_back(axis);
  }
  return result;
}

LoopBuilder::LoopBuilder(OpBuilder &builder, Location loc,
                         const DenseMap<Value, Value> &memories,
                         ValueRange values, bool areRoots)
    : builder(builder), loc(loc), memories(memories), roots(values),
      areRoots(areRoots),
      shape(cast<RankedTensorType>(values.front().getType()).getShape()) {
  divideAxes();
  merger.emplace(sizes.size());
}

void LoopBuilder::divideAxes() {
  std::optional<ArrayRef<int64_t>> samples;
  if (!findSamples(roots.front(), samples, /*followsAll=*/true))
    samples.reset();
  for (auto [axis, size] : llvm::enumerate(shape)) {
    Axes made;
    auto add = [&](int64_t part) {
      made.push_back(sizes.size());
      sizes.push_back(part);
    };
    if (samples && static_cast<int64_t>(axis) == (*samples)[0]) {
      int64_t outer = (*samples)[1], inner = (*samples)[2];
      if (outer != 1)
        add(outer);
      add(size / (outer * inner));
      if (inner != 1)
        add(inner);
    } else {
      add(size);
    }
    parts.push_back(made);
  }
}

/// Finds where draws have their samples; false if they do not agree, or do not
/// follow all axes.
bool LoopBuilder::findSamples(Value value,
                              std::optional<ArrayRef<int64_t>> &samples,
                              bool followsAll) const {
  Operation *op = value.getDefiningOp();
  if (!op || isInMemory(value))
    return true;
  auto uniform = dyn_cast<UniformOp>(op);
  if (uniform && uniform.getSamples()) {
    if (!followsAll || (samples && *uniform.getSamples() != *samples))
      return false;
    samples = uniform.getSamples();
  }
  return uniform || llvm::all_of(op->getOperands(), [&](Value operand) {
           return findSamples(operand, samples,
                              followsAll && !isa<BroadcastOp>(op));
         });
}

LoopBuilder::Axes LoopBuilder::walked(ArrayRef<int64_t> axes) const {
  Axes result;
  for (int64_t axis : axes)
    llvm::append_range(result, parts[axis]);
  return result;
}

std::optional<int64_t> LoopBuilder::sampleAxisOf(const Draw &draw) const {
  std::optional<ArrayRef<int64_t>> samples = UniformOp(draw.op).getSamples();
  if (!samples)
    return std::nullopt;
  const Axes &made = parts[draw.axes[(*samples)[0]]];
  bool isDivided = (*samples)[1] != 1 || (*samples)[2] != 1;
  if (isDivided && made.size() == 1)
    return std::nullopt;
  return made[(*samples)[1] == 1 ? 0 : 1];
}

SmallVector<int64_t> LoopBuilder::stepsOf(const Draw &draw) const {
  std::optional<int64_t> samples = sampleAxisOf(draw);
  SmallVector<int64_t> steps;
  for (auto [axis, step] :
       llvm::zip(draw.axes, UniformOp(draw.op).getSteps())) {
    SmallVector<int64_t> made;
    for (int64_t part : llvm::reverse(parts[axis])) {
      made.push_back(step);
      step *= part == samples ? 1 : sizes[part];
    }
    llvm::append_range(steps, llvm::reverse(made));
  }
  return steps;
}

std::optional<int64_t> LoopBuilder::findDividedLoop() const {
  std::optional<int64_t> common;
  for (const Draw &draw : draws) {
    UniformOp uniform = draw.op;
    std::optional<int64_t> samples = sampleAxisOf(draw);
    if (draw.axes.size() != shape.size() ||
        samples.has_value() != uniform.getSamples().has_value())
      return std::nullopt;
    // Words of a block are a quarter of a sample apart.
    std::optional<int64_t> found;
    SmallVector<int64_t> steps = stepsOf(draw);
    for (size_t loop = 0; loop < groups.size(); ++loop)
      if (extentOf(loop) % words == 0 &&
          (!samples || static_cast<int64_t>(loop) != groupOf[*samples]) &&
          steps[groups[loop].back()] * extentOf(loop) ==
              uniform.getSampleElements())
        found = loop;
    if (!found || common.value_or(*found) != *found)
      return std::nullopt;
    common = found;
  }
  return common;
}

int64_t LoopBuilder::extentOf(int64_t loop) const {
  int64_t extent = 1;
  for (int64_t axis : groups[loop])
    extent *= sizes[axis];
  return extent;
}

//===----------------------------------------------------------------------===//
// What is read
//===----------------------------------------------------------------------===//

LogicalResult LoopBuilder::collect() {
  const Axes all = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  for (Value root : roots)
    if (failed(collect(root, all)))
      return failure();
  return success();
}

LogicalResult LoopBuilder::collect(Value value, const Axes &axes) {
  Operation *op = value.getDefiningOp();
  // What another loop of this kernel wrote is read back.
  if (isInMemory(value)) {
    for (const Leaf &leaf : leaves)
      if (leaf.value == value && leaf.axes == axes)
        return success();
    merger->addOperand(walked(axes));
    leaves.push_back({value, axes});
    return success();
  }
  if (!op)
    return failure();
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Axes inner;
    for (int64_t axis : broadcast.getAxes())
      inner.push_back(axes[axis]);
    return collect(broadcast.getInput(), inner);
  }
  if (auto iota = dyn_cast<IotaOp>(op)) {
    const Axes &made = parts[axes[iota.getAxis()]];
    merger->cut(made.front());
    merger->cut(made.back() + 1);
    return success();
  }
  if (auto rows = dyn_cast<PresentRowsOp>(op)) {
    counters.insert(rows.getCounter());
    return success(memories.count(rows.getCounter()));
  }
  if (auto uniform = dyn_cast<UniformOp>(op)) {
    if (!memories.count(uniform.getCounter()))
      return failure();
    counters.insert(uniform.getCounter());
    draws.push_back({uniform, axes});
    Axes loops = walked(axes);
    merger->addOperand(loops);
    std::optional<int64_t> samples;
    if (std::optional<ArrayRef<int64_t>> position = uniform.getSamples())
      samples = sampleAxisOf(draws.back())
                    .value_or(parts[axes[position->front()]].front());
    SmallVector<int64_t> steps = stepsOf(draws.back());
    for (size_t i = 0; i < loops.size(); ++i) {
      bool isOfSamples = loops[i] == samples;
      if (isOfSamples)
        merger->cut(loops[i] + 1);
      if (isOfSamples || (i > 0 && steps[i - 1] != steps[i] * sizes[loops[i]]))
        merger->cut(loops[i]);
    }
    return success();
  }
  if (auto constant = dyn_cast<ConstantOp>(op))
    return success(constant.getValue().isSplat());
  if (!op->hasTrait<OpTrait::Elementwise>())
    return failure();
  for (Value operand : op->getOperands())
    if (failed(collect(operand, axes)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// The loop nest
//===----------------------------------------------------------------------===//

LogicalResult LoopBuilder::emit(ValueRange destinations,
                                ArrayRef<int64_t> reduced,
                                std::optional<Reduction> reduction) {
  Axes kept;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (!llvm::is_contained(reduced, axis))
      kept.push_back(axis);
  merger->addOperand(walked(kept));
  groups = merger->groups();
  groupOf.assign(sizes.size(), 0);
  for (auto [number, group] : llvm::enumerate(groups))
    for (int64_t axis : group)
      groupOf[axis] = number;
  if (!reduction)
    dividedLoop = findDividedLoop();
  int64_t count = dividedLoop ? words : 1;

  SmallVector<Value> inputs, outputs;
  SmallVector<AffineMap> maps;
  auto add = [&](SmallVectorImpl<Value> &operands, Value memory,
                 AffineMap map) {
    bool isDivided = dividedLoop && map.isFunctionOfDim(*dividedLoop);
    for (int64_t number = 0; number < (isDivided ? count : 1); ++number) {
      operands.push_back(isDivided ? partOf(memory, map, number) : memory);
      maps.push_back(map);
    }
    return isDivided;
  };
  for (Leaf &leaf : leaves) {
    leaf.firstInput = inputs.size();
    leaf.isDivided =
        add(inputs, loopMemory(memories.lookup(leaf.value), leaf.axes),
            mapFor(leaf.axes));
  }
  firstWord = inputs.size();
  for (Value counter : counters)
    for (int64_t word = 0; word < step::counterWords; ++word)
      add(inputs, wordOf(memories.lookup(counter), word), mapFor({}));
  for (Value destination : destinations)
    add(outputs, loopMemory(destination, kept), mapFor(kept));
  boundLoops(inputs, maps, outputs.size());
  SmallVector<utils::IteratorType> iterators(groups.size(),
                                             utils::IteratorType::parallel);
  for (int64_t axis : walked(reduced))
    iterators[groupOf[axis]] = utils::IteratorType::reduction;
  bool ok = true;
  linalg::GenericOp::create(
      builder, loc, TypeRange(), inputs, outputs, maps, iterators,
      [&](OpBuilder &body, Location, ValueRange operands) {
        arguments = operands;
        SmallVector<Value> results;
        Axes all = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
        for (part = 0; part < count; ++part) {
          scalars.clear();
          for (auto [index, root] : llvm::enumerate(roots)) {
            Value before = operands[inputs.size() + index];
            Value result = scalar(body, root, all);
            if (result && reduction)
              result = combineElements(
                  body, loc, *reduction,
                  getElementTypeOrSelf(root.getType()).isUnsignedInteger(),
                  before, result);
            ok &= static_cast<bool>(result);
            results.push_back(result ? result : before);
          }
        }
        linalg::YieldOp::create(body, loc, results);
      });
  return success(ok);
}

/// Loops that no operand walks along, as in the sum of a broadcast, get their
/// number of iterations from an operand that nothing reads.
void LoopBuilder::boundLoops(SmallVectorImpl<Value> &inputs,
                             SmallVectorImpl<AffineMap> &maps, size_t outputs) {
  SmallVector<bool> isBound(groups.size(), false);
  for (AffineMap map : maps)
    for (AffineExpr result : map.getResults())
      isBound[cast<AffineDimExpr>(result).getPosition()] = true;
  for (size_t loop = 0; loop < groups.size(); ++loop) {
    if (isBound[loop])
      continue;
    auto type = MemRefType::get({extentOf(loop)}, builder.getI8Type());
    inputs.push_back(memref::AllocaOp::create(builder, loc, type));
    maps.insert(
        maps.end() - outputs,
        AffineMap::get(groups.size(), 0, builder.getAffineDimExpr(loop)));
  }
}

Value LoopBuilder::wordOf(Value counter, int64_t word) {
  SmallVector<OpFoldResult> offset = {builder.getIndexAttr(word)},
                            one = {builder.getIndexAttr(1)};
  auto type = memref::SubViewOp::inferRankReducedResultType(
      {}, cast<MemRefType>(counter.getType()), offset, one, one);
  return memref::SubViewOp::create(builder, loc, type, counter, offset, one,
                                   one);
}

Value LoopBuilder::loopMemory(Value memory, ArrayRef<int64_t> axes) {
  Axes all = walked(axes);
  if (all.size() != axes.size()) {
    SmallVector<ReassociationIndices> divided;
    SmallVector<int64_t> dividedShape;
    for (int64_t axis : axes) {
      divided.emplace_back();
      for (int64_t made : parts[axis]) {
        divided.back().push_back(dividedShape.size());
        dividedShape.push_back(sizes[made]);
      }
    }
    memory = memref::ExpandShapeOp::create(builder, loc, dividedShape, memory,
                                           divided);
  }
  SmallVector<ReassociationIndices> reassociation;
  int64_t last = -1;
  for (auto [index, axis] : llvm::enumerate(all)) {
    if (groupOf[axis] != last)
      reassociation.emplace_back();
    reassociation.back().push_back(index);
    last = groupOf[axis];
  }
  if (reassociation.size() == all.size())
    return memory;
  return memref::CollapseShapeOp::create(builder, loc, memory, reassociation);
}

Value LoopBuilder::partOf(Value memory, AffineMap map, int64_t part) {
  SmallVector<int64_t> extents(cast<MemRefType>(memory.getType()).getShape()),
      offsets(extents.size(), 0), strides(extents.size(), 1);
  for (auto [axis, result] : llvm::enumerate(map.getResults()))
    if (cast<AffineDimExpr>(result).getPosition() == *dividedLoop) {
      extents[axis] /= words;
      offsets[axis] = part * extents[axis];
    }
  return memref::SubViewOp::create(
      builder, loc, memory,
      getAsIndexOpFoldResult(builder.getContext(), offsets),
      getAsIndexOpFoldResult(builder.getContext(), extents),
      getAsIndexOpFoldResult(builder.getContext(), strides));
}

AffineMap LoopBuilder::mapFor(ArrayRef<int64_t> axes) {
  SmallVector<AffineExpr> results;
  int64_t last = -1;
  for (int64_t axis : walked(axes)) {
    if (groupOf[axis] != last)
      results.push_back(builder.getAffineDimExpr(groupOf[axis]));
    last = groupOf[axis];
  }
  return AffineMap::get(groups.size(), 0, results, builder.getContext());
}

//===----------------------------------------------------------------------===//
// Its body
//===----------------------------------------------------------------------===//

Value LoopBuilder::scalar(OpBuilder &body, Value value, const Axes &axes) {
  for (const Leaf &leaf : leaves)
    if (leaf.value == value && leaf.axes == axes)
      return arguments[leaf.firstInput + (leaf.isDivided ? part : 0)];
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
    result = scalar(body, broadcast.getInput(), inner);
  } else if (auto iota = dyn_cast<IotaOp>(op)) {
    result = count(body, iota, axes[iota.getAxis()]);
  } else if (auto rows = dyn_cast<PresentRowsOp>(op)) {
    result = presentRows(body, rows);
  } else if (auto uniform = dyn_cast<UniformOp>(op)) {
    result = draw(body, {uniform, axes});
  } else if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto dense = cast<DenseElementsAttr>(constant.getValue());
    auto element = cast<TypedAttr>(dense.getSplatValue<Attribute>());
    if (element.getType().isUnsignedInteger())
      element = body.getIntegerAttr(getScalarType(element.getType()),
                                    cast<IntegerAttr>(element).getValue());
    result = arith::ConstantOp::create(body, loc, element);
  } else {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(scalar(body, operand, axes));
      if (!operands.back())
        return nullptr;
    }
    result = emitScalar(body, loc, op, operands);
  }
  scalars.push_back({key, result});
  return result;
}

Value LoopBuilder::count(OpBuilder &body, IotaOp iota, int64_t axis) {
  ImplicitLocOpBuilder b(loc, body);
  Value index;
  int64_t last = -1;
  for (int64_t made : parts[axis]) {
    int64_t loop = groupOf[made];
    if (loop == last)
      continue;
    last = loop;
    Value next = linalg::IndexOp::create(b, loop);
    if (dividedLoop == loop && part != 0)
      next = arith::AddIOp::create(
          b, next,
          arith::ConstantIndexOp::create(b, part * extentOf(loop) / words));
    if (index)
      next = arith::AddIOp::create(
          b,
          arith::MulIOp::create(
              b, index, arith::ConstantIndexOp::create(b, extentOf(loop))),
          next);
    index = next;
  }
  Type element = getScalarType(iota.getOutput().getType().getElementType());
  if (isa<FloatType>(element)) {
    Value integer = arith::IndexCastOp::create(b, b.getI64Type(), index);
    return arith::SIToFPOp::create(b, element, integer);
  }
  return arith::IndexCastOp::create(b, element, index);
}

ValueRange LoopBuilder::wordsOf(Value counter) const {
  size_t place = std::distance(counters.begin(), llvm::find(counters, counter));
  return arguments.slice(firstWord + step::counterWords * place,
                         step::counterWords);
}

Value LoopBuilder::presentRows(OpBuilder &body, PresentRowsOp op) {
  ImplicitLocOpBuilder b(loc, body);
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  ValueRange counter = wordsOf(op.getCounter());
  auto word = [&](step::CounterWord which) -> Value {
    return counter[static_cast<size_t>(which)];
  };
  Value left = arith::SubIOp::create(b, word(step::CounterWord::Samples),
                                     word(step::CounterWord::FirstSample));
  Value present = arith::MinSIOp::create(b, left, number(op.getSamples()));
  return arith::MulIOp::create(b, present, number(op.getRows()));
}

Value LoopBuilder::draw(OpBuilder &body, const Draw &draw) {
  ImplicitLocOpBuilder b(loc, body);
  auto [uniform, axes] = draw;
  if (auto found = blocks.find(uniform); dividedLoop && found != blocks.end())
    return emitUnit(b, loc, found->second[part]);
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  Value element, sample;
  auto addElements = [&](Value index, int64_t step) {
    if (step != 1)
      index = arith::MulIOp::create(b, index, number(step));
    element = element ? arith::AddIOp::create(b, element, index) : index;
  };
  std::optional<int64_t> samples = sampleAxisOf(draw);
  constexpr int64_t none[] = {-1, 1, 1};
  ArrayRef<int64_t> position = uniform.getSamples().value_or(none);
  // The axis of samples and others, where it is walked along as one.
  std::optional<int64_t> mixed;
  if (uniform.getSamples() && !samples)
    mixed = parts[axes[position[0]]].front();
  Axes all = walked(axes);
  SmallVector<int64_t> steps = stepsOf(draw);
  int64_t last = -1;
  for (int64_t i = all.size() - 1; i >= 0; --i) {
    int64_t axis = all[i], step = steps[i], loop = groupOf[axis];
    // The index of merged axes counts all their elements.
    if (loop == last)
      continue;
    last = loop;
    Value index = arith::IndexCastOp::create(b, b.getI32Type(),
                                             linalg::IndexOp::create(b, loop));
    if (axis == samples) {
      sample = index;
    } else if (axis == mixed) {
      int64_t outer = position[1], inner = position[2];
      Value size = number(inner), all = number(sizes[axis] / outer);
      addElements(arith::RemUIOp::create(b, index, size), step);
      addElements(arith::DivUIOp::create(b, index, all), step * inner);
      sample = arith::DivUIOp::create(b, arith::RemUIOp::create(b, index, all),
                                      size);
    } else {
      addElements(index, step);
    }
  }
  if (!element)
    element = number(0);
  ValueRange counter = wordsOf(uniform.getCounter());
  auto withSeed = [&](Value half, int64_t seed) -> Value {
    return seed == 0 ? half : arith::XOrIOp::create(b, half, number(seed));
  };
  int64_t seed = uniform.getSeed();
  std::array<Value, 2> key = {withSeed(counter[0], seed & UINT32_MAX),
                              withSeed(counter[1], (seed >> 32) & UINT32_MAX)};
  if (sample)
    sample = arith::AddIOp::create(b, counter[3], sample);
  else
    sample = number(0);
  Value stream = number(uniform.getStream());
  if (!dividedLoop)
    return emitUniform(b, loc, element, uniform.getSampleElements(),
                       {sample, counter[2], stream}, key);
  blocks[uniform] =
      emitPhilox(b, loc, {element, sample, counter[2], stream}, key);
  return emitUnit(b, loc, blocks[uniform][part]);
}

Value pp::combineElements(OpBuilder &body, Location loc, Reduction reduction,
                          bool isUnsigned, Value sum, Value x) {
  bool isFloat = isa<FloatType>(x.getType());
  switch (reduction) {
  case Reduction::sum:
    if (!isFloat)
      return arith::AddIOp::create(body, loc, sum, x);
    return arith::AddFOp::create(body, loc, sum, x,
                                 arith::FastMathFlags::reassoc);
  case Reduction::max:
    if (isUnsigned)
      return arith::MaxUIOp::create(body, loc, sum, x);
    if (!isFloat)
      return arith::MaxSIOp::create(body, loc, sum, x);
    return arith::MaximumFOp::create(body, loc, sum, x);
  case Reduction::min:
    if (isUnsigned)
      return arith::MinUIOp::create(body, loc, sum, x);
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
