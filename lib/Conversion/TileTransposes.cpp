//===- TileTransposes.cpp - Transpositions of squares in registers --------===//

#include "Kernels/KernelMemory.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace pp {
#define GEN_PASS_DEF_TILETRANSPOSES
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;
using namespace pp;

namespace {

/// Rows and columns of a square in registers.
constexpr int64_t side = 8;
/// A tile has that many squares along each axis that is long enough: lines of
/// the cache are read and written whole.
constexpr int64_t squares = 2;
/// Tiles of rows of the result that an iteration of the outer loop writes.
constexpr int64_t tilesOfTurn = 4;

/// An axis of the result.
struct Axis {
  int64_t size;
  int64_t inStride = 0, outStride = 0; // in elements
};

/// A copy of all elements into another order of axes.
struct Permutation {
  /// Those that lie behind each other on both sides are one.
  SmallVector<Axis> axes;
  /// The one whose elements lie side by side in the input.
  size_t innermost = 0;
  int64_t count = 1;

  /// Whether it transposes matrices that have a square.
  bool isTransposition() const {
    return axes.size() > 1 && innermost + 1 != axes.size() &&
           axes[innermost].size >= side && axes.back().size >= side;
  }
};

/// None where `op` is something else.
std::optional<Permutation> matchPermutation(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 1 || op.getNumDpsInits() != 1 ||
      op.getNumParallelLoops() != op.getNumLoops())
    return std::nullopt;
  auto from = dyn_cast<MemRefType>(op.getDpsInputs()[0].getType());
  auto to = dyn_cast<MemRefType>(op.getDpsInits()[0].getType());
  if (!from || !to || !from.getLayout().isIdentity() ||
      !to.getLayout().isIdentity() || !to.hasStaticShape() ||
      !from.hasStaticShape() || from.getNumElements() != to.getNumElements() ||
      !to.getElementType().isIntOrFloat() || to.getElementType().isInteger(1))
    return std::nullopt;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  Block &body = op.getRegion().front();
  if (!maps[0].isPermutation() || !maps[1].isIdentity() ||
      &body.front() != body.getTerminator() ||
      body.getTerminator()->getOperand(0) != body.getArgument(0))
    return std::nullopt;

  // The axes of the input that the axes of the result are.
  SmallVector<int64_t> place(to.getRank());
  for (int64_t axis = 0; axis < to.getRank(); ++axis)
    place[maps[0].getDimPosition(axis)] = axis;
  SmallVector<int64_t> inStrides(to.getRank());
  int64_t stride = 1;
  for (int64_t axis = to.getRank(); axis-- > 0; stride *= from.getDimSize(axis))
    inStrides[axis] = stride;
  Permutation result;
  for (int64_t axis = to.getRank(); axis-- > 0;) {
    const int64_t size = to.getDimSize(axis);
    if (size == 1)
      continue;
    const int64_t inStride = inStrides[place[axis]];
    if (Axis *last = result.axes.empty() ? nullptr : &result.axes.back();
        last && last->inStride * last->size == inStride)
      last->size *= size;
    else
      result.axes.push_back({size, inStride, result.count});
    result.count *= size;
  }
  std::reverse(result.axes.begin(), result.axes.end());
  for (auto [index, axis] : llvm::enumerate(result.axes))
    if (axis.inStride == 1)
      result.innermost = index;
  return result;
}

/// Writes the loops:
///
///   for all other axes, and rows of some tiles        shared by threads
///     for tiles of columns (that lie side by side in the result)
///       for tiles of rows (side by side in the input)
///         squares, in registers
///
/// The last tile of an axis ends with it, so it writes some elements again
/// where tiles do not divide the axis; the same thread writes them.
class TileLoops {
public:
  TileLoops(linalg::GenericOp op, const Permutation &permutation)
      : builder(op.getLoc(), op), permutation(permutation) {
    Value from = op.getDpsInputs()[0], to = op.getDpsInits()[0];
    input = reshaped(builder, op.getLoc(), from, {permutation.count});
    output = reshaped(builder, op.getLoc(), to, {permutation.count});
    square = VectorType::get({side},
                             cast<MemRefType>(to.getType()).getElementType());
  }

  void emit() {
    const Axis &rows = permutation.axes[permutation.innermost];
    const Axis &columns = permutation.axes.back();
    const int64_t tiles = llvm::divideCeil(rows.size, tileOf(rows));
    const int64_t turns = std::max<int64_t>(tiles / tilesOfTurn, 1);
    int64_t others = 1;
    for (const Axis &axis : permutation.axes)
      if (&axis != &rows && &axis != &columns)
        others *= axis.size;
    scf::ForOp outer = loop(constant(0), constant(others * turns));
    outer->setAttr(pipeline::rowsAttrName, builder.getUnitAttr());
    Value turn = remainder(outer.getInductionVar(), turns);
    Value rest = quotient(outer.getInductionVar(), turns);
    Value from = constant(0), to = constant(0);
    for (const Axis &axis : llvm::reverse(permutation.axes)) {
      if (&axis == &rows || &axis == &columns)
        continue;
      Value index = remainder(rest, axis.size);
      rest = quotient(rest, axis.size);
      from = moved(from, index, axis.inStride);
      to = moved(to, index, axis.outStride);
    }
    Value first = scaled(turn, tilesOfTurn);
    Value isLast = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq,
                                         turn, constant(turns - 1));
    Value end = arith::SelectOp::create(builder, isLast, constant(tiles),
                                        sum(first, constant(tilesOfTurn)));
    const int64_t columnTiles = llvm::divideCeil(columns.size, tileOf(columns));
    forTiles(columns, constant(0), constant(columnTiles), [&](Value column) {
      forTiles(rows, first, end, [&](Value row) {
        for (int64_t i = 0; i < tileOf(columns); i += side)
          for (int64_t j = 0; j < tileOf(rows); j += side)
            copySquare(sum(column, constant(i)), sum(row, constant(j)), from,
                       to);
      });
    });
  }

