//===- FormKernels.cpp - Group operations into kernels --------------------===//

#include "CheapOperations.h"
#include "MainFunction.h"
#include "cpu/LibraryKernel.h"
#include "pp/Dialect/NN/IR/NNEpilogues.h"
#include "pp/Dialect/NN/IR/RowOperations.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/Step.h"

#include "llvm/ADT/MapVector.h"

namespace pp::nn {
#define GEN_PASS_DEF_FORMKERNELS
#include "pp/Dialect/NN/Transforms/Passes.h.inc"
} // namespace pp::nn

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// Operations in one kernel; larger groups compile slowly and gain nothing.
constexpr size_t maxGroupSize = 48;

/// Of a sum that a kernel adds to a gradient, and of what it makes anew.
constexpr uint64_t mostStackBytes = 32 << 10;

/// A kernel in the making, in program order.
struct Group {
  SmallVector<Operation *> operations;
  /// The shape that all of its elementwise operations run over.
  SmallVector<int64_t> shape;
  Phase phase;
  /// The forward kernel it belongs to; -1 in the forward phase.
  int64_t home;
  /// The stage that the model asks for; null if it does not.
  Attribute hint;
  bool open;
};

class KernelFormer {
public:
  KernelFormer(func::FuncOp function, const FormKernelsOptions &options)
      : function(function), options(options) {}

  LogicalResult run() {
    for (Operation &op : function.getBody().front()) {
      order[&op] = order.size();
      operations.push_back(&op);
    }
    if (failed(checkAll()))
      return failure();
    markMaterialized();
    // Forward first: backward operations are grouped by the forward kernel
    // that they belong to.
    for (Operation *op : operations)
      if (step::getPhase(op) == Phase::Forward)
        assign(op, -1);
    numberForwardKernels();
    for (Operation *op : operations)
      if (step::getPhase(op) != Phase::Forward)
        assign(op, homeOf(op));
    build();
    return success();
  }

private:
  //===--------------------------------------------------------------------===//
  // Kinds of operations
  //===--------------------------------------------------------------------===//

  static KernelClass classOf(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    return kernel ? kernel.getKernelClass() : KernelClass::View;
  }
  /// Stays outside of kernels: it touches state, or it is no code at all.
  static bool staysOutside(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    return !kernel || !kernel.getUpdatedStates().empty() ||
           (classOf(op) == KernelClass::View && !isCheap(op));
  }
  static bool isElementwise(Operation *op) {
    return op->hasTrait<OpTrait::Elementwise>();
  }
  static SmallVector<int64_t> iterationShape(Operation *op) {
    Value over = isa<ReduceOp>(op) ? op->getOperand(0) : op->getResult(0);
    return SmallVector<int64_t>(
        cast<RankedTensorType>(over.getType()).getShape());
  }

  /// Only contractions have generated code besides their library kernel.
  LogicalResult checkAll() {
    bool ok = true;
    for (Operation *op : operations) {
      if (isa<ConvOp, ConvBackwardInputOp, ConvBackwardWeightOp, MaxPoolOp,
              MaxPoolBackwardOp, AvgPoolOp, AvgPoolBackwardOp, BatchNormOp,
              BatchNormBackwardOp>(op) &&
          classOf(op) != KernelClass::Library) {
        op->emitOpError("has no kernel for these element types; only f32 is "
                        "supported");
        ok = false;
      }
    }
    return success(ok);
  }

  /// Whether the code of `user` reads memory, which a kernel with a copy of the
  /// cheap `op` has on its stack, and that is too much of it.
  static bool overflowsStack(Operation *op, Operation *user) {
    const bool isLoop =
        isElementwise(user) ||
        isa<ReduceOp, BroadcastOp, IotaOp, PresentRowsOp, UniformOp>(user);
    // An operation on rows reads what is widened.
    const bool isWidenedThere =
        isa<CastOp>(op) && isRowOperation(user) &&
        llvm::count(user->getOperands(), op->getResult(0)) == 1;
    return !isLoop && !isWidenedThere &&
           getTensorBytes(op->getResult(0).getType()) * user->getNumOperands() >
               mostStackBytes;
  }

