//===- Options.cpp - Types of the pp passes' options ----------------------===//

#include "pp/Dialect/PP/Transforms/Options.h"

#include "llvm/Support/MemoryBuffer.h"

using namespace pp;
using namespace pp::pipeline;

planner::Result<GivenPlan> GivenPlan::read(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return planner::Failure{"cannot read the plan '" + path.str() +
                            "': " + buffer.getError().message()};
  auto plan = planner::PipelinePlan::fromJson((*buffer)->getBuffer());
  if (!plan)
    return planner::Failure{"the plan '" + path.str() +
                            "' is wrong: " + plan.error()};
  return GivenPlan{path.str(), std::make_shared<const planner::PipelinePlan>(
                                   std::move(*plan))};
}
