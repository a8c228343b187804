//===- SampleCounts.cpp - Tensors made for a number of samples ------------===//

#include "SampleCounts.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// The number that all elements are; none if they are not known to be one.
static std::optional<int64_t> readSplat(Value value) {
  while (isa_and_nonnull<BroadcastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto constant = value.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                        : DenseElementsAttr();
  if (!dense || !dense.isSplat() || !isa<IntegerType>(dense.getElementType()))
    return std::nullopt;
  return dense.getSplatValue<APInt>().getSExtValue();
}

FailureOr<int64_t> nn::countOfResults(Operation *op, ArrayRef<int64_t> counts) {
  if (llvm::all_of(counts, [](int64_t count) { return count == 0; }))
    return 0;
  using Result = FailureOr<int64_t>;
  auto common = [](ArrayRef<int64_t> counts) -> Result {
    return llvm::all_equal(counts) ? Result(counts.front()) : Result(failure());
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, CopyOp>(
          [&](auto) -> Result { return counts.front(); })
      .Case([&](ConcatOp) { return common(counts); })
      .Case([&](CastOp cast) -> Result {
        unsigned width = 0;
        if (auto type = dyn_cast<IntegerType>(
                cast.getOutput().getType().getElementType()))
          width = type.getWidth();
        return width < 32 ? Result(failure()) : Result(counts.front());
      })
      .Case([&](NegOp) -> Result { return -counts.front(); })
      .Case([&](AddOp) -> Result { return counts[0] + counts[1]; })
      .Case([&](SubOp) -> Result { return counts[0] - counts[1]; })
      .Case([&](MulOp mul) -> Result {
        if (counts[0] != 0 && counts[1] != 0)
          return failure();
        auto factor = readSplat(counts[0] ? mul.getRhs() : mul.getLhs());
        int64_t product;
        if (!factor ||
            llvm::MulOverflow(counts[0] + counts[1], *factor, product))
          return failure();
        return product;
      })
      .Case([&](SelectOp) -> Result {
        return counts[0] ? Result(failure()) : common(counts.drop_front());
      })
      .Default([](Operation *) -> Result { return failure(); });
}

/// By how much the samples of a constant grow, if each does by the same;
/// `within` are the elements of a sample in a row.
static std::optional<int64_t> countOfElements(DenseElementsAttr dense,
                                              int64_t within, int64_t batch) {
  auto values = dense.getValues<APInt>();
  auto read = [&](int64_t index) { return values[index].getSExtValue(); };
  int64_t count;
  if (llvm::SubOverflow(read(within), read(0), count))
    return std::nullopt;
  for (int64_t index = 0, end = dense.getNumElements(); index < end; ++index) {
    int64_t sample = index / within % batch, grown;
    if (llvm::MulOverflow(sample, count, grown) ||
        llvm::AddOverflow(grown, read(index - sample * within), grown) ||
        grown != read(index))
      return std::nullopt;
  }
  return count;
}

static Value makeSplat(OpBuilder &builder, Location loc, RankedTensorType type,
                       int64_t number) {
  return ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          type, builder.getIntegerAttr(type.getElementType(), number)));
}

Value nn::countWithIota(ConstantOp constant, BatchPosition position,
                        int64_t batch) {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  auto [axis, outer, inner] = position;
  if (!dense || dense.isSplat() || batch < 2 || outer != 1 ||
      !(dense.getElementType().isSignlessInteger(64) ||
        dense.getElementType().isSignlessInteger(32)))
    return nullptr;
  auto type = cast<RankedTensorType>(dense.getType());
  int64_t within = inner;
  for (int64_t size : type.getShape().drop_front(axis + 1))
    within *= size;
  auto count = countOfElements(dense, within, batch);
  if (!count || *count == 0)
    return nullptr;

  OpBuilder builder(constant);
  Location loc = constant.getLoc();
  auto values = dense.getValues<APInt>();
  SmallVector<APInt> equal;
  for (int64_t index = 0, end = dense.getNumElements(); index < end; ++index)
    equal.push_back(values[index - index / within % batch * within]);
  Value first =
      ConstantOp::create(builder, loc, DenseElementsAttr::get(type, equal));
  SmallVector<int64_t> split(type.getShape());
  split[axis] = batch;
  split.insert(split.begin() + axis + 1, inner);
  Value numbers =
      ReshapeOp::create(builder, loc, type,
                        IotaOp::create(builder, loc, type.clone(split), axis));
  Value grown = MulOp::create(builder, loc, numbers,
                              makeSplat(builder, loc, type, *count));
  return AddOp::create(builder, loc, first, grown);
}

