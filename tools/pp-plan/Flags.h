//===- Flags.h - The command line of pp-plan --------------------*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_FLAGS_H
#define PP_TOOLS_PP_PLAN_FLAGS_H

#include "ScheduleReport.h"
#include "pp/Driver/Compiler.h"
#include "pp/Driver/ProgramRun.h"
#include "pp/Planner/PlanSearch.h"
#include "pp/Planner/Schedule/Search.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CommandLine.h"

namespace pp {

/// Lives while the command line is parsed and afterwards.
struct Flags {
  llvm::cl::OptionCategory category{"Planning options"};

  llvm::cl::opt<std::string> input{
      llvm::cl::Positional,
      llvm::cl::desc("<model.onnx | schedule.csv | problem.json>"),
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> cluster{
      "cluster",
      llvm::cl::desc("Devices and links (JSON; default: the cores of "
                     "--cores)"),
      llvm::cl::value_desc("file"), llvm::cl::cat(category)};
  llvm::cl::opt<unsigned> cores{"cores",
                                llvm::cl::desc("Processor cores to plan for"),
                                llvm::cl::init(2), llvm::cl::cat(category)};
  llvm::cl::list<int64_t> microbatches{
      "microbatches",
      llvm::cl::desc(
          "Numbers of micro-batches to try (default: powers of two)"),
      llvm::cl::CommaSeparated, llvm::cl::cat(category)};
  llvm::cl::list<int64_t> threads{
      "threads-per-stage",
      llvm::cl::desc("Numbers of threads that compute each kernel of a stage "
                     "together, to try (default: 1, and those that the cost "
                     "file has times of; with --measure and without such a "
                     "file, powers of two)"),
      llvm::cl::CommaSeparated, llvm::cl::cat(category)};
  llvm::cl::opt<int> minRanks{"min-ranks",
                              llvm::cl::desc("Least ranks of a pipeline"),
                              llvm::cl::init(1), llvm::cl::cat(category)};
  llvm::cl::opt<int> maxRanks{
      "max-ranks", llvm::cl::desc("Most ranks of a pipeline (default: all)"),
      llvm::cl::init(0), llvm::cl::cat(category)};
  llvm::cl::opt<int> stagesPerRank{"max-stages-per-rank",
                                   llvm::cl::desc("Most stages of one rank"),
                                   llvm::cl::init(2), llvm::cl::cat(category)};
  llvm::cl::list<std::string> schedules{
      "schedules",
      llvm::cl::desc("Schedules to try, `auto` is a search (default: all)"),
      llvm::cl::CommaSeparated, llvm::cl::cat(category)};
  llvm::cl::list<std::string> checkpoints{
      "checkpoints",
      llvm::cl::desc("Recompute policies to try: never, except_last, always "
                     "(default: all)"),
      llvm::cl::CommaSeparated, llvm::cl::cat(category)};
  llvm::cl::opt<bool> replicate{
      "replicate",
      llvm::cl::desc("Try data parallelism around the pipeline too, unless "
                     "=false: sums of gradients are then rounded in another "
                     "order (pp-compile --gradient-lanes: in one order)"),
      llvm::cl::init(true), llvm::cl::cat(category)};
  llvm::cl::opt<bool> allowStale{
      "allow-stale",
      llvm::cl::desc("Show what schedules without a flush would take too: "
                     "passes read weights that are some updates old, which is "
                     "another training than the model's"),
      llvm::cl::cat(category)};
  llvm::cl::opt<double> timeLimit{
      "time-limit",
      llvm::cl::desc("Seconds after which the search of a model's plan or of a "
                     "problem's partition ends with the best so far; 0: never "
                     "(default: 60)"),
      llvm::cl::init(60), llvm::cl::cat(category)};
  llvm::cl::opt<unsigned> top{"top", llvm::cl::desc("Rows of the table"),
                              llvm::cl::init(10), llvm::cl::cat(category)};
  llvm::cl::opt<unsigned> measure{
      "measure",
      llvm::cl::desc("Compile and run the so many best plans of each kind (one "
                     "stage, replicas, pipeline; one or several threads) on "
                     "this machine, and take the fastest (default: 0, as "
                     "predicted)"),
      llvm::cl::init(0), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> linkFile{
      "link-file", llvm::cl::desc("Arguments that link with the runtime"),
      llvm::cl::init(defaultLinkFile()), llvm::cl::Hidden,
      llvm::cl::cat(category)};
  llvm::cl::opt<std::string> evaluate{
      "evaluate",
      llvm::cl::desc("Instead of a search: what this plan (JSON) takes, as "
                     "pp-plan wrote it or you changed it"),
      llvm::cl::value_desc("plan.json"), llvm::cl::cat(category)};
  llvm::cl::opt<bool> explain{
      "explain", llvm::cl::desc("Print what was tried next to each cut"),
      llvm::cl::cat(category)};
  llvm::cl::list<std::string> slow{
      "slow",
      llvm::cl::desc("What if a rank of the plan were slower: rank:factor"),
      llvm::cl::CommaSeparated, llvm::cl::cat(category)};
  llvm::cl::opt<std::string> output{
      "o",
      llvm::cl::desc("Write the best plan, or the answer to a "
                     "problem (JSON)"),
      llvm::cl::value_desc("file"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> annotate{
      "annotate",
      llvm::cl::desc(
          "Write the model with its pipeline_stage; nodes are kept whole"),
      llvm::cl::value_desc("file.onnx"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> csv{
      "csv", llvm::cl::desc("Write the schedule as PyTorch reads it"),
      llvm::cl::value_desc("file"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> html{"html",
                                  llvm::cl::desc("Write a page with graph, "
                                                 "timeline and memory"),
                                  llvm::cl::value_desc("file"),
                                  llvm::cl::cat(category)};
  llvm::cl::opt<std::string> trace{
      "trace",
      llvm::cl::desc(
          "Write what is simulated for https://ui.perfetto.dev (JSON)"),
      llvm::cl::value_desc("file"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> saveProblem{
      "save-problem",
      llvm::cl::desc(
          "Only write graph, cluster and objective for one number of "
          "--microbatches, as pp-plan reads it (JSON)"),
      llvm::cl::value_desc("file"), llvm::cl::cat(category)};
  llvm::cl::opt<std::string> timeline{
      "timeline",
      llvm::cl::desc(
          "Instead of a model: the schedule of this name, or `auto`, on "
          "equal stages"),
      llvm::cl::value_desc("schedule"), llvm::cl::cat(category)};
  llvm::cl::opt<int> ranks{"ranks", llvm::cl::desc("Of a --timeline"),
                           llvm::cl::init(4), llvm::cl::cat(category)};
  llvm::cl::opt<int> stages{
      "stages",
      llvm::cl::desc("Of a --timeline (default: as many as ranks, or "
                     "two per rank where the schedule has several)"),
      llvm::cl::init(0), llvm::cl::cat(category)};
  llvm::cl::list<double> times{
      "times",
      llvm::cl::desc(
          "Of a schedule.csv or --timeline: seconds of F, I and W of each "
          "stage (default 1,1,1)"),
      llvm::cl::CommaSeparated, llvm::cl::cat(category)};
  llvm::cl::opt<double> transfer{
      "transfer",
      llvm::cl::desc("Of a schedule.csv or --timeline: seconds of a message"),
      llvm::cl::init(0), llvm::cl::cat(category)};
  llvm::cl::opt<int> clockDistance{
      "clock-distance",
      llvm::cl::desc("Of --timeline=wsp, and of wsp with --allow-stale: how "
                     "many waves the weights that the virtual workers share "
                     "may be behind (default: 0)"),
      llvm::cl::value_desc("waves"), llvm::cl::init(0),
      llvm::cl::cat(category)};
  llvm::cl::opt<planner::SearchObjective> minimize{
      "minimize",
      llvm::cl::desc("With --timeline=auto: what the search makes short"),
      llvm::cl::values(
          clEnumValN(planner::SearchObjective::Makespan, "makespan",
                     "from the first start to the last end (default)"),
          clEnumValN(planner::SearchObjective::Span, "span",
                     "the longest rank, from its first to its last action")),
      llvm::cl::init(planner::SearchObjective::Makespan),
      llvm::cl::cat(category)};
  llvm::cl::opt<int64_t> kept{
      "kept",
      llvm::cl::desc("With --timeline=auto: the most micro-batches that a rank "
                     "keeps at once, those of all its stages added up "
                     "(default: no limit)"),
      llvm::cl::init(0), llvm::cl::cat(category)};
};

/// The devices to plan for: those of --cluster, or --cores, each of which is as
/// many cores as the threads of `options`, whose messages take as long as its
/// cost file says if there is one.
llvm::Expected<planner::Cluster> readCluster(const Flags &flags,
                                             const CompileOptions &options);

/// The numbers of threads per stage to plan for, which divide the cores.
llvm::Expected<std::vector<int64_t>> readThreads(const Flags &flags,
                                                 const CompileOptions &options);

/// Restricts the search to what the flags say.
llvm::Error restrict(planner::PlanSpace &space, const Flags &flags);

/// --times and --transfer.
llvm::Expected<PipelineTimes> readTimes(const Flags &flags);

/// Fails, with the names of all of them, if flags are given that do nothing
/// with this kind of `input`: all of pp-plan and of the compiler but `used`.
llvm::Error refuseAllBut(llvm::ArrayRef<const llvm::cl::Option *> used,
                         const Flags &flags, llvm::StringRef input);

/// The same for flags that do nothing with this `input`.
llvm::Error refuse(llvm::ArrayRef<const llvm::cl::Option *> unused,
                   llvm::StringRef input);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_FLAGS_H
