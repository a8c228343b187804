//===- pp-plan.cpp - The best pipeline for a model and a cluster ----------===//

#include "Flags.h"
#include "ModelInput.h"
#include "ProblemInput.h"
#include "ScheduleInput.h"
#include "pp/Driver/CompileFlags.h"
#include "pp/Driver/ToolContext.h"
#include "llvm/Support/InitLLVM.h"

using namespace pp;

static llvm::Error plan(const Flags &flags, mlir::MLIRContext &context) {
  llvm::StringRef input = flags.input;
  if (!flags.timeline.empty())
    return showTimeline(flags);
  if (input.ends_with(".csv"))
    return showScheduleFile(flags);
  if (input.ends_with(".json"))
    return solveProblem(flags);
  return planModel(flags, context);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Flags flags;
  registerModelFlags();
  ToolContext tool(
      argc, argv, flags.category,
      "pp-plan: the best pipeline for a model and a cluster, or the proof and "
      "simulation of a schedule\n");
  return tool.run(
      [&](mlir::MLIRContext &context) { return plan(flags, context); });
}
