//===- pp-plan.cpp - The best pipeline for a model and a cluster ----------===//

#include "NamedSchedule.h"
#include "PlanMemory.h"
#include "PlanPage.h"
#include "PlanReport.h"
#include "ProblemFile.h"
#include "ScheduleFile.h"
#include "pp/Dialect/PP/Transforms/PlannerGraph.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/Format.h"
#include "pp/Driver/InitAll.h"
#include "pp/Driver/PlanMemoryCheck.h"
#include "pp/Driver/PlanSpace.h"
#include "pp/Import/Onnx/Annotate.h"
#include "pp/Planner/ChromeTrace.h"
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

  cl::opt<std::string> input{
      cl::Positional, cl::desc("<model.onnx | schedule.csv | problem.json>"),
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
  cl::opt<std::string> output{
      "o",
      cl::desc("Write the best plan, or the answer to a "
               "problem (JSON)"),
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
  cl::opt<std::string> trace{
      "trace",
      cl::desc("Write what is simulated for https://ui.perfetto.dev (JSON)"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> saveProblem{
      "save-problem",
      cl::desc("Only write graph, cluster and objective for one number of "
               "--microbatches, as pp-plan reads it (JSON)"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<std::string> timeline{
      "timeline",
      cl::desc("Instead of a model: the schedule of this name, or `auto`, on "
               "equal stages"),
      cl::value_desc("schedule"), cl::cat(category)};
  cl::opt<int> ranks{"ranks", cl::desc("Of a --timeline"), cl::init(4),
                     cl::cat(category)};
  cl::opt<int> stages{"stages",
                      cl::desc("Of a --timeline (default: as many as ranks, or "
                               "two per rank where the schedule has several)"),
                      cl::init(0), cl::cat(category)};
  cl::list<double> times{
      "times",
      cl::desc("Of a schedule.csv or --timeline: seconds of F, I and W of each "
               "stage (default 1,1,1)"),
      cl::CommaSeparated, cl::cat(category)};
  cl::opt<double> transfer{
      "transfer",
      cl::desc("Of a schedule.csv or --timeline: seconds of a message"),
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

/// What cannot be done with this kind of input.
llvm::Error refuse(std::initializer_list<const cl::Option *> options,
                   llvm::StringRef input) {
  for (const cl::Option *option : options)
    if (option->getNumOccurrences())
      return makeError(exitUsage,
                       llvm::Twine(option->ArgStr.size() == 1 ? "-" : "--") +
                           option->ArgStr + " cannot be used with " + input);
  return llvm::Error::success();
}

llvm::Expected<PipelineTimes> readTimes(const Flags &flags) {
  PipelineTimes times{{1, 1, 1, 1, 0}, flags.transfer};
  if (!flags.times.empty()) {
    if (flags.times.size() != 3)
      return makeError(exitUsage, "--times: expected three numbers, F,I,W");
    times.stage = {flags.times[0], flags.times[1], flags.times[2],
                   flags.times[0], 0};
  }
  for (double seconds : {times.stage.forward, times.stage.backwardInput,
                         times.stage.backwardWeight})
    if (!(seconds >= 0 && seconds < 1e12))
      return makeError(exitUsage, "--times: must be 0 or more seconds");
  if (!(times.transfer >= 0 && times.transfer < 1e12))
    return makeError(exitUsage, "--transfer: must be 0 or more seconds");
  return times;
}

llvm::Error writeTrace(const Flags &flags, const planner::Schedule &schedule,
                       const planner::Simulation &simulation,
                       const std::vector<planner::MemoryCurve> &memory = {}) {
  if (flags.trace.empty())
    return llvm::Error::success();
  return writeFile(flags.trace, [&](llvm::raw_ostream &os) {
    os << planner::toChromeTrace(schedule, simulation, memory);
  });
}

llvm::Error showSchedule(const Flags &flags,
                         llvm::Expected<SimulatedSchedule> simulated) {
  if (!simulated)
    return simulated.takeError();
  printSchedule(*simulated, llvm::outs());
  return writeTrace(flags, simulated->schedule, simulated->simulation);
}

llvm::Error showTimeline(const Flags &flags) {
  if (!flags.input.empty())
    return makeError(exitUsage, "--timeline needs no '" + flags.input + "'");
  if (auto error =
          refuse({&flags.output, &flags.csv, &flags.html, &flags.annotate,
                  &flags.saveProblem, &flags.explain, &flags.cluster},
                 "--timeline"))
    return error;
  auto times = readTimes(flags);
  if (!times)
    return times.takeError();
  if (flags.microbatches.size() > 1)
    return makeError(exitUsage, "--timeline shows one number of "
                                "--microbatches");
  int64_t microbatches =
      flags.microbatches.empty() ? 8 : flags.microbatches.front();
  constexpr int64_t most = 4096;
  if (microbatches < 1 || microbatches > most)
    return makeError(exitUsage, "--microbatches=" + llvm::Twine(microbatches) +
                                    ": must be from 1 to 4096");
  if (flags.ranks < 1 || flags.ranks > most)
    return makeError(exitUsage, "--ranks=" + llvm::Twine(flags.ranks) +
                                    ": must be from 1 to 4096");
  if (flags.stages.getNumOccurrences() &&
      (flags.stages < 1 || flags.stages > most))
    return makeError(exitUsage, "--stages=" + llvm::Twine(flags.stages) +
                                    ": must be from 1 to 4096");
  return showSchedule(
      flags, makeNamedSchedule(
                 flags.timeline,
                 {flags.stages, static_cast<int>(microbatches), flags.ranks},
                 *times, llvm::outs()));
}

llvm::Error showScheduleFile(const Flags &flags) {
  if (auto error =
          refuse({&flags.output, &flags.csv, &flags.html, &flags.annotate,
                  &flags.saveProblem, &flags.explain, &flags.cluster},
                 "a schedule"))
    return error;
  auto times = readTimes(flags);
  if (!times)
    return times.takeError();
  return showSchedule(flags,
                      readScheduleFile(flags.input, *times, llvm::outs()));
}

llvm::Error solveProblem(const Flags &flags) {
  if (auto error =
          refuse({&flags.csv, &flags.html, &flags.annotate, &flags.saveProblem,
                  &flags.explain, &flags.cluster, &flags.trace},
                 "a problem"))
    return error;
  auto answer = solveProblemFile(flags.input, llvm::outs());
  if (!answer)
    return answer.takeError();
  if (flags.output.empty())
    return llvm::Error::success();
  return writeFile(flags.output, [&](llvm::raw_ostream &os) { os << *answer; });
}

llvm::Error saveProblem(const Flags &flags, const planner::PlanSpace &space) {
  if (auto error = writeFile(flags.saveProblem, [&](llvm::raw_ostream &os) {
        os << problemToJson(space);
      }))
    return error;
  llvm::outs() << "wrote " << flags.saveProblem << ": "
               << space.graphs.front().graph.kernels.size() << " kernels, "
               << space.graphs.front().microbatches << " micro-batches\n";
  return llvm::Error::success();
}

/// The first device that a rank's bytes do not fit into, as a sentence.
std::optional<std::string> findOverflow(const planner::PlanCandidate &candidate,
                                        const std::vector<int64_t> &bytes) {
  for (size_t stage = 0; stage < candidate.draft.devices.size(); ++stage) {
    int rank = candidate.draft.schedule.rankOfStage[stage];
    for (size_t index : candidate.draft.devices[stage]) {
      const planner::Device &device = candidate.draft.cluster->devices[index];
      if (bytes[rank] > device.memoryBytes)
        return "rank " + std::to_string(rank) + " needs " +
               std::to_string(bytes[rank]) + " bytes as compiled, '" +
               device.name + "' has " + std::to_string(device.memoryBytes);
    }
  }
  return std::nullopt;
}

/// Moves the best plan whose memory fits as the compiler counts it to the
/// front, and gives it those bytes. If none of the best fits, the first one
/// says why.
llvm::Error chooseByMemory(planner::PlanSearchResult &result,
                           const Flags &flags, const CompileOptions &options,
                           mlir::MLIRContext &context) {
  constexpr size_t maxTries = 32;
  auto &candidates = result.candidates;
  for (size_t i = 0; i < std::min(maxTries, candidates.size()); ++i) {
    planner::PlanCandidate &candidate = candidates[i];
    if (candidate.overflow)
      return llvm::Error::success();
    auto bytes =
        countPlanMemory(&context, flags.input, options, candidate.plan);
    if (!bytes)
      return bytes.takeError();
    candidate.overflow = findOverflow(candidate, *bytes);
    candidate.plan.predicted.peakBytes = *bytes;
    if (candidate.overflow)
      continue;
    std::rotate(candidates.begin(), candidates.begin() + i,
                candidates.begin() + i + 1);
    return llvm::Error::success();
  }
  return llvm::Error::success();
}

llvm::Error planModel(const Flags &flags, mlir::MLIRContext &context) {
  if (flags.input.empty())
    return makeError(exitUsage, "expected a model.onnx, a schedule.csv, a "
                                "problem.json or --timeline=schedule");
  if (!flags.saveProblem.empty() && flags.microbatches.size() != 1)
    return makeError(exitUsage, "--save-problem needs one number of "
                                "micro-batches, such as --microbatches=4");
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
  if (!flags.saveProblem.empty())
    return saveProblem(flags, *space);
  auto result = planner::searchPlans(*space);
  if (!result)
    return makeError(exitInvalid, result.error());
  for (planner::PlanCandidate &candidate : result->candidates)
    candidate.plan.model = llvm::sys::path::stem(flags.input).str();
  if (auto error = chooseByMemory(*result, flags, *options, context))
    return error;
  planner::PlanCandidate &best = result->candidates.front();
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
  if (!flags.csv.empty()) {
    auto text = planner::exportPyTorchSchedule(best.plan.schedule);
    if (!text)
      return makeError(exitInternal, text.error());
    if (auto error =
            writeFile(flags.csv, [&](llvm::raw_ostream &os) { os << *text; }))
      return error;
  }
  if (!flags.html.empty())
    if (auto error = writeFile(flags.html, [&](llvm::raw_ostream &os) {
          writePage(best, *evaluation, os);
        }))
      return error;
  if (auto error = writeTrace(flags, evaluation->schedule,
                              evaluation->simulation, memoryOf(*evaluation)))
    return error;
  if (!flags.annotate.empty())
    return annotate(flags, *options, best.plan, context);
  return llvm::Error::success();
}

llvm::Error plan(const Flags &flags, mlir::MLIRContext &context) {
  llvm::StringRef input = flags.input;
  if (!flags.timeline.empty())
    return showTimeline(flags);
  if (input.ends_with(".csv"))
    return showScheduleFile(flags);
  if (input.ends_with(".json"))
    return solveProblem(flags);
  return planModel(flags, context);
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
