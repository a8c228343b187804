//===- ProblemInput.cpp - A planning problem instead of a model -----------===//

#include "ProblemInput.h"
#include "OutputFile.h"
#include "ProblemFile.h"
#include "TimeLimit.h"

using namespace pp;

llvm::Error pp::solveProblem(const Flags &flags) {
  if (auto error =
          refuseAllBut({&flags.output, &flags.timeLimit}, flags, "a problem"))
    return error;
  auto deadline = readDeadline(flags);
  if (!deadline)
    return deadline.takeError();
  // Half a minute on a fast core: without a limit of the user's, most machines
  // give the same answer.
  uint64_t steps = flags.timeLimit.getNumOccurrences() ? 0 : 1'000'000'000;
  auto answer = solveProblemFile(flags.input, *deadline, steps, llvm::outs(),
                                 llvm::errs());
  if (!answer)
    return answer.takeError();
  if (flags.output.empty())
    return llvm::Error::success();
  return writeFile(flags.output, [&](llvm::raw_ostream &os) { os << *answer; });
}