Value nn::repeatOne(ParameterOp parameter, ConstantElements &elements,
                    BatchPosition position, int64_t batch) {
  RankedTensorType type = parameter.getOutput().getType();
  if (batch < 2 || type.getNumElements() == 0)
    return nullptr;
  auto bytes = elements.readBytes(parameter);
  if (!bytes)
    return nullptr;
  SmallVector<int64_t> split(type.getShape());
  split[position.axis] = position.inner;
  int64_t at = position.axis + 1; // behind the outer parts
  split.insert(split.begin() + position.axis, {position.outer, batch});
  // Blocks of all samples, which the same bytes of each make.
  size_t size = bytes->size() / type.getNumElements(); // 0: one for all
  for (int64_t axis : ArrayRef(split).drop_front(at + 1))
    size *= axis;
  for (size_t block = 0; size && block < bytes->size(); block += size * batch)
    for (int64_t sample = 1; sample < batch; ++sample)
      if (bytes->slice(block, size) !=
          bytes->slice(block + sample * size, size))
        return nullptr;

  OpBuilder builder(parameter->getContext());
  builder.setInsertionPointAfter(parameter);
  Location loc = parameter.getLoc();
  SmallVector<int64_t> starts(split.size(), 0), strides(split.size(), 1);
  SmallVector<int64_t> limits(split), single(split), axes;
  limits[at] = 1;
  single.erase(single.begin() + at);
  for (int64_t axis = 0; axis < static_cast<int64_t>(split.size()); ++axis)
    if (axis != at)
      axes.push_back(axis);
  Value parts =
      ReshapeOp::create(builder, loc, type.clone(split), parameter.getOutput());
  Value first = ReshapeOp::create(
      builder, loc, type.clone(single),
      SliceOp::create(builder, loc, parts, starts, limits, strides));
  Value all = BroadcastOp::create(builder, loc, type.clone(split), first, axes);
  return ReshapeOp::create(builder, loc, type, all);
}

/// A tensor of `shape` with its axis at `position` split, and the samples in
/// front: the shape after the split, and the permutation.
static std::pair<SmallVector<int64_t>, SmallVector<int64_t>>
samplesInFront(ArrayRef<int64_t> shape, BatchPosition position, int64_t batch) {
  SmallVector<int64_t> split(shape);
  split[position.axis] = position.inner;
  split.insert(split.begin() + position.axis, {position.outer, batch});
  int64_t at = position.axis + 1; // behind the outer parts
  SmallVector<int64_t> permutation = {at};
  for (int64_t axis = 0; axis < static_cast<int64_t>(split.size()); ++axis)
    if (axis != at)
      permutation.push_back(axis);
  return {split, permutation};
}

OwnSampleGather nn::pickFromOwnSample(GatherOp gather, BatchPosition input,
                                      BatchPosition indices, int64_t batch) {
  OpBuilder builder(gather);
  Location loc = gather.getLoc();
  OwnSampleGather made;
  auto keep = [&](Value value, BatchPosition position) {
    made.values.push_back({value, position});
    return value;
  };
  auto reshape = [&](Value value, ArrayRef<int64_t> shape,
                     BatchPosition position) {
    auto type = cast<RankedTensorType>(value.getType()).clone(shape);
    return keep(ReshapeOp::create(builder, loc, type, value), position);
  };
  auto toTheFront = [&](Value value, BatchPosition position) {
    auto [split, permutation] = samplesInFront(
        cast<RankedTensorType>(value.getType()).getShape(), position, batch);
    Value parts = reshape(value, split, {position.axis + 1, 1, 1});
    return keep(TransposeOp::create(builder, loc, parts, permutation),
                {0, 1, 1});
  };
  Value samples = toTheFront(gather.getInput(), input);
  Value places = toTheFront(gather.getIndices(), indices);

  auto type = cast<RankedTensorType>(places.getType());
  auto splat = [&](int64_t number) {
    return keep(makeSplat(builder, loc, type, number), {0, 1, 1});
  };
  Value numbers = keep(IotaOp::create(builder, loc, type, 0), {0, 1, 1});
  Value starts =
      keep(MulOp::create(builder, loc, numbers, splat(input.inner)), {0, 1, 1});
  Value own = keep(SubOp::create(builder, loc, places, starts), {0, 1, 1});
  // Negative indices would count from the end of the sample.
  Value isBefore =
      keep(CompareOp::create(builder, loc, Comparison::lt, own, splat(0)),
           {0, 1, 1});
  Value inside =
      keep(SelectOp::create(builder, loc, isBefore, splat(input.inner), own),
           {0, 1, 1});

  // Behind the samples come the axes before the gather's, with the outer part
  // of its own, which is one.
  int64_t axis = gather.getAxis();
  Value picked = keep(
      GatherOp::create(builder, loc, samples, inside, axis + 2, 1), {0, 1, 1});
  // Back to where the samples were in the indices: behind the axes before the
  // gather's, the part that is one, and the axes of the indices before theirs.
  int64_t at = axis + 1 + indices.axis + 1;
  SmallVector<int64_t> permutation;
  auto rank = cast<RankedTensorType>(picked.getType()).getRank();
  for (int64_t next = 1; next < rank; ++next) {
    if (next == at + 1)
      permutation.push_back(0);
    permutation.push_back(next);
  }
  if (static_cast<int64_t>(permutation.size()) < rank)
    permutation.push_back(0);
  Value turned =
      keep(TransposeOp::create(builder, loc, picked, permutation), {at, 1, 1});
  made.result = reshape(turned, gather.getType().getShape(),
                        {axis + indices.axis, indices.outer, indices.inner});
  return made;
}
