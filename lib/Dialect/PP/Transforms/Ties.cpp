//===- Ties.cpp -----------------------------------------------------------===//

#include "pp/Dialect/PP/Transforms/Ties.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/KernelOpInterface.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"

#include <map>

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

size_t TiedParameter::firstOfStage(size_t part) const {
  return llvm::find(stages, stages[part]) - stages.begin();
}

FailureOr<SmallVector<TiedParameter>>
pp::pipeline::findTiedParameters(ModuleOp module, func::FuncOp step) {
  // By name, then by part.
  std::map<StringRef, std::map<int64_t, int64_t>> stages;
  WalkResult result = step.walk([&](StageOp stage) -> WalkResult {
    for (Operation &op : stage.getBody().front().without_terminator()) {
      auto kernel = dyn_cast<KernelOpInterface>(op);
      if (!kernel)
        continue;
      for (const StateReference &state : kernel.getUpdatedStates()) {
        if (state.kind != StateKind::Gradient)
          continue;
        auto number = static_cast<int64_t>(stage.getStage());
        auto [entry, isNew] =
            stages[state.symbol.getValue()].try_emplace(state.part, number);
        if (!isNew && entry->second != number)
          return op.emitOpError()
                 << "adds to part " << state.part << " of the gradient of "
                 << state.symbol << ", as stage " << entry->second << " does";
      }
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  SymbolTable symbols(module);
  SmallVector<TiedParameter> ties;
  for (const auto &[name, parts] : stages) {
    auto last = parts.rbegin()->first;
    if (last == 0)
      continue;
    auto global = symbols.lookup<ml_program::GlobalOp>(name);
    if (!global || last + 1 != static_cast<int64_t>(parts.size()))
      return step.emitError() << "has no gradient of '" << name
                              << "' for some of its parts 0 to " << last;
    TiedParameter &tie = ties.emplace_back();
    tie.symbol = global.getSymNameAttr();
    tie.bytes = static_cast<int64_t>(getTensorBytes(global.getType()));
    for (const auto &[part, stage] : parts)
      tie.stages.push_back(stage);
  }
  return ties;
}
