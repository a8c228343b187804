//===- OutlineStages.cpp - Collect the operations of each stage -----------===//

#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"
#include <set>

namespace pp::pipeline {
#define GEN_PASS_DEF_OUTLINESTAGES
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

/// One pp.stage in the making.
struct Part {
  int64_t stage;
  Phase phase;
  SmallVector<Operation *> operations;
};

class Outliner {
public:
  Outliner(ModuleOp module, func::FuncOp step, int64_t stages)
      : module(module), step(step), stages(stages),
        replicated(findReplicatedKernels(step)) {}

  LogicalResult run() {
    if (failed(collect()))
      return failure();
    findOwners();
    collectPreparation();
    for (int64_t stage = 0; stage < stages; ++stage)
      build(parts[{stage, Phase::Prepare}]);
    // F of stage 0, 1, ...; then, of stage p-1, p-2, ..., I and W; then U.
    for (int64_t stage = 0; stage < stages; ++stage)
      build(parts[{stage, Phase::Forward}]);
    for (int64_t stage = stages - 1; stage >= 0; --stage)
      for (Phase phase : {Phase::BackwardInput, Phase::BackwardWeight})
        build(parts[{stage, phase}]);
    for (int64_t stage = 0; stage < stages; ++stage)
      build(parts[{stage, Phase::Update}]);
    if (failed_)
      return failure();
    replaceReturns();
    eraseOutlined();
    return success();
  }

private:
  using Key = std::pair<int64_t, Phase>;

  LogicalResult collect() {
    for (int64_t stage = 0; stage < stages; ++stage)
      for (Phase phase : {Phase::Forward, Phase::BackwardInput,
                          Phase::BackwardWeight, Phase::Update, Phase::Prepare})
        parts[{stage, phase}] = {stage, phase, {}};
    bool ok = true;
    for (Operation &op : step.getBody().front().without_terminator()) {
      outlined.push_back(&op);
      if (isView(&op) || replicated.contains(&op))
        continue;
      auto stage = getStage(&op);
      if (!stage || *stage >= stages) {
        op.emitOpError("is on no stage; run pp-partition first");
        ok = false;
        continue;
      }
      if (isa<StashOp, PopOp>(op))
        continue;
      parts[{*stage, step::getPhase(&op)}].operations.push_back(&op);
      isTraining |= step::getPhase(&op) != Phase::Forward;
    }
    return success(ok);
  }

  /// A trained parameter lives on the stages that add up a part of its
  /// gradient; other stages receive its value with the activations.
  void findOwners() {
    for (auto &[key, part] : parts)
      for (Operation *op : part.operations)
        for (StateReference state :
             cast<KernelOpInterface>(op).getUpdatedStates())
          if (state.kind == StateKind::Gradient)
            owners[state.symbol.getValue()].insert(part.stage);
  }

  /// The first stage that has the parameter which `view` reads; none where
  /// `reader` has it too, or nobody trains it.
  std::optional<int64_t> lenderOf(Operation *view, int64_t reader) {
    FlatSymbolRefAttr symbol = cast<KernelOpInterface>(view).getParameter();
    auto found = symbol ? owners.find(symbol.getValue()) : owners.end();
    if (found == owners.end() || found->second.count(reader))
      return std::nullopt;
    return *found->second.begin();
  }

  /// A stage prepares what its phases read, if it has the parameters.
  void collectPreparation() {
    for (auto &[key, part] : parts)
      for (Operation *op : part.operations)
        for (Value operand : op->getOperands())
          prepare(operand, part.stage, /*isHanded=*/true);
    for (Operation *op : outlined)
      for (int64_t stage = 0; stage < stages; ++stage)
        if (prepared.contains({op, stage}))
          parts[{stage, Phase::Prepare}].operations.push_back(op);
  }

  /// Adds what is behind `value`; `isHanded` if another phase reads it.
  void prepare(Value value, int64_t stage, bool isHanded) {
    Operation *op = value.getDefiningOp();
    if (!op || !(isView(op) || replicated.contains(op)))
      return;
    bool isHere =
        step::getPhase(op) == Phase::Prepare && isKernel(op) && has(op, stage);
    if (isHere && isHanded)
      handed.insert({value, stage});
    if (isHere)
      prepared.insert({op, stage});
    // What many read is behind them on many ways.
    if (!visited.insert({op, 2 * stage + isHanded}).second)
      return;
    for (Value operand : op->getOperands())
      prepare(operand, stage, isHanded && !isHere);
  }

  /// False if the stage borrows one of the parameters behind the operation.
  bool has(Operation *op, int64_t stage) {
    if (auto known = owned.find({op, stage}); known != owned.end())
      return known->second;
    bool isOwned = !lenderOf(op, stage) &&
                   llvm::all_of(op->getOperands(), [&](Value operand) {
                     return has(operand.getDefiningOp(), stage);
                   });
    return owned[{op, stage}] = isOwned;
  }