  /// Finds the cheap operations that something outside of generated kernels
  /// reads, or that a stack is too small for: they need memory, so they become
  /// kernels themselves.
  void markMaterialized() {
    for (Operation *op : llvm::reverse(operations)) {
      if (!isCheap(op))
        continue;
      for (Operation *user : op->getUsers())
        if (staysOutside(user) || user->hasTrait<OpTrait::IsTerminator>() ||
            classOf(user) == KernelClass::Library || overflowsStack(op, user))
          materialized.insert(op);
    }
  }

  //===--------------------------------------------------------------------===//
  // Grouping
  //===--------------------------------------------------------------------===//

  void assign(Operation *op, int64_t home) {
    if (auto sum = dyn_cast<AccumulateOp>(op))
      if (Group *group = findSummand(sum, home))
        place(op, group);
    if (op->hasTrait<OpTrait::IsTerminator>() || staysOutside(op))
      return;
    if (groupOf.count(op) || (isCheap(op) && !materialized.contains(op)))
      return;
    Phase phase = step::getPhase(op);
    if (auto cast = dyn_cast<CastOp>(op)) {
      // Goes with its reader.
      if (Operation *rows = getRowsOfWidening(cast);
          rows && canShare(op, rows, phase))
        return;
      if (Operation *rows = getRowsOfNarrowing(cast);
          rows && canShare(op, rows, phase) &&
          groupOf.lookup(rows)->home == home &&
          !isReadBefore(groupOf.lookup(rows), op)) {
        place(op, groupOf.lookup(rows));
        return;
      }
    }
    bool fusible = isElementwise(op) || isa<ReduceOp>(op);
    if (classOf(op) == KernelClass::Library || !fusible) {
      Group *group = newGroup(op, phase, home, /*open=*/false);
      if (isRowOperation(op))
        for (Value operand : op->getOperands())
          if (auto cast = operand.getDefiningOp<CastOp>();
              cast && getRowsOfWidening(cast) && canShare(cast, op, phase) &&
              !groupOf.count(cast))
            place(cast, group);
      place(op, group);
      if (phase == Phase::Forward)
        placeEpilogue(op, group);
      return;
    }
    Group *group = findGroup(op, phase, home);
    if (!group)
      group = newGroup(op, phase, home, /*open=*/true);
    place(op, group);
    if (isa<ReduceOp>(op))
      group->open = false;
  }

  /// The epilogue behind `op` that its library takes in.
  std::optional<Epilogue>
  findTaken(Operation *op, llvm::function_ref<bool(Operation *)> mayJoin) {
    if (auto product = dyn_cast<DotGeneralOp>(op))
      return options.epilogues ? findEpilogue(product, mayJoin) : std::nullopt;
    auto conv = dyn_cast<ConvOp>(op);
    if (!conv || !options.convolutionEpilogues)
      return std::nullopt;
    runtime::setKernelThreads(1);
    auto isFused = [&](const Epilogue &epilogue) {
      return runtime::isFused(describeWithEpilogue(conv, epilogue));
    };
    auto epilogue = findEpilogue(conv, mayJoin, [&](Value residual) {
      return !llvm::is_contained(conv->getOperands(), residual) &&
             isTensor(residual);
    });
    if (epilogue && epilogue->residual &&
        (epilogue->residual == epilogue->bias || !isFused(*epilogue)))
      epilogue = findEpilogue(conv, mayJoin,
                              /*mayBeRead=*/[](Value) { return false; });
    return epilogue && isFused(*epilogue) ? epilogue : std::nullopt;
  }

  /// Whether generated kernels that read `value` have no copy of it.
  bool isTensor(Value value) {
    Operation *producer = value.getDefiningOp();
    return !producer || !isCheap(producer) || materialized.contains(producer);
  }

