//===- PlaceCheckpoints.cpp - Choose what is recomputed -------------------===//

#include "StepGraph.h"
#include "pp/Dialect/PP/Transforms/Passes.h"
#include "pp/Planner/Schedule/Recompute.h"

namespace pp::pipeline {
#define GEN_PASS_DEF_PLACECHECKPOINTS
#include "pp/Dialect/PP/Transforms/Passes.h.inc"
} // namespace pp::pipeline

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

struct PlaceCheckpoints
    : pipeline::impl::PlaceCheckpointsBase<PlaceCheckpoints> {
  using PlaceCheckpointsBase::PlaceCheckpointsBase;

  void runOnOperation() override {
    getOperation()->setAttr(checkpointAttrName,
                            CheckpointModeAttr::get(&getContext(), mode));
  }
};

} // namespace