  void build(Part &part) {
    // The parameters that other stages read leave with the forward phase of
    // their owner.
    SmallVector<Operation *> lent;
    if (part.phase == Phase::Forward)
      for (Operation *op : outlined)
        if (isView(op) && isLentBy(op, part.stage))
          lent.push_back(op);
    // A schedule runs B on every stage, also where nothing is left to do.
    bool isOptional = part.phase == Phase::Update ||
                      part.phase == Phase::Prepare ||
                      (part.phase != Phase::Forward && !isTraining);
    if (part.operations.empty() && isOptional)
      return;
    OpBuilder builder(step.getBody().front().getTerminator());
    llvm::SetVector<Value> inputs;
    SmallVector<Value> outputs;
    DenseSet<Operation *> members(part.operations.begin(),
                                  part.operations.end());
    DenseSet<Operation *> seen;
    for (Operation *op : part.operations) {
      for (Value operand : op->getOperands())
        collectInput(operand, part, members, seen, inputs);
      for (Value result : op->getResults())
        if (part.phase == Phase::Prepare ? handed.contains({result, part.stage})
                                         : isReadOutside(result, members))
          outputs.push_back(result);
    }
    for (Operation *op : lent)
      outputs.push_back(op->getResult(0));

    SmallVector<Value> operands;
    for (Value input : inputs)
      operands.push_back(available(builder, input, part));
    if (failed_)
      return;
    SmallVector<Type> types;
    SmallVector<Location> locations;
    for (Value output : outputs)
      types.push_back(output.getType());
    for (Operation *op : part.operations)
      if (!llvm::is_contained(locations, op->getLoc()))
        locations.push_back(op->getLoc());
    auto stage = StageOp::create(
        builder, locations.empty() ? step.getLoc() : locations.front(), types,
        part.stage, part.phase, operands);
    Block *body = builder.createBlock(&stage.getBody());
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
    for (Operation *op : part.operations) {
      for (Value operand : op->getOperands())
        cloneLeaf(builder, operand, mapping);
      Operation *clone = builder.clone(*op, mapping);
      clone->removeAttr(stageAttrName);
      clone->removeAttr(step::phaseAttrName);
      clone->removeAttr(step::originAttrName);
    }
    SmallVector<Value> returned;
    for (Value output : outputs) {
      cloneLeaf(builder, output, mapping);
      returned.push_back(mapping.lookup(output));
    }
    ReturnOp::create(builder, stage.getLoc(), returned);
    builder.setInsertionPointAfter(stage);
    for (auto [output, result] : llvm::zip(outputs, stage.getOutputs())) {
      if (part.phase == Phase::Prepare) {
        preparedPlaces[{output, part.stage}] = result;
        continue;
      }
      places[output] = result;
      stash(builder, output, result);
    }
  }

  /// Adds what `value` needs from outside of the part; `seen` are the views and
  /// replicated kernels behind which it has looked.
  void collectInput(Value value, Part &part, DenseSet<Operation *> &members,
                    DenseSet<Operation *> &seen,
                    llvm::SetVector<Value> &inputs) {
    Operation *op = value.getDefiningOp();
    if (op && members.contains(op))
      return;
    if (op && prepared.contains({op, part.stage})) {
      inputs.insert(value);
      return;
    }
    if (op && (isView(op) || replicated.contains(op))) {
      if (lenderOf(op, part.stage)) {
        inputs.insert(value);
        return;
      }
      if (!seen.insert(op).second)
        return;
      for (Value operand : op->getOperands())
        collectInput(operand, part, members, seen, inputs);
      return;
    }
    inputs.insert(value);
  }

