//===- Rematerialize.cpp - Compute cheap values again ---------------------===//

#include "MainFunction.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/Step.h"
#include "pp/Planner/Rematerialization.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <limits>

namespace pp::nn {
#define GEN_PASS_DEF_REMATERIALIZE
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

static constexpr double never = std::numeric_limits<double>::infinity();
/// More than all that can be saved.
static constexpr double tooMuch = 1e30;

static double sizeInBytes(Value value) {
  return static_cast<double>(getTensorBytes(value.getType()));
}

/// Each kernel that reads it has a copy of it anyway.
static bool isCopied(Operation *op) {
  return isa<ConstantOp, BroadcastOp, IotaOp, PresentRowsOp, UniformOp>(op);
}

/// What generated code of the kernel is a loop over elements, and no more.
static bool isLoop(KernelOp kernel) {
  return kernel.getKernelClass() == KernelClass::Generated &&
         llvm::all_of(kernel.getBody().front(), [](Operation &op) {
           return op.hasTrait<OpTrait::Elementwise>() || isCopied(&op) ||
                  isa<ReduceOp, AccumulateOp, YieldOp>(op);
         });
}

/// The bytes that a core reads or writes in the time of an operation on a
/// number of its result's size; measured with AVX-512, of a memory that moves
/// 10 GB/s for each core.
static double workOf(Operation *op) {
  double size = sizeInBytes(op->getResult(0)) / 4;
  if (isa<PowOp>(op))
    return 8 * size;
  if (isa<ErfOp, TanhOp, LogisticOp, SoftplusOp, GeluOp, ExpOp, Expm1Op, LogOp,
          Log1pOp, SinOp, CosOp, AtanOp>(op))
    return 3 * size;
  // A division by a constant is a product.
  if (isa<RemOp, SqrtOp, RsqrtOp>(op) ||
      (isa<DivOp>(op) && !op->getOperand(1).getDefiningOp<ConstantOp>()))
    return 3 * size;
  return size / 4;
}

namespace {

/// A forward kernel, and the backward kernels that may compute its values.
class KernelRematerializer {
public:
  KernelRematerializer(KernelOp kernel, bool weightsChange)
      : kernel(kernel), weightsChange(weightsChange) {}

  void run() {
    for (Operation *user : kernel->getUsers())
      if (isReader(user))
        readers.insert(cast<KernelOp>(user));
    if (readers.empty())
      return;
    findReadersOfValues();
    buildProblem();
    choice = planner::rematerialize(problem);
    if (!llvm::is_contained(choice.isRecomputed, true) || !findYielded())
      return;
    rebuildKernel();
    for (KernelOp reader : readers)
      recomputeIn(reader);
    kernel.erase();
  }

private:
  //===--------------------------------------------------------------------===//
  // The choice
  //===--------------------------------------------------------------------===//

  bool isReader(Operation *op) const {
    auto reader = dyn_cast<KernelOp>(op);
    Phase phase = step::getPhase(op);
    return reader &&
           (phase == Phase::BackwardInput || phase == Phase::BackwardWeight) &&
           op->getAttr(step::originAttrName) ==
               kernel->getAttr(step::originAttrName) &&
           isLoop(reader);
  }
  bool isReadAgain(OpResult result) const {
    return llvm::any_of(result.getUsers(),
                        [&](Operation *user) { return isReader(user); });
  }
  Value yieldedOf(OpResult result) {
    return kernel.getYield().getOperand(result.getResultNumber());
  }
  auto operations() { return kernel.getBody().front().without_terminator(); }

  /// Which of the readers need a value if all is computed again.
  void findReadersOfValues() {
    for (OpResult result : kernel->getResults())
      for (Operation *user : result.getUsers())
        if (isReader(user))
          readersOf[yieldedOf(result)].insert(user);
    for (Operation &op : llvm::reverse(operations()))
      for (Value result : op.getResults()) {
        const Readers needed = readersOf.lookup(result);
        for (Value operand : op.getOperands())
          readersOf[operand].insert(needed.begin(), needed.end());
      }
  }
  double countReaders(Value value) const {
    return static_cast<double>(readersOf.lookup(value).size());
  }

  /// Whether `value` is there in the backward phase whatever is chosen.
  bool isHeldAnyway(Value value) const {
    if (llvm::any_of(value.getUsers(), [&](Operation *user) {
          return step::getPhase(user) != Phase::Forward &&
                 !readers.contains(dyn_cast<KernelOp>(user));
        }))
      return true;
    Operation *producer = value.getDefiningOp();
    if (auto view = dyn_cast_or_null<ReshapeOp>(producer))
      return isHeldAnyway(view.getInput());
    return producer && (!isa<KernelOp>(producer) || isOfParameters(value));
  }
  static bool isOfParameters(Value value) {
    Operation *producer = value.getDefiningOp();
    if (auto view = dyn_cast_or_null<ReshapeOp>(producer))
      return isOfParameters(view.getInput());
    auto interface = dyn_cast_or_null<KernelOpInterface>(producer);
    return interface && (step::getPhase(producer) == Phase::Prepare ||
                         interface.getParameter());
  }
  static bool isReadForward(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return step::getPhase(user) == Phase::Forward;
    });
  }

  void addValue(Value value, double keep, double recompute,
                ValueRange operands) {
    planner::RematerializationProblem::Value entry{keep, recompute, {}, false};
    for (Value operand : operands)
      entry.operands.push_back(number.lookup(operand));
    number[value] = problem.values.size();
    problem.values.push_back(std::move(entry));
  }

