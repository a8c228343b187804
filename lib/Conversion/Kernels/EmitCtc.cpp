//===- EmitCtc.cpp - Connectionist temporal classification ----------------===//
//
// Graves, Fernandez, Gomez and Schmidhuber, ICML 2006, section 4.1, in
// logarithms. A path goes through states: the labels, odd, with blanks around
// them, even. From one frame to the next it stays, goes on, or goes from a
// label to another one behind it at once:
//
//   state   0 blank   1 'a'   2 blank   3 'b'   4 blank
//   from    0         0 1     1 2       1 2 3   3 4
//
// One row has the states of a frame; each overwrites that of the frame before,
// in the order in which nobody needs it any more.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "KernelMemory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// The logarithm of 0: what is finite is not taken for a fault.
constexpr double nothing = -1e30;

/// Emits the loops over samples, frames and states.
class Sequences {
public:
  /// All are memory; `frames` may be null. `hasRows`: each sample has a row of
  /// its own, because all may be walked along at the same time.
  Sequences(OpBuilder &builder, Location loc, Value logProbabilities,
            Value labels, Value frames, int64_t blank, bool hasRows)
      : b(loc, builder), logProbabilities(logProbabilities), labels(labels),
        frames(frames), blank(blank), hasRows(hasRows) {
    auto type = cast<MemRefType>(logProbabilities.getType());
    element = type.getElementType();
    samples = type.getDimSize(0);
    mostFrames = type.getDimSize(1);
    classes = type.getDimSize(2);
    mostLabels = cast<MemRefType>(labels.getType()).getDimSize(1);
    rows = memref::AllocaOp::create(
        b,
        MemRefType::get({hasRows ? samples : 1, 2 * mostLabels + 1}, element));
  }

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value number(double value) {
    return arith::ConstantOp::create(b, b.getFloatAttr(element, value));
  }
  Value add(Value x, Value y) {
    return plus<arith::AddFOp, arith::AddIOp>(x, y);
  }
  Value sub(Value x, Value y) {
    return plus<arith::SubFOp, arith::SubIOp>(x, y);
  }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value exp(Value x) { return math::ExpOp::create(b, x); }
  Value log(Value x) { return emitLog(b, b.getLoc(), x); }
  Value isLess(Value x, Value y) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
  }
  Value isEqual(Value x, Value y) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, y);
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  Value load(Value memory, ValueRange at) {
    return memref::LoadOp::create(b, memory, at);
  }
  void store(Value value, Value memory, ValueRange at) {
    memref::StoreOp::create(b, value, memory, at);
  }
  void loop(Value end, function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(b, index(0), end, index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }

  /// Runs `body` for each sample; threads may share them.
  void forEachSample(function_ref<void()> body) {
    auto loop = scf::ForOp::create(b, index(0), index(samples), index(1));
    loop->setAttr(pipeline::independentAttrName, b.getUnitAttr());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    sample = loop.getInductionVar();
    countLabels();
    frameCount = index(mostFrames);
    if (frames) {
      Value own =
          arith::IndexCastOp::create(b, b.getIndexType(), load(frames, sample));
      own = arith::MaxSIOp::create(b, own, index(0));
      frameCount = arith::MinSIOp::create(b, own, frameCount);
    }
    this->loop(index(2 * mostLabels + 1),
               [&](Value state) { storeInRow(number(nothing), state); });
    body();
  }
  /// Writes `value` all over `memory`.
  void fill(double value, Value memory) {
    linalg::FillOp::create(b, number(value), memory);
  }
  Value loadFromRow(Value state) { return load(rows, {rowOfSample(), state}); }
  void storeInRow(Value value, Value state) {
    store(value, rows, {rowOfSample(), state});
  }

  /// The class of a state.
  Value classOf(Value state) {
    Value one = index(1);
    Value isLabel = isEqual(arith::AndIOp::create(b, state, one), one);
    Value place = arith::MinSIOp::create(
        b, arith::ShRUIOp::create(b, state, one), index(mostLabels - 1));
    Value label = arith::IndexCastOp::create(b, b.getIndexType(),
                                             load(labels, {sample, place}));
    label = clampedIndex(b, b.getLoc(), label, classes);
    return select(isLabel, label, index(blank));
  }
  /// Whether a path goes from the label of a state to the next one at once.
  Value skips(Value state) {
    Value one = index(1);
    Value isLabel = isEqual(arith::AndIOp::create(b, state, one), one);
    Value differs =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, classOf(state),
                              classOf(add(state, index(2))));
    return both(isLabel, differs);
  }
  Value logProbability(Value frame, Value ofClass) {
    return load(logProbabilities, {sample, frame, ofClass});
  }
  /// What the row has at `state`, if `exists`.
  Value inRow(Value exists, Value state) {
    Value at = select(exists, state, index(0));
    return select(exists, loadFromRow(at), number(nothing));
  }
  /// log(exp x + exp y + exp z).
  Value addUp(Value x, Value y, Value z) {
    Value top =
        arith::MaximumFOp::create(b, arith::MaximumFOp::create(b, x, y), z);
    Value sum = add(add(exp(sub(x, top)), exp(sub(y, top))), exp(sub(z, top)));
    return add(top, log(sum));
  }

  ImplicitLocOpBuilder b;
  Value logProbabilities, labels, frames;
  int64_t blank, samples, mostFrames, classes, mostLabels;
  bool hasRows;
  Type element;
  Value rows;
  // Of the sample.
  Value sample, labelCount, stateCount, frameCount;

