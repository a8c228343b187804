//===- PlanMemoryCheck.cpp - What a plan allocates ------------------------===//

#include "pp/Driver/PlanMemoryCheck.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Driver/Errors.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

using namespace mlir;
using namespace pp;

/// The passes read plans from files.
static llvm::Expected<std::string>
writeTemporary(const planner::PipelinePlan &plan) {
  llvm::SmallString<128> path;
  int descriptor;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile(
          "pp-plan", "json", descriptor, path))
    return makeError(exitInputOutput,
                     "cannot write a temporary file: " + error.message());
  llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
  os << plan.toJson();
  os.close();
  if (os.has_error()) {
    llvm::FileRemover remove(path);
    return makeError(exitInputOutput, "cannot write '" + path.str() +
                                          "': " + os.error().message());
  }
  return path.str().str();
}

llvm::Expected<std::vector<int64_t>>
pp::countPlanMemory(MLIRContext *context, llvm::StringRef path,
                    const CompileOptions &options,
                    const planner::PipelinePlan &plan) {
  auto file = writeTemporary(plan);
  if (!file)
    return file.takeError();
  llvm::FileRemover remove(*file);
  CompileOptions own = options;
  applyPlan(own, plan);
  own.plan = *file;
  Compilation compilation(context, own);
  compilation.setWarnings(nullptr);
  if (auto error = compilation.readOnnx(path))
    return error;
  if (ModuleOp other = compilation.getProgram(!plan.training))
    other.erase();
  if (auto error = compilation.run(CompilePhase::Graph, CompilePhase::Schedule,
                                   [](PassManager &) {}))
    return error;
  ModuleOp program = compilation.getProgram(plan.training);
  PassManager pm(context, ModuleOp::getOperationName());
  pm.addPass(pipeline::createPlanMemory());
  if (failed(pm.run(program)))
    return makeError(exitInvalid, "the memory of the plan cannot be counted");
  std::vector<int64_t> bytes(plan.schedule.ranks.size(), 0);
  for (auto memory : program.getOps<pipeline::MemoryOp>())
    bytes[plan.schedule.rankOfStage[memory.getStage()]] += memory.getTotal();
  return bytes;
}
