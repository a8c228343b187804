//===- EmitChannels.cpp - Sums over the channels of an image --------------===//
//
// Some channels at a time, sample by sample: what is read of a sample stays in
// a cache for the second pass over it. Channels that lie side by side are the
// lanes of a vector; where a channel's own elements do, they are.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "KernelMemory.h"
#include "pp/Dialect/NN/IR/Layout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Sums that do not wait for each other, so that additions overlap.
constexpr int64_t accumulators = 4;
/// Lanes where a channel's own elements lie side by side.
constexpr int64_t elementLanes = 16;
/// Most channels that a loop takes at a time where all lie side by side.
constexpr int64_t mostChannels = 64;

/// Where the elements of an image lie: at
/// sample * sampleStride + (channel / lanes) * groupStride + place *
/// placeStride
/// + channel % lanes, or + an element of the place where lanes are elements.
struct Geometry {
  int64_t samples, channels, places;
  int64_t sampleStride, groupStride, placeStride;
  /// Channels of a vector; 1 where a channel's elements lie side by side.
  int64_t block;

  Geometry(ArrayRef<int64_t> logical, Layout layout) {
    samples = logical[0];
    channels = logical[1];
    places = 1;
    for (int64_t size : logical.drop_front(2))
      places *= size;
    sampleStride = channels * places;
    block = getBlockOf(layout);
    groupStride = block ? block * places : 1;
    placeStride = block ? block : channels;
    if (layout == Layout::plain && places > 1) {
      block = 1;
      groupStride = places;
      placeStride = 1;
    }
  }
  /// Whether all channels of a place lie side by side.
  bool hasPlainChannels() const { return block == 0; }
  /// Whether all elements of a sample's channel do.
  bool hasPlainElements() const { return block == 1; }
};

/// Emits the loops over groups of channels. Numbers of a channel have the type
/// `numberType`: a vector, or a scalar where its elements are the lanes.
class ChannelLoops {
public:
  ChannelLoops(OpBuilder &builder, Location loc, const Geometry &geometry,
               Type element)
      : builder(builder), loc(loc), geometry(geometry), element(element) {}

  /// Runs `body` for each group of channels.
  void forEach(function_ref<void()> body) {
    if (!geometry.hasPlainChannels())
      return loop(0, geometry.channels / geometry.block, geometry.block, body);
    // Powers of two, since processors have no other vectors.
    int64_t first = 0;
    for (int64_t lanes = mostChannels; lanes > 0; lanes /= 2) {
      int64_t groups = (geometry.channels - first) / lanes;
      if (groups > 0)
        loop(first, groups, lanes, body);
      first += groups * lanes;
    }
  }

  /// The numbers of the loop's channels.
  Value loadNumbers(Value memory) {
    Value flat = reshaped(builder, loc, memory, {geometry.channels});
    return loadFrom(flat, channel, lanes);
  }
  void storeNumbers(Value numbers, Value memory) {
    Value flat = reshaped(builder, loc, memory, {geometry.channels});
    if (lanes == 1)
      memref::StoreOp::create(builder, loc, numbers, flat, channel);
    else
      vector::StoreOp::create(builder, loc, numbers, flat, channel);
  }
  Value splat(double value) { return constant(numberType(), value); }
  Value fromIndex(Value count) {
    Value number =
        arith::IndexCastOp::create(builder, loc, builder.getI64Type(), count);
    number = arith::SIToFPOp::create(builder, loc, element, number);
    return lanes == 1 ? number
                      : vector::BroadcastOp::create(builder, loc, numberType(),
                                                    number);
  }