private:
  Value rowOfSample() { return hasRows ? sample : index(0); }

  template <typename FloatOp, typename IndexOp> Value plus(Value x, Value y) {
    if (isa<FloatType>(x.getType()))
      return FloatOp::create(b, x, y);
    return IndexOp::create(b, x, y);
  }

  void countLabels() {
    auto loop = scf::ForOp::create(b, index(0), index(mostLabels), index(1),
                                   ValueRange{index(0)});
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value place = loop.getInductionVar(), count = loop.getRegionIterArg(0);
      Value label = load(labels, {sample, place});
      Value zero = arith::ConstantOp::create(b, b.getZeroAttr(label.getType()));
      Value isLabel =
          arith::CmpIOp::create(b, arith::CmpIPredicate::sge, label, zero);
      Value next = select(both(isEqual(count, place), isLabel),
                          add(count, index(1)), count);
      scf::YieldOp::create(b, next);
    }
    labelCount = loop.getResult(0);
    stateCount = add(add(labelCount, labelCount), index(1));
  }
};

} // namespace

LogicalResult KernelEmitter::emitCtcLoss(CtcLossOp op) {
  Sequences s(builder, loc, memoryOf(op.getLogProbabilities()),
              memoryOf(op.getLabels()),
              op.getFrames() ? memoryOf(op.getFrames()) : Value(),
              op.getBlank(), isForGpu());
  Value losses = memoryOf(op.getLosses()), alphas = memoryOf(op.getAlphas());
  if (alphas)
    s.fill(nothing, alphas);
  s.forEachSample([&] {
    Value one = s.index(1), two = s.index(2), zero = s.index(0);
    s.loop(s.frameCount, [&](Value frame) {
      Value isFirst = s.isEqual(frame, zero);
      s.loop(s.stateCount, [&](Value number) {
        Value state = s.sub(s.sub(s.stateCount, one), number);
        Value hasOne = s.isLess(zero, state), hasTwo = s.isLess(one, state);
        Value behind = s.select(hasTwo, s.sub(state, two), zero);
        Value skipped = s.both(hasTwo, s.skips(behind));
        Value sum =
            s.addUp(s.loadFromRow(state), s.inRow(hasOne, s.sub(state, one)),
                    s.inRow(skipped, behind));
        Value begins =
            s.select(s.isLess(state, two), s.number(0), s.number(nothing));
        Value alpha = s.add(s.select(isFirst, begins, sum),
                            s.logProbability(frame, s.classOf(state)));
        s.storeInRow(alpha, state);
        if (alphas)
          s.store(alpha, alphas, {s.sample, frame, state});
      });
    });
    if (!losses)
      return;
    Value last = s.sub(s.stateCount, one);
    Value hasLabels = s.isLess(zero, s.labelCount);
    Value end =
        s.addUp(s.loadFromRow(last), s.inRow(hasLabels, s.sub(last, one)),
                s.number(nothing));
    Value isPossible = arith::CmpFOp::create(s.b, arith::CmpFPredicate::UGT,
                                             end, s.number(nothing / 10));
    Value infinite = s.number(std::numeric_limits<double>::infinity());
    Value loss =
        s.select(isPossible, arith::NegFOp::create(s.b, end), infinite);
    // Nothing that is asked of no frame.
    Value isEmpty = s.isEqual(s.add(s.frameCount, s.labelCount), zero);
    s.store(s.select(isEmpty, s.number(0), loss), losses, s.sample);
  });
  return success();
}

LogicalResult KernelEmitter::emitCtcLossBackward(CtcLossBackwardOp op) {
  Sequences s(builder, loc, memoryOf(op.getLogProbabilities()),
              memoryOf(op.getLabels()),
              op.getFrames() ? memoryOf(op.getFrames()) : Value(),
              op.getBlank(), isForGpu());
  Value losses = memoryOf(op.getLosses()), alphas = memoryOf(op.getAlphas());
  Value gradients = memoryOf(op.getLossGradients());
  Value output = memoryOf(op.getOutput());
  s.fill(0, output);
  s.forEachSample([&] {
    Value one = s.index(1), two = s.index(2), zero = s.index(0);
    Value gradient = s.load(gradients, s.sample);
    Value loss = s.load(losses, s.sample);
    s.loop(s.frameCount, [&](Value number) {
      Value isLast = s.isEqual(number, zero);
      Value frame = s.sub(s.sub(s.frameCount, one), number);
      s.loop(s.stateCount, [&](Value state) {
        Value next = s.add(state, one), nextLabel = s.add(state, two);
        Value skipped =
            s.both(s.isLess(nextLabel, s.stateCount), s.skips(state));
        Value sum = s.addUp(s.loadFromRow(state),
                            s.inRow(s.isLess(next, s.stateCount), next),
                            s.inRow(skipped, nextLabel));
        Value ends = s.select(s.isLess(nextLabel, s.stateCount),
                              s.number(nothing), s.number(0));
        Value onwards = s.select(isLast, ends, sum);
        Value ofClass = s.classOf(state);
        s.storeInRow(s.add(onwards, s.logProbability(frame, ofClass)), state);
        Value alpha = s.load(alphas, {s.sample, frame, state});
        Value share = s.exp(s.add(s.add(alpha, onwards), loss));
        Value before = s.load(output, {s.sample, frame, ofClass});
        s.store(s.sub(before, s.mul(gradient, share)), output,
                {s.sample, frame, ofClass});
      });
    });
  });
  return success();
}