private:
  static int64_t tileOf(const Axis &axis) {
    return axis.size >= side * squares ? side * squares : side;
  }

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(builder, value);
  }
  Value sum(Value a, Value b) { return arith::AddIOp::create(builder, a, b); }
  Value scaled(Value value, int64_t factor) {
    return arith::MulIOp::create(builder, value, constant(factor));
  }
  Value moved(Value place, Value index, int64_t stride) {
    return sum(place, scaled(index, stride));
  }
  Value quotient(Value value, int64_t divisor) {
    return arith::DivUIOp::create(builder, value, constant(divisor));
  }
  Value remainder(Value value, int64_t divisor) {
    return arith::RemUIOp::create(builder, value, constant(divisor));
  }

  /// What is built next is in the loop.
  scf::ForOp loop(Value begin, Value end) {
    auto result = scf::ForOp::create(builder, begin, end, constant(1));
    builder.setInsertionPointToStart(result.getBody());
    return result;
  }

  void forTiles(const Axis &axis, Value begin, Value end,
                function_ref<void(Value)> body) {
    OpBuilder::InsertionGuard guard(builder);
    Value tile = loop(begin, end).getInductionVar();
    body(arith::MinUIOp::create(builder, scaled(tile, tileOf(axis)),
                                constant(axis.size - tileOf(axis))));
  }

  /// Squares of rows of the result from `row` on, which are columns of the
  /// input, and its columns from `column` on.
  void copySquare(Value column, Value row, Value from, Value to) {
    const Axis &rows = permutation.axes[permutation.innermost];
    const Axis &columns = permutation.axes.back();
    from = moved(sum(from, row), column, columns.inStride);
    to = moved(sum(to, column), row, rows.outStride);
    SmallVector<Value> lanes;
    for (int64_t i = 0; i < side; ++i)
      lanes.push_back(vector::LoadOp::create(
          builder, square, input, sum(from, constant(i * columns.inStride))));
    transpose(lanes);
    for (int64_t i = 0; i < side; ++i)
      vector::StoreOp::create(builder, lanes[i], output,
                              sum(to, constant(i * rows.outStride)));
  }

  /// Pairs of numbers, pairs of pairs, and halves change places, as processors
  /// do it within and between 128 bits.
  void transpose(SmallVector<Value> &rows) {
    static_assert(side == 8);
    auto shuffled = [&](Value a, Value b, ArrayRef<int64_t> lanes) -> Value {
      return vector::ShuffleOp::create(builder, a, b, lanes);
    };
    SmallVector<Value> pairs(side), fours(side);
    for (int64_t i = 0; i < side; i += 2) {
      pairs[i] = shuffled(rows[i], rows[i + 1], {0, 8, 1, 9, 4, 12, 5, 13});
      pairs[i + 1] =
          shuffled(rows[i], rows[i + 1], {2, 10, 3, 11, 6, 14, 7, 15});
    }
    for (int64_t i = 0; i < side; i += 4)
      for (int64_t j = 0; j < 2; ++j) {
        Value a = pairs[i + j], b = pairs[i + j + 2];
        fours[i + 2 * j] = shuffled(a, b, {0, 1, 8, 9, 4, 5, 12, 13});
        fours[i + 2 * j + 1] = shuffled(a, b, {2, 3, 10, 11, 6, 7, 14, 15});
      }
    for (int64_t i = 0; i < side / 2; ++i) {
      Value a = fours[i], b = fours[i + 4];
      rows[i] = shuffled(a, b, {0, 1, 2, 3, 8, 9, 10, 11});
      rows[i + 4] = shuffled(a, b, {4, 5, 6, 7, 12, 13, 14, 15});
    }
  }

  ImplicitLocOpBuilder builder;
  const Permutation &permutation;
  Value input, output;
  VectorType square;
};

struct TileTransposes : pp::impl::TileTransposesBase<TileTransposes> {
  void runOnOperation() override {
    SmallVector<linalg::GenericOp> copies;
    getOperation()->walk([&](linalg::GenericOp op) { copies.push_back(op); });
    for (linalg::GenericOp op : copies) {
      auto permutation = matchPermutation(op);
      if (!permutation || !permutation->isTransposition())
        continue;
      TileLoops(op, *permutation).emit();
      op.erase();
    }
  }
};

} // namespace