  /// Lets the loops stop behind the first samples, as many as `memory` says.
  void limitSamples(Value memory) {
    Value number = memref::LoadOp::create(builder, loc, memory, ValueRange());
    end = arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                     number);
  }
  /// How many samples a loop has.
  Value samples() { return end ? end : index(geometry.samples); }

  /// Carries `initial` through the samples.
  SmallVector<Value>
  forSamples(ValueRange initial,
             function_ref<SmallVector<Value>(Value sample, ValueRange)> body) {
    auto loop = scf::ForOp::create(builder, loc, index(0), samples(), index(1),
                                   initial);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value sample = loop.getInductionVar();
    base = add(arith::MulIOp::create(builder, loc, sample,
                                     index(geometry.sampleStride)),
               offset);
    scf::YieldOp::create(builder, loc, body(sample, loop.getRegionIterArgs()));
    return loop.getResults();
  }

  /// Of the sample: for each result of `terms`, its sum over the places. The
  /// terms are made from the images' elements there.
  SmallVector<Value> sums(ValueRange images, size_t count,
                          function_ref<SmallVector<Value>(ValueRange)> terms) {
    int64_t width = geometry.hasPlainElements() ? elementLanes : 1, at = 0;
    SmallVector<Value> total(count, splat(0));
    auto addUp = [&](Type type, int64_t step, int64_t parts) {
      int64_t turns = (geometry.places - at) / (step * parts);
      if (turns == 0)
        return;
      SmallVector<Value> zeros(count * parts, constant(type, 0));
      int64_t end = at + turns * step * parts;
      auto loop = scf::ForOp::create(builder, loc, index(at), index(end),
                                     index(step * parts), zeros);
      {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(loop.getBody());
        SmallVector<Value> next(loop.getRegionIterArgs());
        for (int64_t part = 0; part < parts; ++part) {
          Value place = add(loop.getInductionVar(), index(part * step));
          Value from =
              add(base, arith::MulIOp::create(builder, loc, place,
                                              index(geometry.placeStride)));
          SmallVector<Value> elements;
          for (Value image : images)
            elements.push_back(loadFrom(
                image, from, geometry.hasPlainElements() ? step : lanes));
          for (auto [k, term] : llvm::enumerate(terms(elements))) {
            Value &sum = next[k * parts + part];
            sum = arith::AddFOp::create(builder, loc, sum, term);
          }
        }
        scf::YieldOp::create(builder, loc, next);
      }
      for (size_t k = 0; k < count; ++k) {
        Value sum = loop.getResult(k * parts);
        for (int64_t part = 1; part < parts; ++part)
          sum = arith::AddFOp::create(builder, loc, sum,
                                      loop.getResult(k * parts + part));
        if (sum.getType() != total[k].getType())
          sum = addLanes(sum);
        total[k] = arith::AddFOp::create(builder, loc, total[k], sum);
      }
      at = end;
    };
    Type wide = geometry.hasPlainElements() ? VectorType::get({width}, element)
                                            : numberType();
    addUp(wide, width, accumulators);
    addUp(wide, width, 1);
    addUp(numberType(), 1, 1);
    return total;
  }

  /// A channel's number for terms() over several of its elements.
  Value like(Value number, Value elements) {
    return number.getType() == elements.getType()
               ? number
               : vector::BroadcastOp::create(builder, loc, elements.getType(),
                                             number);
  }
  /// An image as one row.
  Value flat(Value image) {
    return reshaped(builder, loc, image,
                    {geometry.samples * geometry.sampleStride});
  }

private:
  Type numberType() const {
    return lanes == 1 ? element : VectorType::get({lanes}, element);
  }
  Value constant(Type type, double value) {
    TypedAttr number = builder.getFloatAttr(element, value);
    if (auto vector = dyn_cast<VectorType>(type))
      number = DenseElementsAttr::get(vector, number);
    return arith::ConstantOp::create(builder, loc, number);
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }
  Value add(Value x, Value y) {
    return arith::AddIOp::create(builder, loc, x, y);
  }

  void loop(int64_t first, int64_t groups, int64_t width,
            function_ref<void()> body) {
    auto loop =
        scf::ForOp::create(builder, loc, index(0), index(groups), index(1));
    loop->setAttr(pipeline::rowsAttrName, builder.getUnitAttr());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    lanes = width;
    Value group = loop.getInductionVar();
    auto scaled = [&](int64_t stride) -> Value {
      return arith::MulIOp::create(builder, loc, group, index(stride));
    };
    channel = add(scaled(width), index(first));
    offset =
        geometry.hasPlainChannels() ? channel : scaled(geometry.groupStride);
    body();
  }

  /// `count` elements, widened.
  Value loadFrom(Value memory, Value at, int64_t count) {
    Type stored = cast<MemRefType>(memory.getType()).getElementType();
    Type type = element;
    Value value;
    if (count == 1) {
      value = memref::LoadOp::create(builder, loc, memory, at);
    } else {
      type = VectorType::get({count}, element);
      value = vector::LoadOp::create(
          builder, loc, VectorType::get({count}, stored), memory, at);
    }
    return stored == element ? value
                             : arith::ExtFOp::create(builder, loc, type, value);
  }

  /// In halves: the same order whatever the processor has.
  Value addLanes(Value vector) {
    auto type = cast<VectorType>(vector.getType());
    int64_t count = type.getDimSize(0);
    while (count > 1) {
      count /= 2;
      auto half = [&](int64_t from) -> Value {
        return vector::ExtractStridedSliceOp::create(builder, loc, vector, from,
                                                     count, 1);
      };
      vector = arith::AddFOp::create(builder, loc, half(0), half(count));
    }
    return vector::ExtractOp::create(builder, loc, vector, int64_t{0});
  }

  OpBuilder &builder;
  Location loc;
  const Geometry &geometry;
  Type element;
  int64_t lanes = 1;
  Value end;     // of the samples; null: all
  Value channel; // the first of the loop
  Value offset;  // of its elements in a sample
  Value base;    // of its elements in the loop's sample
};

