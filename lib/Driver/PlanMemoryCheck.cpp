//===- PlanMemoryCheck.cpp - What a plan allocates ------------------------===//

#include "pp/Driver/PlanMemoryCheck.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Driver/Errors.h"

using namespace mlir;
using namespace pp;

llvm::Expected<std::vector<int64_t>>
pp::countPlanMemory(MLIRContext *context, ModelImport &import,
                    const CompileOptions &options,
                    const planner::PipelinePlan &plan) {
  CompileOptions own = options;
  applyPlan(own,
            {"found", std::make_shared<const planner::PipelinePlan>(plan)});
  Compilation compilation(context, own);
  if (auto error = compilation.readOnnx(import))
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
    for (int stage = 0; stage < plan.schedule.stages; ++stage)
      if (plan.schedule.replicaOf(stage).part ==
          static_cast<int>(memory.getStage()))
        bytes[plan.schedule.rankOfStage[stage]] += memory.getTotal();
  return bytes;
}
