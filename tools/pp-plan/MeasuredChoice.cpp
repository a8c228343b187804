//===- MeasuredChoice.cpp - The best plan as it runs ----------------------===//

#include "MeasuredChoice.h"
#include "MemoryChoice.h"
#include "PlanReport.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ProgramRun.h"
#include "pp/Planner/Schedule/WeightsTogether.h"
#include "pp/Report/Format.h"
#include "pp/Report/Table.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <deque>
#include <map>

using namespace pp;

/// Of each turn: what is far slower is found soon.
static constexpr llvm::StringLiteral turnSeconds[] = {"0.5", "2", "2"};
/// After the first turn, what takes more than this times the best has lost.
static constexpr double lost = 1.15;

namespace {

struct Contender {
  size_t candidate;
  TemporaryFile program;
  /// Of a step, by turn.
  std::vector<double> seconds;

  double median() const {
    std::vector<double> sorted = seconds;
    llvm::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

class Race {
public:
  Race(planner::PlanSearchResult &result, llvm::StringRef linkFile,
       ModelImport &model, const CompileOptions &options,
       mlir::MLIRContext &context)
      : result(result), linkFile(linkFile), model(model), options(options),
        context(context) {}

  llvm::Error enter(unsigned count) {
    std::map<std::string, unsigned> entered;
    const size_t found = result.candidates.size();
    for (size_t index = 0; index < found; ++index) {
      planner::PlanCandidate &candidate = result.candidates[index];
      if (candidate.overflow || entered[describeKind(candidate.plan)] == count)
        continue;
      auto hasEntered = enter(index);
      if (!hasEntered)
        return hasEntered.takeError();
      if (!*hasEntered)
        continue;
      if (entered[describeKind(result.candidates[index].plan)]++ == 0)
        if (auto error = enterJoined(index))
          return error;
    }
    return llvm::Error::success();
  }

  llvm::Error run() {
    for (llvm::StringRef seconds : turnSeconds) {
      double best = bestMedian();
      for (Contender &contender : contenders)
        if (best == 0 || contender.median() <= lost * best)
          if (auto error = measure(contender, seconds))
            return error;
    }
    return llvm::Error::success();
  }

  void print(llvm::raw_ostream &os) {
    llvm::stable_sort(contenders, [](const Contender &a, const Contender &b) {
      return a.median() < b.median();
    });
    os << "measured on this machine, in turns:\n";
    Table table({"", "", "micro-batches", "schedule", "recompute", "predicted",
                 "measured", "samples/s"});
    for (auto [number, contender] : llvm::enumerate(contenders)) {
      const planner::PipelinePlan &plan =
          result.candidates[contender.candidate].plan;
      table.add({std::to_string(number + 1), describeKind(plan),
                 std::to_string(plan.microbatches()), plan.scheduleName,
                 std::string(nameOf(plan.checkpoint)),
                 formatTime(plan.predicted.step),
                 formatTime(contender.median()),
                 llvm::formatv("{0:F1}", static_cast<double>(plan.batch) /
                                             contender.median())});
    }
    table.print(os);
    const Contender &first = contenders.front();
    const planner::PipelinePlan &plan = result.candidates[first.candidate].plan;
    os << "the fastest is " << describeKind(plan);
    for (const Contender &other : contenders) {
      const planner::PipelinePlan &next =
          result.candidates[other.candidate].plan;
      if (describeKind(next) == describeKind(plan))
        continue;
      os << llvm::formatv("; then {0} (+{1:F1} %)", describeKind(next),
                          100 * (other.median() / first.median() - 1));
      break;
    }
    os << "\n";
  }

  /// Moves the fastest to the front.
  void choose() {
    auto &candidates = result.candidates;
    auto chosen = candidates.begin() +
                  static_cast<ptrdiff_t>(contenders.front().candidate);
    std::rotate(candidates.begin(), chosen, chosen + 1);
  }

  bool isEmpty() const { return contenders.empty(); }

private:
  /// Compiles a candidate, unless its memory does not fit as the compiler
  /// counts it.
  llvm::Expected<bool> enter(size_t index) {
    planner::PlanCandidate &candidate = result.candidates[index];
    if (auto error = checkMemory(candidate, model, options, context))
      return std::move(error);
    if (candidate.overflow)
      return false;
    Contender &contender = contenders.emplace_back();
    contender.candidate = index;
    if (auto error = contender.program.create("pp-plan"))
      return std::move(error);
    CompileOptions own = options;
    own.schedule.threads = candidate.plan.threads;
    applyPlan(own, {"found", std::make_shared<const planner::PipelinePlan>(
                                 candidate.plan)});
    if (auto error =
            makeProgram(own, model, contender.program.path, linkFile, context))
      return std::move(error);
    return true;
  }

  /// How much faster W of several micro-batches are at once is known when they
  /// have run: the times of kernels are those of one.
  llvm::Error enterJoined(size_t index) {
    for (int together : {4, 8}) {
      std::optional<planner::PlanCandidate> joined =
          joinWeights(result.candidates[index], together);
      if (!joined)
        continue;
      result.candidates.push_back(std::move(*joined));
      if (auto hasEntered = enter(result.candidates.size() - 1); !hasEntered)
        return hasEntered.takeError();
    }
    return llvm::Error::success();
  }

  /// Nothing if there are not so many micro-batches, or no W, or if nothing
  /// changes.
  static std::optional<planner::PlanCandidate>
  joinWeights(const planner::PlanCandidate &candidate, int together) {
    const planner::Schedule &before = candidate.draft.schedule;
    if (!candidate.plan.training || before.isRolling() ||
        before.microbatches < together)
      return std::nullopt;
    planner::PlanCandidate joined = candidate;
    planner::joinWeights(joined.draft.schedule, together);
    if (joined.draft.schedule.ranks == before.ranks)
      return std::nullopt;
    auto evaluation = planner::evaluatePlan(joined.draft);
    if (!evaluation || evaluation->overflow)
      return std::nullopt;
    joined.plan =
        planner::makePlan(joined.draft, *evaluation, candidate.plan.batch,
                          candidate.plan.scheduleName + ", W of " +
                              std::to_string(together) + " together");
    joined.plan.threads = candidate.plan.threads;
    joined.plan.model = candidate.plan.model;
    return joined;
  }

  llvm::Error measure(Contender &contender, llvm::StringRef seconds) {
    TemporaryFile report;
    if (auto error = report.create("pp-plan"))
      return error;
    bool isTraining = result.candidates[contender.candidate].plan.training;
    auto memory =
        runProgram(contender.program.path,
                   {"bench", "--json", "--mode", isTraining ? "train" : "infer",
                    "--duration", seconds},
                   "a plan cannot be measured", report.path.str());
    if (!memory)
      return memory.takeError();
    auto measured = readJsonObject(report.path);
    if (!measured)
      return measured.takeError();
    // All of them would count what fills a pipeline, of which there are few
    // steps.
    auto taken = measured->getNumber("median_step_seconds");
    if (!taken)
      return makeError(exitInternal, "a program did not say what it took");
    contender.seconds.push_back(*taken);
    return llvm::Error::success();
  }

  double bestMedian() const {
    double best = 0;
    for (const Contender &contender : contenders)
      if (!contender.seconds.empty() &&
          (best == 0 || contender.median() < best))
        best = contender.median();
    return best;
  }

  planner::PlanSearchResult &result;
  llvm::StringRef linkFile;
  ModelImport &model;
  const CompileOptions &options;
  mlir::MLIRContext &context;
  std::deque<Contender> contenders;
};

} // namespace

llvm::Error pp::chooseByMeasuring(planner::PlanSearchResult &result,
                                  unsigned count, llvm::StringRef linkFile,
                                  ModelImport &model,
                                  const CompileOptions &options,
                                  mlir::MLIRContext &context,
                                  llvm::raw_ostream &os) {
  Race race(result, linkFile, model, options, context);
  if (auto error = race.enter(count))
    return error;
  if (race.isEmpty())
    return llvm::Error::success();
  if (auto error = race.run())
    return error;
  race.print(os);
  race.choose();
  return llvm::Error::success();
}
