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

namespace pp {
#define GEN_PASS_DEF_SPLITKERNELS
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;
using namespace pp;

namespace {

/// Less than this, and threads wait for each other longer than they work.
constexpr int64_t fewestIterations = 1 << 14;
/// A loop with as many iterations is worth being shared.
constexpr int64_t fewestTurns = 16;
/// Shares of a longer loop begin at multiples of a cache line.
constexpr int64_t longLoop = 1024, line = 64;

/// An operation of a kernel's function that does something: a loop nest.
struct Nest {
  Operation *op;
  /// Which loop threads share, of how many iterations; none: one thread runs
  /// the nest.
  std::optional<unsigned> loop = std::nullopt;
  int64_t extent = 0;
  /// Of all loops.
  int64_t iterations = 1;
};

/// Splits the loop nests of one function, or none if memory that is a thread's
/// own would be read by another one.
class Splitter {
public:
  explicit Splitter(func::FuncOp function)
      : function(function), builder(function.getContext()) {}

  /// Whether the function is worth it.
  bool analyze() {
    if (!function.getBody().hasOneBlock())
      return false;
    int64_t most = 0;
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (isMemoryEffectFree(&op) || isa<memref::AllocaOp>(op))
        continue;
      if (auto linalg = dyn_cast<linalg::LinalgOp>(op))
        nests.push_back(chooseLoop(linalg));
      else if (auto loop = dyn_cast<scf::ForOp>(op))
        nests.push_back(chooseLoop(loop));
      else
        return false;
      if (nests.back().loop)
        most = std::max(most, nests.back().iterations);
    }
    return most >= fewestIterations && areStacksPrivate();
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
        shareLoop(cast<linalg::LinalgOp>(nest.op), nest);
    }
  }

private:
  Nest chooseLoop(linalg::LinalgOp op) {
    Nest nest{.op = op};
    SmallVector<int64_t> extents = op.getStaticLoopRanges();
    SmallVector<utils::IteratorType> types = op.getIteratorTypesArray();
    for (auto [index, extent] : llvm::enumerate(extents)) {
      nest.iterations *= extent;
      bool isBetter = nest.extent < fewestTurns && extent > nest.extent;
      // A part of a short row fills no vector.
      if (index + 1 == extents.size() && extents.size() > 1)
        isBetter &= extent >= fewestTurns;
      if (types[index] == utils::IteratorType::parallel && isBetter) {
        nest.loop = index;
        nest.extent = extent;
      }
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
  Value bound(Value index, int64_t extent) {
    Location loc = function.getLoc();
    int64_t grain = extent >= longLoop ? line : 1;
    int64_t grains = llvm::divideCeil(extent, grain);
    Value before = arith::DivUIOp::create(
        builder, loc,
        arith::MulIOp::create(builder, loc, index, constant(grains)), parts);
    return arith::MinUIOp::create(
        builder, loc,
        arith::MulIOp::create(builder, loc, before, constant(grain)),
        constant(extent));
  }
  std::pair<Value, Value> share(int64_t extent) {
    Value next =
        arith::AddIOp::create(builder, function.getLoc(), part, constant(1));
    return {bound(part, extent), bound(next, extent)};
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
    auto [begin, end] = share(nest.extent);
    loops[*nest.loop].setLowerBound(begin);
    loops[*nest.loop].setUpperBound(end);
  }

  void shareLoop(linalg::LinalgOp op, const Nest &nest) {
    auto [begin, end] = share(nest.extent);
    IRRewriter rewriter(builder);
    auto loops = linalg::linalgOpToAffineLoops(rewriter, op);
    assert(succeeded(loops) && "its operands are memrefs");
    auto loop = cast<affine::AffineForOp>((*loops)[*nest.loop]);
    AffineMap symbol = AffineMap::get(0, 1, builder.getAffineSymbolExpr(0));
    loop.setLowerBound(begin, symbol);
    loop.setUpperBound(end, symbol);
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