  /// Adds the bias and the activation that a library takes in with a product
  /// or a convolution. What follows in other phases or stages stays outside.
  void placeEpilogue(Operation *op, Group *group) {
    Attribute hint = group->hint;
    auto epilogue = findTaken(op, [&](Operation *next) {
      return !groupOf.count(next) && step::getPhase(next) == group->phase &&
             agrees(hint, next->getAttr(step::stageHintAttrName));
    });
    if (!epilogue)
      return;
    // The library wants tensors that are the kernel's inputs.
    Value bias = epilogue->bias;
    if (op->getOperand(0) == op->getOperand(1) ||
        llvm::is_contained(op->getOperands(), bias) ||
        (bias && materialized.contains(epilogue->broadcast)))
      return;
    if (bias && !isTensor(bias))
      return;
    // And no others.
    for (Operation *next : epilogue->operations)
      for (Value operand : next->getOperands())
        if (auto constant = operand.getDefiningOp<ConstantOp>();
            constant && materialized.contains(constant))
          return;
    for (Operation *next : epilogue->operations)
      place(next, group);
  }

  /// Whether the options let this operation add to a gradient.
  bool mayAdd(Operation *maker) {
    if (auto scatter = dyn_cast<ScatterAddOp>(maker))
      return options.accumulateFast && !scatter.describeSum().empty();
    if (options.accumulate || !options.accumulateFast ||
        classOf(maker) != KernelClass::Library)
      return options.accumulate;
    runtime::setKernelThreads(1);
    return runtime::addsInPlace(
        cast<KernelOpInterface>(maker).getLibraryDescriptor());
  }

  /// The group that can add what it computes to the gradient itself; null if
  /// there is none.
  Group *findSummand(AccumulateOp sum, int64_t home) {
    Operation *maker = sum.getValue().getDefiningOp();
    Group *group = maker ? groupOf.lookup(maker) : nullptr;
    if (!group || sum.getState() != State::gradient || !mayAdd(maker) ||
        !sum.getValue().hasOneUse() || group->home != home ||
        group->phase != step::getPhase(sum) ||
        !agrees(group->hint, sum->getAttr(step::stageHintAttrName)) ||
        isReadBefore(group, sum))
      return nullptr;
    for (Operation *member : group->operations)
      if (auto other = dyn_cast<AccumulateOp>(member);
          other && other.getSymbol() == sum.getSymbol())
        return nullptr;
    // The sum of the micro-batch is on the stack until it is added.
    if (auto reduce = dyn_cast<ReduceOp>(maker))
      return reduce.getReduction() == Reduction::sum &&
                     getTensorBytes(sum.getValue().getType()) <= mostStackBytes
                 ? group
                 : nullptr;
    // The library wants two factors.
    if (auto product = dyn_cast<DotGeneralOp>(maker))
      return group->operations.size() == 1 &&
                     classOf(maker) == KernelClass::Library &&
                     product.getLhs() != product.getRhs()
                 ? group
                 : nullptr;
    // The library takes tensors, no copies of what is cheap.
    if (isa<ScatterAddOp>(maker))
      return llvm::none_of(maker->getOperands(),
                           [&](Value operand) {
                             Operation *producer = operand.getDefiningOp();
                             return producer && isCheap(producer) &&
                                    !materialized.contains(producer);
                           })
                 ? group
                 : nullptr;
    if (isa<ConvBackwardWeightOp>(maker))
      return classOf(maker) == KernelClass::Library ? group : nullptr;
    return isElementwise(maker) ? group : nullptr;
  }

  Group *newGroup(Operation *op, Phase phase, int64_t home, bool open) {
    groups.push_back(std::make_unique<Group>());
    Group *group = groups.back().get();
    group->shape = iterationShape(op);
    group->phase = phase;
    group->home = home;
    group->hint = op->getAttr(step::stageHintAttrName);
    group->open = open;
    return group;
  }

  void place(Operation *op, Group *group) {
    group->operations.push_back(op);
    groupOf[op] = group;
    if (!group->hint)
      group->hint = op->getAttr(step::stageHintAttrName);
  }

