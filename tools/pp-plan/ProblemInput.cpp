//===- ProblemInput.cpp - A planning problem instead of a model -----------===//

#include "ProblemInput.h"
#include "OutputFile.h"
#include "ProblemFile.h"

using namespace pp;

llvm::Error pp::solveProblem(const Flags &flags) {
  if (auto error = refuseAllBut({&flags.output}, flags, "a problem"))
    return error;
  auto answer = solveProblemFile(flags.input, llvm::outs());
  if (!answer)
    return answer.takeError();
  if (flags.output.empty())
    return llvm::Error::success();
  return writeFile(flags.output, [&](llvm::raw_ostream &os) { os << *answer; });
}
