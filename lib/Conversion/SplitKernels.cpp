//===- SplitKernels.cpp - Kernels that several threads run together -------===//

#include "pp/Conversion/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Utils/Utils.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include <limits>

namespace pp {
#define GEN_PASS_DEF_SPLITKERNELS
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;
using namespace pp;

namespace {

/// Less than this, and threads wait for each other longer than they work.
constexpr int64_t fewestIterations = 1 << 14;
/// Loops with as many iterations are worth being shared.
constexpr int64_t fewestTurns = 16;
/// Shares of a longer innermost loop begin at multiples of a cache line.
constexpr int64_t longLoop = 1024, line = 64;

/// An operation of a kernel's function that does something: a loop nest.
struct Nest {
  Operation *op;
  /// Which loop threads share, or the first of `loops` that are one in the
  /// other, and how many iterations these have; none: one thread runs the nest.
  std::optional<unsigned> loop = std::nullopt;
  unsigned loops = 1;
  int64_t extent = 0;
  /// Of all loops.
  int64_t iterations = 1;
  /// Where shares begin.
  int64_t grain = 1;
};

/// Splits the loop nests of one function, or none if memory that is a thread's
/// own would be read by another one.
class Splitter {
public:
  explicit Splitter(func::FuncOp function)
      : function(function), builder(function.getContext()) {}

  /// Whether the function is worth it.
  bool analyze() {
    // Of what lies on a stack, a thread has the elements of one loop.
    return analyze(/*mostLoops=*/std::numeric_limits<unsigned>::max()) ||
           analyze(/*mostLoops=*/1);
  }

  void split(func::FuncOp join) {
    addArguments();
    for (auto [index, nest] : llvm::enumerate(nests)) {
      builder.setInsertionPoint(nest.op);
      if (index != 0)
        func::CallOp::create(builder, nest.op->getLoc(), join, team);
      if (!nest.loop)
        runInFirst(nest.op);
      else if (auto loop = dyn_cast<scf::ForOp>(nest.op))
        shareIterations(loop, nest);
      else
        shareLoops(cast<linalg::LinalgOp>(nest.op), nest);
    }
  }

private:
  /// With up to `mostLoops` shared loops of a nest.
  bool analyze(unsigned mostLoops) {
    nests.clear();
    if (!function.getBody().hasOneBlock())
      return false;
    int64_t most = 0;
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (isMemoryEffectFree(&op) || isa<memref::AllocaOp>(op))
        continue;
      if (auto linalg = dyn_cast<linalg::LinalgOp>(op))
        nests.push_back(chooseLoops(linalg, mostLoops));
      else if (auto loop = dyn_cast<scf::ForOp>(op))
        nests.push_back(chooseLoop(loop));
      else
        return false;
      if (nests.back().loop)
        most = std::max(most, nests.back().iterations);
    }
    return most >= fewestIterations && areStacksPrivate();
  }

  /// The outermost loops that have enough iterations together, so that a
  /// thread's share lies in one piece, as those of the library's kernels do.
  Nest chooseLoops(linalg::LinalgOp op, unsigned mostLoops) {
    Nest nest{.op = op};
    SmallVector<int64_t> extents = op.getStaticLoopRanges();
    SmallVector<utils::IteratorType> types = op.getIteratorTypesArray();
    const unsigned count = extents.size();
    auto isFree = [&](unsigned index) {
      // A part of a short row fills no vector.
      bool isShortRow =
          index + 1 == count && count > 1 && extents[index] < fewestTurns;
      return types[index] == utils::IteratorType::parallel && !isShortRow;
    };
    for (unsigned first = 0; first < count; ++first) {
      nest.iterations *= extents[first];
      int64_t product = 1;
      unsigned end = first;
      for (; end < count && end - first < mostLoops && isFree(end) &&
             extents[first] > 1 && product < fewestTurns;
           ++end)
        product *= extents[end];
      if (product == 1 || nest.extent >= fewestTurns || product <= nest.extent)
        continue;
      nest.loop = first;
      nest.loops = end - first;
      nest.extent = product;
      nest.grain = end == count && product >= longLoop ? line : 1;
    }
    // What walks along an axis has loops inside.
    bool isWalk = !op->getRegion(0).getOps<LoopLikeOpInterface>().empty();
    if (isWalk)
      nest.iterations = std::max(nest.iterations, countMostElements());
    return nest;
  }