Geometry geometryOf(Value image, Layout layout) {
  auto shape = cast<RankedTensorType>(image.getType()).getShape();
  return Geometry(*toLogicalShape(shape, layout), layout);
}

Type elementOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

} // namespace

LogicalResult KernelEmitter::emitChannelMoments(ChannelMomentsOp op) {
  Geometry geometry = geometryOf(op.getInput(), op.getLayout());
  ChannelLoops loops(builder, loc, geometry, elementOf(op.getMean()));
  Value image = loops.flat(sourceOf(op.getInput()));
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(builder, loc, x, y);
  };
  auto sub = [&](Value x, Value y) -> Value {
    return arith::SubFOp::create(builder, loc, x, y);
  };
  auto mul = [&](Value x, Value y) -> Value {
    return arith::MulFOp::create(builder, loc, x, y);
  };
  auto shareOfElement = [&]() -> Value {
    auto places = static_cast<double>(geometry.places);
    if (!op.getRows())
      return loops.splat(1 / (static_cast<double>(geometry.samples) * places));
    return arith::DivFOp::create(builder, loc, loops.splat(1 / places),
                                 loops.fromIndex(loops.samples()));
  };
  if (op.getRows())
    loops.limitSamples(memoryOf(op.getRows()));
  loops.forEach([&] {
    Value zero = loops.splat(0), one = loops.splat(1);
    Value places = loops.splat(static_cast<double>(geometry.places));
    Value inverse = loops.splat(1.0 / static_cast<double>(geometry.places));
    SmallVector<Value> all =
        loops.forSamples({zero, zero}, [&](Value sample, ValueRange before) {
          Value sum = loops.sums(image, 1, [](ValueRange x) { return x; })[0];
          Value mean = mul(sum, inverse);
          Value squares = loops.sums(image, 1, [&](ValueRange x) {
            Value difference = sub(x[0], loops.like(mean, x[0]));
            return SmallVector<Value>{mul(difference, difference)};
          })[0];
          // Of the samples so far with this one.
          Value count = loops.fromIndex(sample);
          Value share =
              arith::DivFOp::create(builder, loc, one, add(count, one));
          Value delta = sub(mean, before[0]);
          Value between =
              mul(mul(delta, delta), mul(places, mul(count, share)));
          return SmallVector<Value>{add(before[0], mul(delta, share)),
                                    add(add(before[1], squares), between)};
        });
    if (Value mean = memoryOf(op.getMean()))
      loops.storeNumbers(all[0], mean);
    if (Value variance = memoryOf(op.getVariance()))
      loops.storeNumbers(mul(all[1], shareOfElement()), variance);
  });
  return success();
}

LogicalResult KernelEmitter::emitChannelSums(ChannelSumsOp op) {
  Geometry geometry = geometryOf(op.getInput(), op.getLayout());
  ChannelLoops loops(builder, loc, geometry, elementOf(op.getMean()));
  SmallVector<Value> images = {loops.flat(sourceOf(op.getGradient())),
                               loops.flat(sourceOf(op.getInput()))};
  Value means = sourceOf(op.getMean());
  if (op.getRows())
    loops.limitSamples(memoryOf(op.getRows()));
  loops.forEach([&] {
    Value zero = loops.splat(0), mean = loops.loadNumbers(means);
    SmallVector<Value> all =
        loops.forSamples({zero, zero}, [&](Value, ValueRange before) {
          SmallVector<Value> sums =
              loops.sums(images, 2, [&](ValueRange x) -> SmallVector<Value> {
                Value centred = arith::SubFOp::create(builder, loc, x[1],
                                                      loops.like(mean, x[1]));
                return {x[0],
                        arith::MulFOp::create(builder, loc, x[0], centred)};
              });
          for (auto [sum, old] : llvm::zip(sums, before))
            sum = arith::AddFOp::create(builder, loc, old, sum);
          return sums;
        });
    if (Value sum = memoryOf(op.getSum()))
      loops.storeNumbers(all[0], sum);
    if (Value weighted = memoryOf(op.getWeighted()))
      loops.storeNumbers(all[1], weighted);
  });
  return success();
}
