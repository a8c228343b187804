//===- MeasuredChoice.cpp - The best plan as it runs ----------------------===//

#include "MeasuredChoice.h"
#include "MemoryChoice.h"
#include "PlanReport.h"
#include "pp/Driver/Errors.h"
#include "pp/Driver/ProgramRun.h"
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
    for (auto [index, candidate] : llvm::enumerate(result.candidates)) {
      if (candidate.overflow || entered[describeKind(candidate.plan)] == count)
        continue;
      if (auto error = checkMemory(candidate, model, options, context))
        return error;
      if (candidate.overflow)
        continue;
      ++entered[describeKind(candidate.plan)];
      Contender &contender = contenders.emplace_back();
      contender.candidate = index;
      if (auto error = contender.program.create("pp-plan"))
        return error;
      CompileOptions own = options;
      own.schedule.threads = candidate.plan.threads;
      applyPlan(own, {"found", std::make_shared<const planner::PipelinePlan>(
                                   candidate.plan)});
      if (auto error = makeProgram(own, model, contender.program.path, linkFile,
                                   context))
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
