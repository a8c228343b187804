//===- HoistPreparation.cpp - Compute once what parameters alone decide ---===//
//
//   %w16 = nn.cast %w            ──▶   %w16 = nn.cast %w {step.phase = prepare}
//   use %w16 in forward                use %w16 in forward
//   %again = nn.cast %w                use %w16 in backward_input
//   use %again in backward_input
//
// Parameters do not change within a step, so neither does what is computed of
// them alone: it is not a part of any micro-batch.
//
//===----------------------------------------------------------------------===//

#include "CheapOperations.h"
#include "MainFunction.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/SmallPtrSet.h"

namespace pp::nn {
#define GEN_PASS_DEF_HOISTPREPARATION
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

/// What is larger, against what it is made of, costs more memory than it saves
/// time; a cast to a type of twice the size is the largest that is moved.
static constexpr uint64_t largestGrowth = 2;

namespace {

class Hoister {
public:
  explicit Hoister(func::FuncOp function) : block(function.getBody().front()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      if (isHoisted(&op))
        hoist(&op);
  }

private:
  static KernelClass classOf(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    return kernel ? kernel.getKernelClass() : KernelClass::View;
  }

  /// What needs no place of its own: views, and what readers have copies of.
  static bool isPlaceless(Operation *op) {
    return classOf(op) == KernelClass::View || isCheap(op);
  }

  //===--------------------------------------------------------------------===//
  // What is hoisted
  //===--------------------------------------------------------------------===//

  static bool isHoisted(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    return kernel && !isPlaceless(op) && kernel.getUpdatedStates().empty() &&
           op->getNumOperands() != 0 &&
           llvm::all_of(op->getOperands(), isReady) &&
           bytesOf(op->getResults()) <= largestGrowth * bytesRead(op) &&
           !isReturned(op);
  }

  /// Whether a value is there when the phase runs.
  static bool isReady(Value value) {
    Operation *producer = value.getDefiningOp();
    if (!producer || !isa<KernelOpInterface>(producer))
      return false;
    return isPlaceless(producer)
               ? llvm::all_of(producer->getOperands(), isReady)
               : step::getPhase(producer) == Phase::Prepare;
  }

  static uint64_t bytesOf(ValueRange values) {
    uint64_t bytes = 0;
    for (Value value : values)
      bytes += getTensorBytes(value.getType());
    return bytes;
  }

  /// What lies in memory of the values behind the operands, each once.
  static uint64_t bytesRead(Operation *op) {
    llvm::SmallPtrSet<Value, 4> read;
    uint64_t bytes = 0;
    auto add = [&](auto &self, Operation *reader) -> void {
      for (Value operand : reader->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (isCheap(producer))
          self(self, producer);
        else if (read.insert(operand).second)
          bytes += getTensorBytes(operand.getType());
      }
    };
    add(add, op);
    return bytes;
  }

  /// Results of a step are made for each micro-batch.
  static bool isReturned(Operation *op) {
    return llvm::any_of(op->getUsers(), [](Operation *user) {
      return user->hasTrait<OpTrait::IsTerminator>() ||
             (classOf(user) == KernelClass::View && isReturned(user));
    });
  }

  void hoist(Operation *op) {
    SmallVector<Operation *> &others = hoisted[rootOf(op->getOperand(0))];
    for (Operation *other : others)
      if (areEqual(other, op)) {
        op->replaceAllUsesWith(other);
        op->erase();
        return;
      }
    others.push_back(op);
    // It has the stages of its readers.
    op->removeAttr(step::originAttrName);
    op->removeAttr(step::stageHintAttrName);
    step::setPhase(op, Phase::Prepare);
    prepareOperands(op);
  }

  static bool readsCheap(Operation *op) {
    return isCheap(op) ||
           (isPlaceless(op) && llvm::any_of(op->getOperands(), [](Value value) {
              return readsCheap(value.getDefiningOp());
            }));
  }

  /// Gives `op` its own copies of what is cheap: where a library or a view
  /// reads them, they get a place after all, which must be filled as early.
  static void prepareOperands(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      auto value = cast<OpResult>(operand.get());
      Operation *producer = value.getOwner();
      if (!isPlaceless(producer) || !readsCheap(producer))
        continue;
      Operation *copy = OpBuilder(producer).clone(*producer);
      copy->removeAttr(step::originAttrName);
      copy->removeAttr(step::stageHintAttrName);
      step::setPhase(copy, Phase::Prepare);
      operand.set(copy->getResult(value.getResultNumber()));
      prepareOperands(copy);
      if (producer->use_empty())
        producer->erase();
    }
  }

  //===--------------------------------------------------------------------===//
  // Equal operations
  //===--------------------------------------------------------------------===//

  /// The first value behind `value` that has a place; a leaf stays.
  static Value rootOf(Value value) {
    while (isPlaceless(value.getDefiningOp()) &&
           value.getDefiningOp()->getNumOperands() != 0)
      value = value.getDefiningOp()->getOperand(0);
    return value;
  }

  /// Phases, origins and stages are those of readers, of which there are
  /// several.
  static SmallVector<NamedAttribute> attributesOf(Operation *op) {
    SmallVector<NamedAttribute> attributes;
    for (NamedAttribute attribute : op->getDiscardableAttrs())
      if (attribute.getName() != step::phaseAttrName &&
          attribute.getName() != step::originAttrName &&
          attribute.getName() != step::stageHintAttrName)
        attributes.push_back(attribute);
    return attributes;
  }

  static bool areEqual(Operation *a, Operation *b) {
    return a->getName() == b->getName() &&
           a->getResultTypes() == b->getResultTypes() &&
           a->getNumOperands() == b->getNumOperands() &&
           a->getPropertiesAsAttribute() == b->getPropertiesAsAttribute() &&
           attributesOf(a) == attributesOf(b) &&
           llvm::all_of(llvm::zip(a->getOperands(), b->getOperands()),
                        [](auto pair) {
                          auto [left, right] = pair;
                          return left == right || areEqualViews(left, right);
                        });
  }

  static bool areEqualViews(Value a, Value b) {
    Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
    return isPlaceless(left) && isPlaceless(right) && areEqual(left, right);
  }

  Block &block;
  /// By the value behind the first operand, in order.
  DenseMap<Value, SmallVector<Operation *>> hoisted;
};

struct HoistPreparation : nn::impl::HoistPreparationBase<HoistPreparation> {
  void runOnOperation() override {
    auto function = findMain(getOperation());
    if (failed(function))
      return signalPassFailure();
    Hoister(*function).run();
  }
};

} // namespace