  /// A loop over rows, which have nothing to do with each other, or a nest of
  /// loops some of which are independent.
  Nest chooseLoop(scf::ForOp outermost) {
    Nest nest{.op = outermost};
    SmallVector<scf::ForOp> loops;
    getPerfectlyNestedLoops(loops, outermost);
    for (auto [depth, loop] : llvm::enumerate(loops)) {
      auto extent = getConstantIntValue(loop.getUpperBound());
      bool isFree = loop->hasAttr(pipeline::rowsAttrName) ||
                    loop->hasAttr(pipeline::independentAttrName);
      bool isBetter = nest.extent < fewestTurns && extent.value_or(0) > 1 &&
                      *extent > nest.extent;
      if (!isFree || !isBetter)
        continue;
      nest.loop = depth;
      nest.extent = *extent;
    }
    if (nest.loop)
      nest.iterations = countMostElements();
    if (nest.extent >= longLoop)
      nest.grain = line;
    return nest;
  }

  /// Of the function's operands and results.
  int64_t countMostElements() {
    int64_t most = 1;
    for (Type type : function.getArgumentTypes())
      most = std::max(most, cast<MemRefType>(type).getNumElements());
    return most;
  }

  /// What a thread writes to its stack, no other can read. So all nests that
  /// use an allocation must leave each thread the same elements of it.
  bool areStacksPrivate() {
    for (auto stack : function.getBody().front().getOps<memref::AllocaOp>()) {
      DenseMap<Operation *, SmallVector<OpOperand *>> uses;
      collectUses(stack, uses);
      if (uses.size() < 2)
        continue;
      std::optional<int64_t> extent;
      for (const Nest &nest : nests) {
        auto found = uses.find(nest.op);
        if (found == uses.end())
          continue;
        int64_t own = 0; // all elements are in the first thread
        if (nest.loop) {
          if (nest.loops > 1)
            return false;
          own = nest.extent;
          for (OpOperand *use : found->second)
            if (!isSharedAlong(nest, *use, stack.getType().getNumElements()))
              return false;
        }
        if (extent && *extent != own)
          return false;
        extent = own;
      }
    }
    return true;
  }

