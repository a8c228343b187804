//===- PlannerGraph.cpp - A step as a planning problem --------------------===//

#include "pp/Dialect/PP/Transforms/PlannerGraph.h"
#include "StepGraph.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

std::optional<size_t> PlannerGraph::kernelOf(Operation *op) const {
  auto origin = op->getAttrOfType<IntegerAttr>(originAttrName);
  auto found = origin ? byOrigin.find(origin.getInt()) : byOrigin.end();
  if (found == byOrigin.end())
    return std::nullopt;
  return found->second;
}

namespace {

class GraphBuilder {
public:
  GraphBuilder(func::FuncOp step, bool ignoreHints)
      : step(step), ignoreHints(ignoreHints) {
    result.replicated = findReplicatedKernels(step);
  }

  FailureOr<PlannerGraph> run() {
    for (Operation &op : step.getBody().front().without_terminator())
      if (isKernel(&op) && !result.replicated.contains(&op))
        if (failed(addKernel(&op)))
          return failure();
    if (result.operations.empty())
      return step.emitError("has no kernels to partition");
    for (Operation &op : step.getBody().front().without_terminator())
      addEdges(&op);
    return std::move(result);
  }

private:
  LogicalResult addKernel(Operation *op) {
    auto cost = op->getAttrOfType<CostAttr>(costAttrName);
    if (!cost)
      return op->emitOpError("has no cost; run pp-annotate-costs first");
    double seconds = cost.getSeconds().getValueAsDouble();
    if (getPhase(op) == Phase::forward) {
      addForwardKernel(op, seconds);
      return success();
    }
    auto index = result.kernelOf(op);
    if (!index)
      return op->emitOpError("belongs to no forward kernel");
    planner::Kernel &kernel = result.graph.kernels[*index];
    if (getPhase(op) == Phase::backward_input)
      kernel.backwardInputTime += seconds;
    else if (getPhase(op) == Phase::backward_weight)
      kernel.backwardWeightTime += seconds;
    return success();
  }

  void addForwardKernel(Operation *op, double seconds) {
    planner::Kernel kernel;
    kernel.name = getDisplayName(op);
    kernel.forwardTime = seconds;
    for (Value operand : op->getOperands())
      kernel.parameterBytes += parameterBytes(operand);
    kernel.savedBytes = savedBytes(op);
    if (auto hint = op->getAttrOfType<IntegerAttr>(stageHintAttrName);
        hint && !ignoreHints)
      kernel.stageHint = hint.getInt();
    if (auto origin = op->getAttrOfType<IntegerAttr>(originAttrName))
      result.byOrigin[origin.getInt()] = result.operations.size();
    result.operations.push_back(op);
    result.graph.addKernel(std::move(kernel));
  }

  int64_t parameterBytes(Value operand) {
    Value root = lookThroughViews(operand);
    auto kernel = root.getDefiningOp<KernelOpInterface>();
    if (!kernel || !kernel.getParameter() ||
        !counted.insert(kernel.getParameter().getValue()).second)
      return 0;
    return getTensorBytes(root.getType());
  }

  /// What of the kernel's results a later phase reads.
  static int64_t savedBytes(Operation *op) {
    int64_t bytes = 0;
    auto isSaved = [&](auto &self, Value value) -> bool {
      return llvm::any_of(value.getUsers(), [&](Operation *user) {
        if (isView(user))
          return self(self, user->getResult(0));
        return getPhase(user) != Phase::forward;
      });
    };
    for (Value result : op->getResults())
      if (isSaved(isSaved, result))
        bytes += getTensorBytes(result.getType());
    return bytes;
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
        addEdge(root, *producer, *reader, getPhase(maker) == Phase::forward);
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
    else if (reader < producer)
      graph.addEdge(reader, producer, 0, "gradient of " + name, bytes);
    else
      // A gradient for a later kernel: only inside of a stage.
      keepTogether(producer, reader);
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
  bool ignoreHints;
  PlannerGraph result;
  llvm::StringSet<> counted;
  int classes = 0;
};

} // namespace

FailureOr<PlannerGraph> pp::pipeline::buildPlannerGraph(ModuleOp module,
                                                        bool ignoreHints) {
  func::FuncOp step = findStep(module);
  if (!step)
    return failure();
  return GraphBuilder(step, ignoreHints).run();
}
