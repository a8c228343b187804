//===- Partition.cpp - Place every kernel on a stage ----------------------===//

#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Planner/Partition/ChainPartitioner.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_PARTITION
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

/// Translates the step into a planner graph whose nodes are the forward
/// kernels, each with the backward kernels that belong to it.
class GraphBuilder {
public:
  explicit GraphBuilder(func::FuncOp step)
      : step(step), replicated(findReplicatedKernels(step)) {}

  LogicalResult run(bool ignoreHints) {
    for (Operation &op : step.getBody().front().without_terminator())
      if (isKernel(&op) && !replicated.contains(&op)) {
        if (failed(addKernel(&op, ignoreHints)))
          return failure();
      }
    if (nodes.empty())
      return step.emitError("has no kernels to partition");
    for (Operation &op : step.getBody().front().without_terminator())
      addEdges(&op);
    return success();
  }

  /// The node that a placed operation belongs to.
  std::optional<size_t> nodeOf(Operation *op) const {
    auto origin = op->getAttrOfType<IntegerAttr>(originAttrName);
    if (!origin)
      return std::nullopt;
    auto found = byOrigin.find(origin.getInt());
    if (found == byOrigin.end())
      return std::nullopt;
    return found->second;
  }

  planner::Graph graph;
  SmallVector<Operation *> nodes;

private:
  LogicalResult addKernel(Operation *op, bool ignoreHints) {
    auto cost = op->getAttrOfType<CostAttr>(costAttrName);
    auto origin = op->getAttrOfType<IntegerAttr>(originAttrName);
    if (!cost)
      return op->emitOpError("has no cost; run pp-annotate-costs first");
    double seconds = cost.getSeconds().getValueAsDouble();
    if (getPhase(op) == Phase::forward) {
      planner::Kernel kernel;
      kernel.name = getDisplayName(op);
      kernel.forwardTime = seconds;
      for (Value operand : op->getOperands())
        kernel.parameterBytes += parameterBytes(operand);
      kernel.savedBytes = savedBytes(op);
      if (auto hint = op->getAttrOfType<IntegerAttr>(stageHintAttrName);
          hint && !ignoreHints)
        kernel.stageHint = hint.getInt();
      if (origin)
        byOrigin[origin.getInt()] = nodes.size();
      indexOf[op] = nodes.size();
      nodes.push_back(op);
      graph.addKernel(std::move(kernel));
      return success();
    }
    auto node = nodeOf(op);
    if (!node)
      return op->emitOpError("belongs to no forward kernel");
    if (getPhase(op) == Phase::backward_input)
      graph.kernels[*node].backwardInputTime += seconds;
    else if (getPhase(op) == Phase::backward_weight)
      graph.kernels[*node].backwardWeightTime += seconds;
    return success();
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
  int64_t savedBytes(Operation *op) {
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

  void addEdges(Operation *op) {
    if (!isKernel(op) || replicated.contains(op) ||
        getPhase(op) != Phase::forward)
      return;
    for (Value operand : op->getOperands()) {
      Value root = lookThroughViews(operand);
      Operation *producer = root.getDefiningOp();
      auto from = producer ? indexOf.find(producer) : indexOf.end();
      if (from == indexOf.end() || from->second >= indexOf[op])
        continue;
      int64_t bytes = getTensorBytes(root.getType());
      bool hasGradient =
          isa<FloatType>(
              cast<RankedTensorType>(root.getType()).getElementType()) &&
          graph.kernels[from->second].backwardInputTime +
                  graph.kernels[from->second].backwardWeightTime >
              0;
      unsigned number = cast<OpResult>(root).getResultNumber();
      graph.addEdge(from->second, indexOf[op], bytes,
                    graph.kernels[from->second].name + ":" +
                        std::to_string(number),
                    hasGradient ? bytes : 0);
    }
  }

  func::FuncOp step;

public:
  llvm::DenseSet<Operation *> replicated;

private:
  DenseMap<int64_t, size_t> byOrigin;
  DenseMap<Operation *, size_t> indexOf;
  llvm::StringSet<> counted;
};

struct Partition : pipeline::impl::PartitionBase<Partition> {
  using PartitionBase::PartitionBase;

  void runOnOperation() override {
    func::FuncOp step = findStep(getOperation());
    if (!step || failed(partition(step)))
      signalPassFailure();
  }

  LogicalResult partition(func::FuncOp step) {
    if (stages < 0)
      return step.emitError()
             << "stages is " << stages.getValue() << ", must be 0 or more";
    GraphBuilder builder(step);
    if (failed(builder.run(ignoreHints)))
      return failure();
    if (stages == 0) {
      stages = 1;
      for (const planner::Kernel &kernel : builder.graph.kernels)
        stages = std::max<int64_t>(stages, kernel.stageHint.value_or(0) + 1);
    }
    if (stages > static_cast<int64_t>(builder.nodes.size()))
      return step.emitError()
             << "cannot be cut into " << stages.getValue()
             << " stages: it has only " << builder.nodes.size() << " kernels";

    planner::Cluster cluster = planner::Cluster::cpuCores(stages);
    planner::ChainProblem problem;
    problem.graph = &builder.graph;
    problem.cluster = &cluster;
    problem.stages = stages;
    if (objective == "memory")
      problem.objective = planner::Objective::Memory;
    else if (objective != "time")
      return step.emitError()
             << "unknown objective '" << objective << "'; known: time, memory";
    // Parameters, gradients and one or two optimizer states; 1F1B's in-flight
    // micro-batches.
    problem.memory.parameterCopies = 3;
    for (int64_t stage = 0; stage < stages; ++stage)
      problem.memory.inFlight.push_back(
          static_cast<int>(std::min<int64_t>(microbatches, stages - stage)));
    if (!cuts.empty() && failed(findCuts(step, builder, problem.cuts)))
      return failure();

    auto solution = planner::partitionChain(problem);
    if (!solution)
      return step.emitError() << "cannot be partitioned: " << solution.error();
    if (auto fault = planner::verify(problem, *solution))
      return step.emitError() << "partition is wrong: " << *fault;
    assign(step, builder, *solution);
    OpBuilder attributes(&getContext());
    getOperation()->setAttr("pp.stages", attributes.getI64IntegerAttr(stages));
    getOperation()->setAttr(
        "pp.partition",
        attributes.getDictionaryAttr(
            {attributes.getNamedAttr(
                 "value", attributes.getF64FloatAttr(solution->value)),
             attributes.getNamedAttr(
                 "lower_bound",
                 attributes.getF64FloatAttr(solution->lowerBound))}));
    return success();
  }

  LogicalResult findCuts(func::FuncOp step, GraphBuilder &builder,
                         std::vector<size_t> &result) {
    bool ok = true;
    if (static_cast<int64_t>(cuts.size()) != stages - 1)
      return step.emitError()
             << "has " << cuts.size() << " cuts for " << stages.getValue()
             << " stages; there must be one fewer than stages";
    for (const std::string &cut : cuts) {
      size_t found = builder.nodes.size();
      for (auto [index, op] : llvm::enumerate(builder.nodes)) {
        bool named = false;
        op->getLoc()->walk([&](Location loc) {
          if (auto name = dyn_cast<NameLoc>(loc))
            named |= name.getName() == cut;
          return WalkResult::advance();
        });
        if (named) {
          found = index;
          break;
        }
      }
      if (found == builder.nodes.size()) {
        step.emitError() << "cut '" << cut
                         << "' is not the name of a node that "
                         << "computes something";
        ok = false;
      }
      result.push_back(found);
    }
    return success(ok);
  }

  void assign(func::FuncOp step, GraphBuilder &builder,
              const planner::ChainSolution &solution) {
    Builder attributes(&getContext());
    for (Operation &op : step.getBody().front().without_terminator()) {
      op.removeAttr(stageAttrName);
      if (!isKernel(&op) || builder.replicated.contains(&op))
        continue;
      if (auto node = builder.nodeOf(&op))
        op.setAttr(stageAttrName,
                   attributes.getI64IntegerAttr(solution.stageOf[*node]));
    }
  }
};

} // namespace
