//===- PlannerGraph.cpp - A step as a planning problem --------------------===//

#include "pp/Dialect/PP/Transforms/PlannerGraph.h"
#include "LibraryScratchpad.h"
#include "StepGraph.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pprt/pprt.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

std::optional<size_t> PlannerGraph::kernelOf(Operation *op) const {
  auto origin = op->getAttrOfType<IntegerAttr>(step::originAttrName);
  auto found = origin ? byOrigin.find(origin.getInt()) : byOrigin.end();
  if (found == byOrigin.end())
    return std::nullopt;
  return found->second;
}

namespace {

class GraphBuilder {
public:
  GraphBuilder(func::FuncOp step, PlannerGraphOptions options)
      : step(step), options(options) {
    result.replicated = findReplicatedKernels(step);
    for (Operation &op : step.getBody().front().without_terminator())
      if (auto kernel = dyn_cast<KernelOpInterface>(op))
        for (const StateReference &state : kernel.getUpdatedStates())
          if (state.part > 0)
            tied.insert(state.symbol.getValue());
  }

  FailureOr<PlannerGraph> run() {
    // A kernel of a backward phase that reads nothing may stand before the
    // forward kernel that it belongs to.
    for (bool isForward : {true, false})
      for (Operation &op : step.getBody().front().without_terminator())
        if (isKernel(&op) && !result.replicated.contains(&op) &&
            (step::getPhase(&op) == Phase::Forward) == isForward)
          if (failed(addKernel(&op)))
            return failure();
    if (result.operations.empty())
      return step.emitError("has no kernels to partition");
    for (Operation &op : step.getBody().front().without_terminator())
      if (step::getPhase(&op) == Phase::Prepare &&
          result.replicated.contains(&op) && failed(addPreparation(&op)))
        return failure();
    for (Operation &op : step.getBody().front().without_terminator())
      addEdges(&op);
    keepWithParameters();
    if (options.wholeNodes)
      keepNodesWhole();
    return std::move(result);
  }

private:
  LogicalResult addKernel(Operation *op) {
    auto cost = op->getAttrOfType<CostAttr>(costAttrName);
    if (!cost)
      return op->emitOpError("has no cost; run pp-annotate-costs first");
    double seconds = cost.getSeconds().getValueAsDouble();
    auto workspace = workspaceBytes(op);
    if (failed(workspace))
      return failure();
    if (step::getPhase(op) == Phase::Forward) {
      addForwardKernel(op, seconds);
      result.graph.kernels.back().workspaceBytes = *workspace;
      return success();
    }
    auto index = result.kernelOf(op);
    if (!index)
      return op->emitOpError("belongs to no forward kernel");
    planner::Kernel &kernel = result.graph.kernels[*index];
    kernel.savedBytes += savedBytes(op);
    kernel.workspaceBytes = std::max(kernel.workspaceBytes, *workspace);
    if (step::getPhase(op) == Phase::BackwardInput)
      kernel.backwardInputTime += seconds;
    else if (step::getPhase(op) == Phase::BackwardWeight)
      kernel.backwardWeightTime += seconds;
    return success();
  }

  /// What is computed once per step counts for the first kernel that reads it.
  LogicalResult addPreparation(Operation *op) {
    auto cost = op->getAttrOfType<CostAttr>(costAttrName);
    if (!cost)
      return op->emitOpError("has no cost; run pp-annotate-costs first");
    std::optional<size_t> reader = firstReader(op);
    if (!reader)
      return success();
    planner::Kernel &kernel = result.graph.kernels[*reader];
    kernel.prepareTime += cost.getSeconds().getValueAsDouble();
    kernel.preparedBytes += savedBytes(op);
    return success();
  }

  std::optional<size_t> firstReader(Operation *op) const {
    std::optional<size_t> first;
    for (Operation *user : op->getUsers()) {
      bool isCopied = isView(user) || result.replicated.contains(user);
      auto reader = isCopied ? firstReader(user) : result.kernelOf(user);
      if (reader)
        first = std::min(first.value_or(*reader), *reader);
    }
    return first;
  }