  /// The uses of a value and of views of it, by the nest they are in.
  void collectUses(Value value,
                   DenseMap<Operation *, SmallVector<OpOperand *>> &uses) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto view = dyn_cast<ViewLikeOpInterface>(user)) {
        collectUses(view->getResult(0), uses);
        continue;
      }
      while (user->getParentOp() != function)
        user = user->getParentOp();
      uses[user].push_back(&use);
    }
  }

  /// Whether iteration i of the shared loop uses the elements i of the first
  /// axis of all that was allocated.
  static bool isSharedAlong(const Nest &nest, OpOperand &use,
                            int64_t elements) {
    auto op = dyn_cast<linalg::LinalgOp>(use.getOwner());
    auto type = dyn_cast<MemRefType>(use.get().getType());
    if (!op || op != nest.op || !type || type.getRank() == 0 ||
        type.getNumElements() != elements || type.getDimSize(0) != nest.extent)
      return false;
    auto first =
        dyn_cast<AffineDimExpr>(op.getMatchingIndexingMap(&use).getResult(0));
    return first && first.getPosition() == *nest.loop;
  }

  void addArguments() {
    unsigned count = function.getNumArguments();
    Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
    Type number = builder.getI64Type();
    Location loc = function.getLoc();
    (void)function.insertArguments({count, count, count},
                                   {pointer, number, number}, {{}, {}, {}},
                                   {loc, loc, loc});
    team = function.getArgument(count);
    builder.setInsertionPointToStart(&function.getBody().front());
    auto asIndex = [&](unsigned argument) -> Value {
      return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                        function.getArgument(argument));
    };
    part = asIndex(count + 1);
    parts = asIndex(count + 2);
  }

  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(builder, function.getLoc(), value);
  }

  /// Where the share of thread `index` begins, or that of the one before ends.
  Value bound(Value index, const Nest &nest) {
    Location loc = function.getLoc();
    int64_t grains = llvm::divideCeil(nest.extent, nest.grain);
    Value before = arith::DivUIOp::create(
        builder, loc,
        arith::MulIOp::create(builder, loc, index, constant(grains)), parts);
    return arith::MinUIOp::create(
        builder, loc,
        arith::MulIOp::create(builder, loc, before, constant(nest.grain)),
        constant(nest.extent));
  }
  std::pair<Value, Value> share(const Nest &nest) {
    Value next =
        arith::AddIOp::create(builder, function.getLoc(), part, constant(1));
    return {bound(part, nest), bound(next, nest)};
  }

  void runInFirst(Operation *op) {
    Location loc = op->getLoc();
    Value isFirst = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, part, constant(0));
    auto only = scf::IfOp::create(builder, loc, isFirst);
    op->moveBefore(only.thenBlock(), only.thenBlock()->begin());
  }

  void shareIterations(scf::ForOp outermost, const Nest &nest) {
    SmallVector<scf::ForOp> loops;
    getPerfectlyNestedLoops(loops, outermost);
    auto [begin, end] = share(nest);
    loops[*nest.loop].setLowerBound(begin);
    loops[*nest.loop].setUpperBound(end);
  }

  /// Of loops i and j, of 4 and 8 iterations, a share of all 32 is
  ///
  ///   for i = begin floordiv 8 to end ceildiv 8
  ///     for j = max(0, begin - i * 8) to min(8, end - i * 8)
  void shareLoops(linalg::LinalgOp op, const Nest &nest) {
    auto [begin, end] = share(nest);
    SmallVector<int64_t> extents = op.getStaticLoopRanges();
    IRRewriter rewriter(builder);
    auto loops = linalg::linalgOpToAffineLoops(rewriter, op);
    assert(succeeded(loops) && "its operands are memrefs");
    int64_t inside = nest.extent;
    SmallVector<Value> outer;
    AffineExpr first = builder.getAffineSymbolExpr(0);
    AffineExpr zero = builder.getAffineConstantExpr(0);
    for (unsigned index = 0; index < nest.loops; ++index) {
      auto loop = cast<affine::AffineForOp>((*loops)[*nest.loop + index]);
      const int64_t extent = extents[*nest.loop + index];
      inside /= extent;
      SmallVector<AffineExpr> low{first.floorDiv(inside)};
      SmallVector<AffineExpr> high{first.ceilDiv(inside)};
      if (index > 0) {
        low.push_back(zero);
        high.push_back(zero + extent);
      }
      auto mapOf = [&](ArrayRef<AffineExpr> results) {
        return AffineMap::get(index, /*symbolCount=*/1, results,
                              builder.getContext());
      };
      SmallVector<Value> operands = outer;
      operands.push_back(begin);
      loop.setLowerBound(operands, mapOf(low));
      operands.back() = end;
      loop.setUpperBound(operands, mapOf(high));
      // What the next loop sees of the share.
      first = first - builder.getAffineDimExpr(index) * inside;
      outer.push_back(loop.getInductionVar());
    }
    op->erase();
  }

  func::FuncOp function;
  OpBuilder builder;
  SmallVector<Nest> nests;
  Value team, part, parts;
};

struct SplitKernels : pp::impl::SplitKernelsBase<SplitKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp join;
    for (auto function :
         llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      if (function.isExternal() ||
          function.getSymName() == optimizerBlockFunctionName)
        continue;
      Splitter splitter(function);
      if (!splitter.analyze())
        continue;
      if (!join) {
        OpBuilder builder(module.getBodyRegion());
        Type pointer = LLVM::LLVMPointerType::get(&getContext());
        join = func::FuncOp::create(builder, module.getLoc(),
                                    joinPartsFunctionName,
                                    builder.getFunctionType({pointer}, {}));
        join.setPrivate();
      }
      splitter.split(join);
    }
  }
};

} // namespace
