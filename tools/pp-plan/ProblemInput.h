//===- ProblemInput.h - A planning problem instead of a model ---*- C++ -*-===//

#ifndef PP_TOOLS_PP_PLAN_PROBLEMINPUT_H
#define PP_TOOLS_PP_PLAN_PROBLEMINPUT_H

#include "Flags.h"

namespace pp {

/// Solves a problem.json, prints the answer and writes it to -o.
llvm::Error solveProblem(const Flags &flags);

} // namespace pp

#endif // PP_TOOLS_PP_PLAN_PROBLEMINPUT_H