  /// Copies views and replicated kernels into the body.
  void cloneLeaf(OpBuilder &builder, Value value, IRMapping &mapping) {
    if (mapping.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      cloneLeaf(builder, operand, mapping);
    Operation *clone = builder.clone(*op, mapping);
    clone->removeAttr(step::phaseAttrName);
    clone->removeAttr(step::originAttrName);
  }

  /// The value in the outlined function: an argument, a result of a stage, or
  /// what comes out of a portal.
  Value available(OpBuilder &builder, Value value, Part &part) {
    if (auto pop = value.getDefiningOp<PopOp>()) {
      Value &moved = places[value];
      if (!moved)
        moved = PopOp::create(builder, pop.getLoc(), pop.getType(),
                              pop.getPortalAttr());
      return moved;
    }
    if (isa<BlockArgument>(value))
      return value;
    if (Value own = preparedPlaces.lookup({value, part.stage}))
      return own;
    // A lent parameter that skips stages goes through a portal like any other
    // value.
    Value place = places.lookup(value);
    if (!place) {
      value.getDefiningOp()->emitError()
          << "stage " << part.stage << " reads this before it is computed";
      failed_ = true;
      return nullptr;
    }
    Operation *view = value.getDefiningOp();
    if (auto owner = isView(view) ? lenderOf(view, part.stage) : std::nullopt;
        owner && std::abs(part.stage - *owner) > 1)
      return lend(builder, value, place, *owner, part.stage);
    return place;
  }

  Value lend(OpBuilder &builder, Value value, Value place, int64_t owner,
             int64_t to) {
    Value &moved = lentTo[{value, to}];
    if (moved)
      return moved;
    std::string name = ("portal_" +
                        cast<KernelOpInterface>(value.getDefiningOp())
                            .getParameter()
                            .getValue() +
                        "_" + llvm::Twine(owner) + "_" + llvm::Twine(to))
                           .str();
    OpBuilder outside(step);
    auto portal = PortalOp::create(outside, value.getLoc(), name, owner, to,
                                   Phase::Forward, value.getType());
    SymbolTable(module).insert(portal);
    auto symbol = FlatSymbolRefAttr::get(portal.getSymNameAttr());
    outside.setInsertionPointAfter(place.getDefiningOp());
    StashOp::create(outside, value.getLoc(), symbol, place);
    moved = PopOp::create(builder, value.getLoc(), value.getType(), symbol);
    return moved;
  }

  void stash(OpBuilder &builder, Value value, Value place) {
    for (Operation *user : value.getUsers())
      if (auto old = dyn_cast<StashOp>(user))
        StashOp::create(builder, old.getLoc(), old.getPortalAttr(), place);
  }

  bool isReadOutside(Value value, const DenseSet<Operation *> &members) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (isView(user))
        return isReadOutside(user->getResult(0), members);
      return !members.contains(user);
    });
  }

  /// Whether a stage without the parameter reads that of `stage`.
  bool isLentBy(Operation *view, int64_t stage) {
    DenseSet<Value> seen;
    auto reads = [&](auto &self, Value value) -> bool {
      if (!seen.insert(value).second)
        return false;
      return llvm::any_of(value.getUsers(), [&](Operation *user) {
        if (isView(user) || replicated.contains(user))
          return llvm::any_of(user->getResults(),
                              [&](Value result) { return self(self, result); });
        auto userStage = getStage(user);
        return userStage && lenderOf(view, *userStage) == stage;
      });
    };
    return reads(reads, view->getResult(0));
  }

  /// The function's results are values of stages too, seen through views.
  void replaceReturns() {
    Operation *terminator = step.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    IRMapping mapping;
    for (OpOperand &operand : terminator->getOpOperands()) {
      Value root = lookThroughViews(operand.get());
      if (Value place = places.lookup(root))
        mapping.map(root, place);
      else if (isa<BlockArgument>(root))
        mapping.map(root, root);
      cloneLeaf(builder, operand.get(), mapping);
      operand.set(mapping.lookup(operand.get()));
    }
  }

  void eraseOutlined() {
    for (Operation *op : llvm::reverse(outlined)) {
      op->dropAllUses();
      op->erase();
    }
  }

  ModuleOp module;
  func::FuncOp step;
  int64_t stages;
  llvm::DenseSet<Operation *> replicated;
  std::map<Key, Part> parts;
  SmallVector<Operation *> outlined;
  llvm::StringMap<std::set<int64_t>> owners;
  DenseMap<Value, Value> places;
  /// By the stage that has the copy.
  DenseSet<std::pair<Operation *, int64_t>> prepared;
  /// By stage, and by whether another phase reads it: see prepare().
  DenseSet<std::pair<Operation *, int64_t>> visited;
  DenseMap<std::pair<Operation *, int64_t>, bool> owned; // see has()
  DenseSet<std::pair<Value, int64_t>> handed;
  DenseMap<std::pair<Value, int64_t>, Value> preparedPlaces;
  DenseMap<std::pair<Value, int64_t>, Value> lentTo;
  bool isTraining = false;
  bool failed_ = false;
};

struct OutlineStages : pipeline::impl::OutlineStagesBase<OutlineStages> {
  void runOnOperation() override {
    func::FuncOp step = findStep(getOperation());
    auto stages = getOperation()->getAttrOfType<IntegerAttr>(stagesAttrName);
    if (step && !stages)
      getOperation().emitError("has no stages; run pp-partition first");
    if (!step || !stages ||
        failed(Outliner(getOperation(), step, stages.getInt()).run()))
      signalPassFailure();
  }
};

} // namespace
