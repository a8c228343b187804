//===- MemoryChoice.cpp - The best plan whose memory fits -----------------===//

#include "MemoryChoice.h"
#include "pp/Driver/PlanMemoryCheck.h"

using namespace pp;

namespace {

/// The first device that a rank's bytes do not fit into, as a sentence.
std::optional<std::string> findOverflow(const planner::PlanCandidate &candidate,
                                        const std::vector<int64_t> &bytes) {
  const planner::Schedule &schedule = candidate.draft.schedule;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    int rank = schedule.rankOfStage[stage];
    for (size_t index : candidate.draft.devicesOf(stage)) {
      const planner::Device &device = candidate.draft.cluster->devices[index];
      if (bytes[rank] > device.memoryBytes)
        return "rank " + std::to_string(rank) + " needs " +
               std::to_string(bytes[rank]) + " bytes as compiled, '" +
               device.name + "' has " + std::to_string(device.memoryBytes);
    }
  }
  return std::nullopt;
}

} // namespace

llvm::Error pp::checkMemory(planner::PlanCandidate &candidate,
                            ModelImport &model, const CompileOptions &options,
                            mlir::MLIRContext &context) {
  auto bytes = countPlanMemory(&context, model, options, candidate.plan);
  if (!bytes)
    return bytes.takeError();
  candidate.overflow = findOverflow(candidate, *bytes);
  candidate.plan.predicted.peakBytes = std::move(*bytes);
  return llvm::Error::success();
}

llvm::Error pp::chooseByMemory(planner::PlanSearchResult &result,
                               ModelImport &model,
                               const CompileOptions &options,
                               mlir::MLIRContext &context) {
  constexpr size_t maxTries = 32;
  auto &candidates = result.candidates;
  for (size_t i = 0; i < std::min(maxTries, candidates.size()); ++i) {
    planner::PlanCandidate &candidate = candidates[i];
    if (candidate.overflow)
      return llvm::Error::success();
    if (auto error = checkMemory(candidate, model, options, context))
      return error;
    if (candidate.overflow)
      continue;
    std::rotate(candidates.begin(), candidates.begin() + i,
                candidates.begin() + i + 1);
    return llvm::Error::success();
  }
  return llvm::Error::success();
}