  /// Operations that no node of the model stands for have no hint and go
  /// anywhere.
  static bool agrees(Attribute hint, Attribute other) {
    return !hint || !other || hint == other;
  }

  /// Whether a cast may go into the kernel of an operation on rows.
  static bool canShare(Operation *cast, Operation *rows, Phase phase) {
    return step::getPhase(cast) == phase && step::getPhase(rows) == phase &&
           agrees(cast->getAttr(step::stageHintAttrName),
                  rows->getAttr(step::stageHintAttrName));
  }

  /// The latest group that produces an operand of `op` and may take it in, with
  /// what the others do that may move down to it.
  Group *findGroup(Operation *op, Phase phase, int64_t home) {
    llvm::SmallSetVector<Group *, 4> candidates;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      // What is widened where it is read links the two.
      if (auto cast = dyn_cast_or_null<CastOp>(producer);
          cast && isCheap(cast) && !materialized.contains(cast))
        producer = cast.getInput().getDefiningOp();
      Group *group = producer ? groupOf.lookup(producer) : nullptr;
      if (group && group->open && group->phase == phase &&
          group->home == home && group->operations.size() < maxGroupSize &&
          agrees(group->hint, op->getAttr(step::stageHintAttrName)) &&
          group->shape == iterationShape(op) && !isReadBefore(group, op))
        candidates.insert(group);
    }
    Group *best = nullptr;
    for (Group *group : candidates)
      if (!best ||
          order[best->operations.back()] < order[group->operations.back()])
        best = group;
    for (Group *group : candidates)
      if (group != best && agrees(best->hint, group->hint) &&
          best->operations.size() + group->operations.size() < maxGroupSize)
        merge(group, best);
    return best;
  }

  /// Leaves `from` empty.
  void merge(Group *from, Group *to) {
    for (Operation *op : from->operations)
      groupOf[op] = to;
    to->operations.append(from->operations);
    llvm::sort(to->operations,
               [&](Operation *a, Operation *b) { return order[a] < order[b]; });
    if (!to->hint)
      to->hint = from->hint;
    from->operations.clear();
    from->open = false;
  }

  /// True if something outside of `group` and before `op` reads one of its
  /// values: then the group cannot move down to `op`.
  bool isReadBefore(Group *group, Operation *op) {
    auto reads = [&](auto &self, Operation *producer) -> bool {
      return llvm::any_of(producer->getUsers(), [&](Operation *user) {
        if (user == op || groupOf.lookup(user) == group)
          return false;
        if (isCheap(user) && !materialized.contains(user))
          return self(self, user);
        return order[user] < order[op];
      });
    };
    return llvm::any_of(group->operations, [&](Operation *member) {
      return reads(reads, member);
    });
  }

  //===--------------------------------------------------------------------===//
  // Homes of backward operations
  //===--------------------------------------------------------------------===//

  /// Numbers forward kernels in the order of their last operation, and finds
  /// for every forward operation the kernel it belongs to. A view belongs to
  /// the kernel that produces what it views, else to the first that reads it.
  void numberForwardKernels() {
    removeEmptyGroups();
    SmallVector<Group *> forward;
    for (auto &group : groups)
      forward.push_back(group.get());
    llvm::sort(forward, [&](Group *a, Group *b) {
      return order[a->operations.back()] < order[b->operations.back()];
    });
    for (auto [number, group] : llvm::enumerate(forward)) {
      kernelNumber[group] = number;
      for (Operation *op : group->operations)
        homes[op] = number;
    }
    for (Operation *op : operations)
      if (step::getPhase(op) == Phase::Forward && !homes.count(op))
        for (Value operand : op->getOperands())
          if (Operation *producer = operand.getDefiningOp())
            if (auto found = homes.find(producer); found != homes.end()) {
              int64_t home = found->second;
              homes[op] = home;
              break;
            }
    // Gradients flow from later kernels to earlier ones, so what several
    // kernels read belongs to the first of them.
    for (Operation *op : llvm::reverse(operations)) {
      if (step::getPhase(op) != Phase::Forward || homes.count(op))
        continue;
      std::optional<int64_t> first;
      for (Operation *user : op->getUsers())
        if (auto found = homes.find(user); found != homes.end())
          first = std::min(first.value_or(found->second), found->second);
      if (first)
        homes[op] = *first;
    }
    for (Operation *op : operations)
      if (auto origin = op->getAttrOfType<IntegerAttr>(step::originAttrName);
          origin && step::getPhase(op) == Phase::Forward)
        byOrigin[origin.getInt()] = op;
  }

  static bool isBackward(Operation *op) {
    Phase phase = step::getPhase(op);
    return phase == Phase::BackwardInput || phase == Phase::BackwardWeight;
  }

  int64_t homeOf(Operation *op) {
    auto origin = op->getAttrOfType<IntegerAttr>(step::originAttrName);
    if (!origin)
      return 0;
    // A deferred statistic is a forward operation that runs later; it belongs
    // to the kernel whose result it reads.
    Operation *from = byOrigin.lookup(origin.getInt());
    if (from && homes.count(from))
      return homes[from];
    // A commit belongs to where its statistics are added up.
    if (auto commit = dyn_cast<CommitStatisticsOp>(op))
      return statisticsHomes.lookup(commit.getMean());
    // Else it belongs where its operand is made. So the gradient of what is
    // prepared once per step stays with the kernel that reads what was
    // prepared.
    int64_t home = 0;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp()) {
        bool isKnown = homes.count(producer);
        if (isKnown || isBackward(producer)) {
          home = isKnown ? homes[producer] : homeOf(producer);
          break;
        }
      }
    homes[op] = home;
    if (auto accumulate = dyn_cast<AccumulateOp>(op);
        accumulate && accumulate.getState() == State::statistics)
      statisticsHomes[accumulate.getSymbol()] = home;
    return home;
  }

  //===--------------------------------------------------------------------===//
  // Building
  //===--------------------------------------------------------------------===//

  void removeEmptyGroups() {
    llvm::erase_if(groups,
                   [](const auto &group) { return group->operations.empty(); });
  }

  void build() {
    removeEmptyGroups();
    llvm::sort(groups, [&](const auto &a, const auto &b) {
      return order[a->operations.back()] < order[b->operations.back()];
    });
    for (auto &group : groups)
      buildKernel(*group);
    // Kernels hold copies of what was grouped and of the cheap operations.
    for (Operation *op : operations)
      if (isCheap(op) && !groupOf.count(op))
        replaced.push_back(op);
    llvm::sort(replaced,
               [&](Operation *a, Operation *b) { return order[a] > order[b]; });
    for (Operation *op : replaced) {
      assert(op->use_empty() && "a grouped operation still has a reader");
      homes.erase(op);
      op->erase();
    }
    // The others get the number of their kernel too.
    for (Operation &op : function.getBody().front().without_terminator())
      if (!isa<KernelOp>(op) && op.hasAttr(step::originAttrName))
        setOrigin(&op, step::getPhase(&op) == Phase::Forward ? homes.lookup(&op)
                                                             : homeOf(&op));
  }

  static void setOrigin(Operation *op, int64_t number) {
    op->setAttr(step::originAttrName,
                Builder(op->getContext()).getI64IntegerAttr(number));
  }

  void buildKernel(Group &group) {
    Operation *last = group.operations.back();
    OpBuilder builder(last);
    DenseSet<Operation *> members(group.operations.begin(),
                                  group.operations.end());
    // Inputs in the order in which the operations read them.
    llvm::SetVector<Value> inputs;
    auto collect = [&](auto &self, Operation *op) -> void {
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (producer && members.contains(producer))
          continue;
        if (producer && isCheap(producer) && !materialized.contains(producer))
          self(self, producer);
        else
          inputs.insert(operand);
      }
    };
    SmallVector<Location> locations;
    SmallVector<Value> outputs;
    for (Operation *op : group.operations) {
      collect(collect, op);
      if (!llvm::is_contained(locations, op->getLoc()))
        locations.push_back(op->getLoc());
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return isReadOutside(user, members);
            }))
          outputs.push_back(result);
    }
    // A library takes a tensor for each operand, also where two are the same,
    // and for each result, also where nothing reads it.
    SmallVector<Value> operands(inputs.begin(), inputs.end());
    if (group.operations.size() == 1 && classOf(last) == KernelClass::Library) {
      operands.assign(last->operand_begin(), last->operand_end());
      outputs.assign(last->result_begin(), last->result_end());
    }
    SmallVector<Type> types;
    for (Value output : outputs)
      types.push_back(output.getType());
    auto kernel = KernelOp::create(builder, builder.getFusedLoc(locations),
                                   types, operands);
    step::setPhase(kernel, group.phase);
    if (group.hint)
      kernel->setAttr(step::stageHintAttrName, group.hint);
    // What is prepared goes where it is read.
    if (group.phase != Phase::Prepare)
      setOrigin(kernel,
                group.home >= 0 ? group.home : kernelNumber.lookup(&group));

    Block *body = builder.createBlock(&kernel.getBody());
    IRMapping mapping;
    for (Value input : operands)
      mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
    auto cloneInto = [&](auto &self, Operation *op) -> void {
      for (Value operand : op->getOperands())
        if (!mapping.contains(operand))
          self(self, operand.getDefiningOp());
      Operation *clone = builder.clone(*op, mapping);
      clone->removeAttr(step::phaseAttrName);
      clone->removeAttr(step::originAttrName);
      clone->removeAttr(step::stageHintAttrName);
    };
    for (Operation *op : group.operations)
      cloneInto(cloneInto, op);
    SmallVector<Value> yielded;
    for (Value output : outputs)
      yielded.push_back(mapping.lookup(output));
    YieldOp::create(builder, kernel.getLoc(), yielded);

    // Readers inside of later kernels see the new values when they are built.
    for (auto [output, result] : llvm::zip(outputs, kernel.getResults())) {
      output.replaceUsesWithIf(result, [&](OpOperand &use) {
        return !members.contains(use.getOwner());
      });
    }
    order[kernel] = order[last];
    homes[kernel] = group.home >= 0 ? group.home : kernelNumber.lookup(&group);
    for (Operation *op : group.operations)
      if (auto origin = op->getAttrOfType<IntegerAttr>(step::originAttrName);
          origin && byOrigin.lookup(origin.getInt()) == op)
        byOrigin[origin.getInt()] = kernel;
    replaced.append(group.operations.begin(), group.operations.end());
  }

  bool isReadOutside(Operation *user, const DenseSet<Operation *> &members) {
    if (members.contains(user))
      return false;
    // A cheap reader is copied into the kernels of its own readers.
    if (isCheap(user) && !materialized.contains(user))
      return llvm::any_of(user->getUsers(), [&](Operation *next) {
        return isReadOutside(next, members);
      });
    return true;
  }

  func::FuncOp function;
  FormKernelsOptions options;
  SmallVector<Operation *> operations;
  DenseMap<Operation *, int64_t> order;
  DenseSet<Operation *> materialized;
  std::vector<std::unique_ptr<Group>> groups;
  DenseMap<Operation *, Group *> groupOf;
  DenseMap<Group *, int64_t> kernelNumber;
  DenseMap<Operation *, int64_t> homes;
  DenseMap<int64_t, Operation *> byOrigin;
  llvm::StringMap<int64_t> statisticsHomes;
  SmallVector<Operation *> replaced;
};

struct FormKernels : nn::impl::FormKernelsBase<FormKernels> {
  using FormKernelsBase::FormKernelsBase;
  void runOnOperation() override {
    FailureOr<func::FuncOp> function = findMain(getOperation());
    if (failed(function) ||
        failed(KernelFormer(*function, {epilogues, convolutionEpilogues,
                                        accumulate, accumulateFast})
                   .run()))
      signalPassFailure();
  }
};

} // namespace