  void buildProblem() {
    for (BlockArgument argument : kernel.getBody().getArguments()) {
      Value input = kernel.getInputs()[argument.getArgNumber()];
      const double times = countReaders(argument) + !isHeldAnyway(input);
      addValue(argument,
               weightsChange && isOfParameters(input)
                   ? tooMuch
                   : times * sizeInBytes(argument),
               never, {});
    }
    llvm::DenseMap<Value, OpResult> resultOf;
    for (OpResult result : kernel->getResults())
      resultOf.try_emplace(yieldedOf(result), result);
    for (Operation &op : operations())
      for (Value value : op.getResults()) {
        if (isCopied(&op)) {
          addValue(value, never, 0, op.getOperands());
          continue;
        }
        // Written, held, and read.
        double times = 2 + countReaders(value);
        if (OpResult result = resultOf.lookup(value)) {
          const bool isHeld = isHeldAnyway(result);
          times -= isHeld + (isHeld || isReadForward(result));
        }
        addValue(value, times * sizeInBytes(value),
                 op.hasTrait<OpTrait::Elementwise>()
                     ? countReaders(value) * workOf(&op)
                     : never,
                 op.getOperands());
      }
    for (OpResult result : kernel->getResults())
      if (isReadAgain(result))
        problem.values[number.lookup(yieldedOf(result))].isRead = true;
  }

  //===--------------------------------------------------------------------===//
  // The kernels
  //===--------------------------------------------------------------------===//

  bool isRecomputed(Value value) const {
    return choice.isRecomputed[number.lookup(value)];
  }

  /// Finds what the kernel yields from now on: what others read, and what is
  /// kept. False if that is nothing: each origin has a forward kernel.
  bool findYielded() {
    for (OpResult result : kernel->getResults())
      if (!isRecomputed(yieldedOf(result)) ||
          !llvm::all_of(result.getUsers(),
                        [&](Operation *user) { return isReader(user); }))
        yielded.insert(yieldedOf(result));
    for (Operation &op : operations())
      for (Value value : op.getResults())
        if (choice.isKept[number.lookup(value)])
          yielded.insert(value);
    return !yielded.empty();
  }

  /// Makes the kernel that yields this. What is to be recomputed is still read
  /// from the old one.
  void rebuildKernel() {
    SmallVector<Type> types;
    for (Value value : yielded)
      types.push_back(value.getType());
    for (OpResult result : kernel->getResults())
      oldYielded.push_back(yieldedOf(result));
    OpBuilder builder(kernel);
    rebuilt =
        KernelOp::create(builder, kernel.getLoc(), types, kernel.getInputs());
    rebuilt->setDiscardableAttrs(kernel->getDiscardableAttrDictionary());
    rebuilt.getBody().takeBody(kernel.getBody());
    rebuilt.getYield().getValuesMutable().assign(yielded.getArrayRef());
    for (auto [result, value] : llvm::zip(kernel->getResults(), oldYielded))
      if (yielded.contains(value))
        result.replaceUsesWithIf(
            getKept(value), [&, value = value](OpOperand &use) {
              return !isRecomputed(value) || !isReader(use.getOwner());
            });
  }

  /// Where `value` of the kernel's body is kept.
  Value getKept(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return rebuilt.getInputs()[argument.getArgNumber()];
    return rebuilt->getResult(llvm::find(yielded, value) - yielded.begin());
  }

  void recomputeIn(KernelOp reader) {
    Block &body = reader.getBody().front();
    OpBuilder builder(reader.getContext());
    builder.setInsertionPointToStart(&body);
    IRMapping mapping;
    auto argumentFor = [&](Value input) -> Value {
      auto inputs = reader.getInputs();
      if (auto found = llvm::find(inputs, input); found != inputs.end())
        return body.getArgument(found - inputs.begin());
      reader.getInputsMutable().append(input);
      return body.addArgument(input.getType(), input.getLoc());
    };
    auto provide = [&](auto &self, Value value) -> Value {
      if (Value there = mapping.lookupOrNull(value))
        return there;
      if (!isRecomputed(value)) {
        mapping.map(value, argumentFor(getKept(value)));
      } else {
        Operation *op = value.getDefiningOp();
        for (Value operand : op->getOperands())
          self(self, operand);
        builder.clone(*op, mapping);
      }
      return mapping.lookup(value);
    };
    for (unsigned i = 0; i < body.getNumArguments(); ++i) {
      auto result = dyn_cast<OpResult>(reader.getInputs()[i]);
      if (result && result.getOwner() == kernel &&
          isRecomputed(oldYielded[result.getResultNumber()]))
        body.getArgument(i).replaceAllUsesWith(
            provide(provide, oldYielded[result.getResultNumber()]));
    }
    for (unsigned i = body.getNumArguments(); i-- > 0;)
      if (body.getArgument(i).use_empty()) {
        body.eraseArgument(i);
        reader.getInputsMutable().erase(i);
      }
  }

  using Readers = llvm::SmallPtrSet<Operation *, 2>;

  KernelOp kernel, rebuilt;
  const bool weightsChange;
  llvm::SetVector<KernelOp> readers;
  llvm::DenseMap<Value, Readers> readersOf;
  llvm::DenseMap<Value, size_t> number;
  planner::RematerializationProblem problem;
  planner::Rematerialization choice;
  llvm::SetVector<Value> yielded;
  SmallVector<Value> oldYielded; // by result
};

struct Rematerialize : nn::impl::RematerializeBase<Rematerialize> {
  using RematerializeBase::RematerializeBase;
  void runOnOperation() override {
    FailureOr<func::FuncOp> function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    for (auto kernel : llvm::make_early_inc_range(function->getOps<KernelOp>()))
      if (step::getPhase(kernel) == Phase::Forward && isLoop(kernel))
        KernelRematerializer(kernel, weightsChange).run();
  }
};

} // namespace
