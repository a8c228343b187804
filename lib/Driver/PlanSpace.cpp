//===- PlanSpace.cpp - A model as a planning problem ----------------------===//

#include "pp/Driver/PlanSpace.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Dialect/PP/Transforms/PlannerGraph.h"
#include "pp/Driver/Errors.h"
#include "pp/Interfaces/CostFile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Interfaces/KernelOpInterface.h"

using namespace mlir;
using namespace pp;

namespace {

/// Parameters, gradients, and the states of the optimizer.
double parameterCopies(ModuleOp program) {
  double copies = 2;
  for (auto function : program.getOps<func::FuncOp>())
    if (auto optimizer = function->getAttrOfType<step::OptimizerAttr>(
            step::optimizerAttrName))
      copies += optimizer.countWholeStates();
  return copies;
}

/// How much of a program a cost file knows.
struct Coverage {
  size_t measured = 0, kernels = 0;

  double share() const {
    return kernels
               ? static_cast<double>(measured) / static_cast<double>(kernels)
               : 0;
  }
  std::string text() const {
    return std::to_string(measured) + " of " + std::to_string(kernels) +
           " kernels";
  }
};

CostFile::Others othersOf(const CompileOptions &options) {
  return options.cost.alone ? CostFile::Others::Idle : CostFile::Others::Busy;
}

Coverage countMeasured(ModuleOp program, const CostFile &costs,
                       const CompileOptions &options) {
  Coverage coverage;
  program.walk([&](KernelOpInterface kernel) {
    auto cost =
        kernel->getAttrOfType<pipeline::CostAttr>(pipeline::costAttrName);
    // Sums of gradients do not run where there is one micro-batch.
    if (!cost || cost.getSeconds().getValueAsDouble() == 0)
      return;
    ++coverage.kernels;
    coverage.measured += costs
                             .findKernel(options.schedule.threads,
                                         kernel.getCostKey(), othersOf(options))
                             .has_value();
  });
  return coverage;
}

class SpaceBuilder {
public:
  SpaceBuilder(MLIRContext *context, ModelImport &import,
               const CompileOptions &options, bool wholeNodes)
      : context(context), import(import), options(options),
        wholeNodes(wholeNodes) {
    space.training = options.hasTraining;
  }

  /// Compiles with the errors kept in `fault`.
  llvm::Error add(int64_t microbatches) {
    fault.clear();
    ScopedDiagnosticHandler keep(context, [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
          fault.empty())
        fault = diagnostic.str();
      return success();
    });
    CompileOptions own = options;
    own.microbatches = microbatches;
    Compilation compilation(context, own);
    if (auto error = compilation.readOnnx(import))
      return error;
    // Only the program that is planned.
    if (ModuleOp other = compilation.getProgram(!space.training))
      other.erase();
    if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Cost,
                                     [](PassManager &) {}))
      return error;
    ModuleOp program = compilation.getProgram(space.training);
    auto built = pipeline::buildPlannerGraph(
        program,
        {options.partition.ignoreHints, /*scratchpads=*/true, wholeNodes});
    if (failed(built))
      return makeError(exitInvalid,
                       "no graph can be made of '" + import.getPath() + "'");
    space.batch = compilation.getBatch();
    std::optional<CostFile> costs;
    if (options.hasCostFile()) {
      auto file = CostFile::read(options.cost.costFile, options.target.str());
      if (!file)
        return file.takeError();
      costs = std::move(*file);
      coverages.push_back(countMeasured(program, *costs, options));
    }
    if (space.training) {
      space.parameterCopies = parameterCopies(program);
      for (auto function : program.getOps<func::FuncOp>())
        for (StringRef name :
             {step::wholeBatchesAttrName, step::mixesSamplesAttrName})
          if (auto why = function->getAttrOfType<StringAttr>(name))
            space.mixing = why.str();
      // Reads parameters, gradients and states, writes all but the gradients,
      // as fast as memory goes.
      space.updateSecondsPerByte =
          (2 * space.parameterCopies - 1) /
          (pipeline::AnnotateCostsOptions().bandwidth * 1e9) /
          static_cast<double>(options.schedule.threads);
      if (costs)
        if (auto known =
                costs->findUpdate(options.schedule.threads, othersOf(options)))
          space.updateSecondsPerByte = *known;
    }
    space.graphs.push_back(
        {static_cast<int>(microbatches), std::move(built->graph)});
    return llvm::Error::success();
  }

  /// Measured times and estimates must not be compared: what the cost file
  /// knows less of than of the best known number of micro-batches is left out.
  void leaveOutEstimates(llvm::raw_ostream &notes) {
    if (coverages.empty())
      return;
    double best = 0;
    for (const Coverage &coverage : coverages)
      best = std::max(best, coverage.share());
    constexpr double slack = 0.05;
    std::vector<planner::MicrobatchGraph> kept;
    for (size_t i = 0; i < coverages.size(); ++i) {
      int count = space.graphs[i].microbatches;
      if (coverages[i].share() < best - slack) {
        notes << "note: " << count << " micro-batches are left out: '"
              << options.cost.costFile << "' has times for "
              << coverages[i].text()
              << ", and estimates are not compared with them; measure with "
                 "pp-profile --microbatches="
              << count << " too\n";
        continue;
      }
      if (coverages[i].measured < coverages[i].kernels)
        notes << "note: " << count << " micro-batches: '"
              << options.cost.costFile << "' has times for "
              << coverages[i].text() << "; the others are estimated\n";
      kept.push_back(std::move(space.graphs[i]));
    }
    space.graphs = std::move(kept);
  }

  planner::PlanSpace space;
  std::string fault;

private:
  /// Of each graph, if there is a cost file.
  std::vector<Coverage> coverages;
  MLIRContext *context;
  ModelImport &import;
  const CompileOptions &options;
  bool wholeNodes;
};

} // namespace

llvm::Expected<planner::PlanSpace>
pp::buildPlanSpace(MLIRContext *context, ModelImport &import,
                   const CompileOptions &options,
                   std::vector<int64_t> microbatches, bool wholeNodes,
                   llvm::raw_ostream &notes) {
  SpaceBuilder builder(context, import, options, wholeNodes);
  bool isGiven = !microbatches.empty();
  if (!isGiven)
    microbatches.push_back(1);
  for (size_t i = 0; i < microbatches.size(); ++i) {
    int64_t count = microbatches[i];
    if (llvm::Error error = builder.add(count)) {
      // What is wrong with the model is wrong with each number.
      bool isLast = i + 1 == microbatches.size();
      if (isGiven ? isLast && builder.space.graphs.empty() : i == 0)
        return builder.fault.empty()
                   ? std::move(error)
                   : llvm::joinErrors(makeError(exitInvalid, builder.fault),
                                      std::move(error));
      std::string message = llvm::toString(std::move(error));
      notes << "note: not with " << count << " micro-batches: "
            << (builder.fault.empty() ? message : builder.fault) << "\n";
      continue;
    }
    if (!isGiven && i == 0)
      for (int64_t next = 2; next <= std::min<int64_t>(builder.space.batch, 64);
           next *= 2)
        if (builder.space.batch % next == 0)
          microbatches.push_back(next);
  }
  builder.leaveOutEstimates(notes);
  return std::move(builder.space);
}