  void addForwardKernel(Operation *op, double seconds) {
    planner::Kernel kernel;
    kernel.name = getDisplayName(op);
    kernel.forwardTime = seconds;
    for (Value operand : op->getOperands())
      kernel.parameterBytes += parameterBytes(operand);
    kernel.savedBytes = savedBytes(op);
    if (auto hint = op->getAttrOfType<IntegerAttr>(step::stageHintAttrName);
        hint && !options.ignoreHints)
      kernel.stageHint = hint.getInt();
    if (auto origin = op->getAttrOfType<IntegerAttr>(step::originAttrName))
      result.byOrigin[origin.getInt()] = result.operations.size();
    result.operations.push_back(op);
    result.graph.addKernel(std::move(kernel));
  }

  int64_t parameterBytes(Value operand) {
    Value root = lookThroughViews(operand);
    auto kernel = root.getDefiningOp<KernelOpInterface>();
    if (!kernel)
      return 0;
    // What is made of parameters alone is where its readers are.
    int64_t bytes = 0;
    if (result.replicated.contains(kernel))
      for (Value behind : kernel->getOperands())
        bytes += parameterBytes(behind);
    if (!kernel.getParameter())
      return bytes;
    // Each stage with a reader of a tied parameter has it.
    StringRef name = kernel.getParameter().getValue();
    if (!counted.insert(name).second && !tied.contains(name))
      return bytes;
    return getTensorBytes(root.getType());
  }

