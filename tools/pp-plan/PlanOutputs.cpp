//===- PlanOutputs.cpp - What is written of a plan ------------------------===//

#include "PlanOutputs.h"
#include "OutputFile.h"
#include "pp/Dialect/PP/Transforms/PlannerGraph.h"
#include "pp/Driver/Errors.h"
#include "pp/Import/Onnx/Annotate.h"
#include "pp/Planner/ChromeTrace.h"
#include "pp/Planner/PlanMemoryCurves.h"
#include "pp/Report/PlanPage.h"

using namespace pp;

namespace {

/// The stage of each ONNX node of the planned graph.
llvm::StringMap<int> stagesOfNodes(const planner::PipelinePlan &plan,
                                   const pipeline::PlannerGraph &graph) {
  llvm::StringMap<int> stages;
  for (auto [operation, kernel] : llvm::zip(graph.operations, plan.kernels))
    operation->getLoc()->walk([&](mlir::Location location) {
      if (auto name = llvm::dyn_cast<mlir::NameLoc>(location))
        stages.try_emplace(name.getName().getValue(), kernel.stage);
      return mlir::WalkResult::advance();
    });
  return stages;
}

llvm::Error annotate(const Flags &flags, const CompileOptions &options,
                     ModelImport &import, const planner::PipelinePlan &plan,
                     mlir::MLIRContext &context) {
  CompileOptions own = options;
  own.batch = plan.batch;
  own.microbatches = plan.microbatches();
  Compilation compilation(&context, own);
  if (auto error = compilation.readOnnx(import))
    return error;
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Cost,
                                   [](mlir::PassManager &) {}))
    return error;
  auto graph = pipeline::buildPlannerGraph(
      compilation.getProgram(plan.training),
      {options.partition.ignoreHints, false, false});
  if (mlir::failed(graph))
    return makeError(exitInternal, "the model cannot be compiled again");
  auto count = onnx::annotateStages(
      flags.input, flags.annotate, stagesOfNodes(plan, *graph),
      static_cast<int>(plan.schedule.ranks.size()));
  if (!count)
    return makeError(exitInputOutput, llvm::toString(count.takeError()));
  llvm::outs() << "wrote " << flags.annotate << ": " << *count
               << " nodes with a pipeline_stage\n";
  return llvm::Error::success();
}

} // namespace

llvm::Error pp::writePlan(const Flags &flags, const CompileOptions &options,
                          ModelImport &import,
                          const planner::PlanCandidate &candidate,
                          const planner::PlanEvaluation &evaluation,
                          mlir::MLIRContext &context) {
  if (!flags.output.empty())
    if (auto error = writeFile(flags.output, [&](llvm::raw_ostream &os) {
          os << candidate.plan.toJson();
        }))
      return error;
  if (!flags.csv.empty()) {
    auto text = planner::exportPyTorchSchedule(candidate.plan.schedule);
    if (!text)
      return makeError(exitInternal, text.error());
    if (auto error =
            writeFile(flags.csv, [&](llvm::raw_ostream &os) { os << *text; }))
      return error;
  }
  if (!flags.html.empty())
    if (auto error = writeFile(flags.html, [&](llvm::raw_ostream &os) {
          writePage(candidate, evaluation, os);
        }))
      return error;
  if (!flags.trace.empty())
    if (auto error = writeFile(flags.trace, [&](llvm::raw_ostream &os) {
          os << planner::toChromeTrace(evaluation.schedule,
                                       evaluation.simulation,
                                       memoryCurves(evaluation));
        }))
      return error;
  if (!flags.annotate.empty())
    return annotate(flags, options, import, candidate.plan, context);
  return llvm::Error::success();
}
