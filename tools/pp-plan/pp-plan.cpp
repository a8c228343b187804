//===- pp-plan.cpp - The best pipeline for a model and a cluster ----------===//

#include "PlanPage.h"
#include "PlanReport.h"
#include "ScheduleFile.h"
#include "pp/Dialect/PP/Transforms/PlannerGraph.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/Format.h"
#include "pp/Driver/InitAll.h"
#include "pp/Driver/PlanSpace.h"
#include "pp/Import/Onnx/Annotate.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace pp;
namespace cl = llvm::cl;

namespace {

struct Flags {
  cl::OptionCategory category{"Planning options"};

  cl::opt<std::string> input{cl::Positional, cl::Required,
                             cl::desc("<model.onnx | schedule.csv>"),
                             cl::cat(category)};
  cl::opt<std::string> cluster{
      "cluster",
      cl::desc("Devices and links (JSON; default: the cores of "
               "--cores)"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<unsigned> cores{"cores", cl::desc("Processor cores to plan for"),
                          cl::init(2), cl::cat(category)};
  cl::list<int64_t> microbatches{
      "microbatches",
      cl::desc("Numbers of micro-batches to try (default: powers of two)"),
      cl::CommaSeparated, cl::cat(category)};
  cl::opt<int> minRanks{"min-ranks", cl::desc("Least ranks of a pipeline"),
                        cl::init(1), cl::cat(category)};
  cl::opt<int> maxRanks{"max-ranks",
                        cl::desc("Most ranks of a pipeline (default: all)"),
                        cl::init(0), cl::cat(category)};
  cl::opt<int> stagesPerRank{"max-stages-per-rank",
                             cl::desc("Most stages of one rank"), cl::init(2),
                             cl::cat(category)};
  cl::list<std::string> schedules{
      "schedules",
      cl::desc("Schedules to try, `auto` is a search (default: all)"),
      cl::CommaSeparated, cl::cat(category)};
  cl::list<std::string> checkpoints{
      "checkpoints",
      cl::desc("Recompute policies to try: never, except_last, always "
               "(default: all)"),
      cl::CommaSeparated, cl::cat(category)};
  cl::opt<bool> replicate{"replicate",
                          cl::desc("Try data parallelism around the pipeline "
                                   "too; pp-compile cannot follow such a plan "
                                   "yet"),
                          cl::init(false), cl::cat(category)};
  cl::opt<unsigned> top{"top", cl::desc("Rows of the table"), cl::init(10),
                        cl::cat(category)};
  cl::opt<bool> explain{"explain",
                        cl::desc("Print what was tried next to each cut"),
                        cl::cat(category)};
  cl::list<std::string> slow{
      "slow", cl::desc("What if a rank of the plan were slower: rank:factor"),
      cl::CommaSeparated, cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Write the best plan (JSON)"),
                              cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> annotate{
      "annotate",
      cl::desc("Write the model with its pipeline_stage; nodes are kept whole"),
      cl::value_desc("file.onnx"), cl::cat(category)};
  cl::opt<std::string> csv{"csv",
                           cl::desc("Write the schedule as PyTorch reads it"),
                           cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> html{"html",
                            cl::desc("Write a page with graph, "
                                     "timeline and memory"),
                            cl::value_desc("file"), cl::cat(category)};
  cl::list<double> times{
      "times",
      cl::desc("Of a schedule.csv: seconds of F, I and W (default 1,1,1)"),
      cl::CommaSeparated, cl::cat(category)};
  cl::opt<double> transfer{"transfer",
                           cl::desc("Of a schedule.csv: seconds of a message"),
                           cl::init(0), cl::cat(category)};
};

llvm::Expected<planner::Cluster> readCluster(const Flags &flags) {
  if (flags.cluster.empty()) {
    if (flags.cores < 1 || flags.cores > 4096)
      return makeError(exitUsage, "--cores=" + llvm::Twine(flags.cores) +
                                      ": must be from 1 to 4096");
    return planner::Cluster::cpuCores(flags.cores);
  }
  auto buffer = llvm::MemoryBuffer::getFile(flags.cluster, /*IsText=*/true);
  if (!buffer)
    return makeError(exitInputOutput, "cannot read '" + flags.cluster +
                                          "': " + buffer.getError().message());
  auto cluster = planner::Cluster::fromJson((*buffer)->getBuffer());
  if (!cluster)
    return makeError(exitInvalid,
                     "'" + flags.cluster + "': " + cluster.error());
  return *cluster;
}

/// What the flags say of the search.
llvm::Error restrict(planner::PlanSpace &space, const Flags &flags) {
  space.minRanks = flags.minRanks;
  space.maxRanks = flags.maxRanks;
  space.maxStagesPerRank = flags.stagesPerRank;
  space.replicate = flags.replicate;
  space.schedules.assign(flags.schedules.begin(), flags.schedules.end());
  space.checkpoints.clear();
  for (const std::string &name : flags.checkpoints) {
    auto mode = planner::parseCheckpointMode(name);
    if (!mode)
      return makeError(exitUsage, "--checkpoints=" + name +
                                      ": expected always, except_last or "
                                      "never");
    space.checkpoints.push_back(*mode);
  }
  if (space.checkpoints.empty())
    space.checkpoints = {planner::CheckpointMode::Never};
  if (space.training && flags.checkpoints.empty())
    space.checkpoints = {planner::CheckpointMode::Never,
                         planner::CheckpointMode::ExceptLast,
                         planner::CheckpointMode::Always};
  return llvm::Error::success();
}

llvm::Error writeFile(llvm::StringRef path,
                      llvm::function_ref<void(llvm::raw_ostream &)> write) {
  if (llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
        write(os);
        return llvm::Error::success();
      }))
    return makeError(exitInputOutput, "cannot write '" + path + "': " +
                                          llvm::toString(std::move(error)));
  return llvm::Error::success();
}

/// The stage of each ONNX node of the planned graph.
llvm::StringMap<int> stagesOfNodes(const planner::Plan &plan,
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
                     const planner::Plan &plan, mlir::MLIRContext &context) {
  CompileOptions own = options;
  own.batch = plan.batch;
  own.microbatches = plan.microbatches();
  Compilation compilation(&context, own);
  compilation.setWarnings(nullptr);
  if (auto error = compilation.readOnnx(flags.input))
    return error;
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Cost,
                                   [](mlir::PassManager &) {}))
    return error;
  auto graph =
      pipeline::buildPlannerGraph(compilation.getProgram(plan.training),
                                  {options.ignoreHints, false, false});
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

/// Prints the step with some ranks slower.
llvm::Error printSlow(const Flags &flags,
                      const planner::PlanEvaluation &evaluation) {
  if (flags.slow.empty())
    return llvm::Error::success();
  planner::SimulationInput input = evaluation.input;
  for (const std::string &text : flags.slow) {
    auto [number, factorText] = llvm::StringRef(text).split(':');
    size_t rank;
    double factor;
    if (number.getAsInteger(10, rank) || factorText.getAsDouble(factor) ||
        rank >= evaluation.schedule.ranks.size() || factor <= 0)
      return makeError(exitUsage,
                       "--slow=" + text +
                           ": expected rank:factor with a rank "
                           "below " +
                           llvm::Twine(evaluation.schedule.ranks.size()));
    for (size_t stage = 0; stage < input.stages.size(); ++stage) {
      if (evaluation.schedule.rankOfStage[stage] != static_cast<int>(rank))
        continue;
      planner::StageTimes &times = input.stages[stage];
      for (double *time : {&times.forward, &times.backwardInput,
                           &times.backwardWeight, &times.recompute})
        *time *= factor;
    }
  }
  auto simulation = planner::simulate(evaluation.schedule, input);
  if (!simulation)
    return makeError(exitInternal, simulation.error());
  llvm::outs() << "\nwith slow ranks (" << llvm::join(flags.slow, ", ")
               << "): step " << formatTime(simulation->makespan) << ", "
               << llvm::format("%.2f", simulation->makespan /
                                           evaluation.simulation.makespan)
               << " times the plan's\n"
               << planner::renderTimeline(*simulation, 100);
  return llvm::Error::success();
}

llvm::Error plan(const Flags &flags, mlir::MLIRContext &context) {
  if (llvm::StringRef(flags.input).ends_with(".csv")) {
    ScheduleFileOptions options;
    options.times = {1, 1, 1, 1, 0};
    if (!flags.times.empty()) {
      if (flags.times.size() != 3)
        return makeError(exitUsage, "--times: expected three numbers, F,I,W");
      options.times = {flags.times[0], flags.times[1], flags.times[2],
                       flags.times[0], 0};
    }
    options.transfer = flags.transfer;
    return checkScheduleFile(flags.input, options, llvm::outs());
  }
  auto options = getCompileOptions();
  if (!options)
    return options.takeError();
  auto cluster = readCluster(flags);
  if (!cluster)
    return cluster.takeError();
  std::vector<int64_t> microbatches(flags.microbatches.begin(),
                                    flags.microbatches.end());
  for (int64_t count : microbatches)
    if (count < 1 || count > (1 << 20))
      return makeError(exitUsage, "--microbatches=" + llvm::Twine(count) +
                                      ": must be from 1 to 1048576");
  auto space = buildPlanSpace(&context, flags.input, *options, microbatches,
                              !flags.annotate.empty(), llvm::errs());
  if (!space)
    return space.takeError();
  space->cluster = &*cluster;
  if (auto error = restrict(*space, flags))
    return error;
  auto result = planner::searchPlans(*space);
  if (!result)
    return makeError(exitInvalid, result.error());
  planner::PlanCandidate &best = result->candidates.front();
  best.plan.model = llvm::sys::path::stem(flags.input).str();
  auto evaluation = planner::evaluatePlan(best.draft);
  if (!evaluation)
    return makeError(exitInternal, evaluation.error());

  llvm::outs() << best.plan.model << ", "
               << (space->training ? "training" : "inference") << ", batch "
               << space->batch << ", " << cluster->devices.size()
               << " devices\n";
  printCandidates(*result, flags.top, llvm::outs());
  printPlan(best, *evaluation, llvm::outs());
  if (flags.explain)
    printCuts(best, planner::explainCuts(best), llvm::outs());
  if (auto error = printSlow(flags, *evaluation))
    return error;
  if (best.overflow)
    return makeError(exitInvalid, "no plan fits into the devices' memory: " +
                                      *best.overflow);
  if (!flags.output.empty())
    if (auto error = writeFile(flags.output, [&](llvm::raw_ostream &os) {
          os << best.plan.toJson();
        }))
      return error;
  if (!flags.csv.empty())
    if (auto error = writeFile(flags.csv, [&](llvm::raw_ostream &os) {
          os << toPyTorch(best.plan.schedule);
        }))
      return error;
  if (!flags.html.empty())
    if (auto error = writeFile(flags.html, [&](llvm::raw_ostream &os) {
          writePage(best, *evaluation, os);
        }))
      return error;
  if (!flags.annotate.empty())
    return annotate(flags, *options, best.plan, context);
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Flags flags;
  registerModelFlags();
  llvm::SmallVector<const cl::OptionCategory *> categories = {&flags.category};
  llvm::append_range(categories, getCompileCategories());
  cl::HideUnrelatedOptions(categories);
  cl::ParseCommandLineOptions(
      argc, argv,
      "pp-plan: the best pipeline for a model and a cluster, or the proof and "
      "simulation of a schedule\n");
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(&context, llvm::errs());
  if (llvm::Error error = plan(flags, context))
    return reportError(std::move(error));
  return exitSuccess;
}