  /// True if a later phase than that of its maker reads the value.
  static bool isSaved(Value value, Phase phase) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return isView(user) ? isSaved(user->getResult(0), phase)
                          : step::getPhase(user) != phase;
    });
  }

  static int64_t alignedBytes(Value value) {
    return llvm::alignTo(getTensorBytes(value.getType()), PP_ALIGNMENT);
  }

  /// What of the operation's results stays in memory for later phases.
  static int64_t savedBytes(Operation *op) {
    int64_t bytes = 0;
    for (Value result : op->getResults())
      if (isSaved(result, step::getPhase(op)))
        bytes += alignedBytes(result);
    return bytes;
  }

  /// Memory that only this phase uses while the operation runs: its operands,
  /// results and scratchpad. What else is alive meanwhile is not known before
  /// the stages are.
  FailureOr<int64_t> workspaceBytes(Operation *op) {
    int64_t bytes = 0;
    llvm::SmallPtrSet<Value, 8> seen;
    auto add = [&](Value value) {
      Operation *maker = value.getDefiningOp();
      if (maker && isKernel(maker) && seen.insert(value).second &&
          step::getPhase(maker) == step::getPhase(op) &&
          !isSaved(value, step::getPhase(op)))
        bytes += alignedBytes(value);
    };
    for (Value operand : op->getOperands())
      add(lookThroughViews(operand));
    for (Value value : op->getResults())
      add(value);
    auto kernel = cast<KernelOpInterface>(op);
    if (!options.scratchpads || kernel.getKernelClass() != KernelClass::Library)
      return bytes;
    auto scratchpad = getScratchpadBytes(op, kernel.getLibraryDescriptor());
    if (failed(scratchpad))
      return failure();
    return bytes + *scratchpad;
  }

  /// A forward kernel reads from earlier ones. The backward part of a kernel
  /// reads gradients from the backward parts of others: those of kernels that
  /// read its result, or whose gradient is added to its own. Such a gradient
  /// is an edge against its direction, so that stages, which run backwards in
  /// the reverse order, find it.
  void addEdges(Operation *op) {
    auto reader = result.kernelOf(op);
    if (!isKernel(op) || result.replicated.contains(op) || !reader)
      return;
    for (Value operand : op->getOperands()) {
      Value root = lookThroughViews(operand);
      Operation *maker = root.getDefiningOp();
      if (!maker || !isKernel(maker) || result.replicated.contains(maker))
        continue;
      auto producer = result.kernelOf(maker);
      if (producer && *producer != *reader)
        addEdge(root, *producer, *reader,
                step::getPhase(maker) == Phase::Forward);
    }
  }

  void addEdge(Value value, size_t producer, size_t reader, bool isForward) {
    planner::Graph &graph = result.graph;
    int64_t bytes = getTensorBytes(value.getType());
    unsigned number = cast<OpResult>(value).getResultNumber();
    std::string name =
        graph.kernels[producer].name + ":" + std::to_string(number);
    if (isForward && producer < reader)
      graph.addEdge(producer, reader, bytes, name);
    else if (!isForward && reader < producer)
      graph.addEdge(reader, producer, 0, "gradient of " + name, bytes);
    else
      // A gradient for a later kernel, or what the backward part of an earlier
      // one reads (nn-join-products): only inside of a stage.
      keepTogether(producer, reader);
  }

  /// A parameter is where its gradient is made, and leaves from there with the
  /// activations, to later stages only: what reads it sooner, as a product of
  /// nn-join-products can, stays with the first that makes a gradient.
  void keepWithParameters() {
    llvm::StringMap<size_t> trainers;
    auto forEachKernel = [&](auto &&function) {
      for (Operation &op : step.getBody().front().without_terminator())
        if (auto index = result.kernelOf(&op);
            index && isKernel(&op) && !result.replicated.contains(&op))
          function(&op, *index);
    };
    forEachKernel([&](Operation *op, size_t index) {
      for (StateReference state :
           cast<KernelOpInterface>(op).getUpdatedStates()) {
        if (state.kind != StateKind::Gradient)
          continue;
        auto [first, isNew] =
            trainers.try_emplace(state.symbol.getValue(), index);
        first->second = std::min(first->second, index);
      }
    });
    forEachKernel([&](Operation *op, size_t index) {
      for (StringRef name : parametersBehind(op))
        if (auto first = trainers.find(name);
            first != trainers.end() && first->second > index)
          keepTogether(first->second, index);
    });
  }

  /// Those that a kernel reads itself, through views and what is repeated on
  /// each stage.
  SmallVector<StringRef> parametersBehind(Operation *kernel) const {
    SmallVector<StringRef> names;
    SmallVector<Value> open(kernel->getOperands());
    llvm::SmallPtrSet<Operation *, 8> seen;
    while (!open.empty()) {
      auto op = open.pop_back_val().getDefiningOp<KernelOpInterface>();
      if (!op || !(isView(op) || result.replicated.contains(op)) ||
          !seen.insert(op).second)
        continue;
      if (FlatSymbolRefAttr parameter = op.getParameter())
        names.push_back(parameter.getValue());
      llvm::append_range(open, op->getOperands());
    }
    return names;
  }

  void keepNodesWhole() {
    DenseMap<StringAttr, size_t> first;
    for (auto [index, op] : llvm::enumerate(result.operations))
      op->getLoc()->walk([&, index = index](Location location) {
        if (auto name = dyn_cast<NameLoc>(location)) {
          auto [entry, isNew] = first.try_emplace(name.getName(), index);
          if (entry->second != index)
            keepTogether(entry->second, index);
        }
        return WalkResult::advance();
      });
  }

  void keepTogether(size_t a, size_t b) {
    planner::Kernel &first = result.graph.kernels[a];
    planner::Kernel &second = result.graph.kernels[b];
    int from = second.colocationClass, to = first.colocationClass;
    if (to < 0)
      to = first.colocationClass = from >= 0 ? from : classes++;
    second.colocationClass = to;
    if (from >= 0 && from != to)
      for (planner::Kernel &kernel : result.graph.kernels)
        if (kernel.colocationClass == from)
          kernel.colocationClass = to;
  }

  func::FuncOp step;
  PlannerGraphOptions options;
  PlannerGraph result;
  llvm::StringSet<> counted, tied;
  int classes = 0;
};

} // namespace

FailureOr<PlannerGraph>
pp::pipeline::buildPlannerGraph(ModuleOp module, PlannerGraphOptions options) {
  func::FuncOp step = findStep(module);
  if (!step)
    return failure();
  return GraphBuilder(step, options).run();
}
