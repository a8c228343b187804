//===- PPDialect.cpp - The pp dialect -------------------------------------===//

#include "pp/Dialect/PP/IR/PP.h"

using namespace mlir;
using namespace pp::pipeline;
using namespace pp::step;

#include "pp/Dialect/PP/IR/PPDialect.cpp.inc"

void PPDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "pp/Dialect/PP/IR/PPOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Attributes on operations of any dialect
//===----------------------------------------------------------------------===//

static bool isTarget(Attribute value) {
  auto name = dyn_cast<StringAttr>(value);
  return name && pp::Target::parse(name);
}

static const KnownAttribute operationAttributes[] = {
    {costAttrName, isA<CostAttr>, "a #pp.cost"},
    {stageAttrName, isCount, countText},
    {buffersAttrName, isListOf<BufferAttr>, "an array of #pp.buffer"},
    {stateBuffersAttrName, isListOf<BufferAttr>, "an array of #pp.buffer"},
    {scratchpadAttrName, isA<BufferAttr>, "a #pp.buffer"},
    {libraryAttrName, isCount, countText},
    {firstLibraryAttrName, isCount, countText},
    {calleeAttrName, isA<FlatSymbolRefAttr>, "a symbol"},
    {launchAttrName, isA<StringAttr>, "a descriptor"},
    {launchScratchpadAttrName, isCount, countText},
    {probeAttrName, isCount, countText},
    {markAttrName, isCount, countText},
    {rowsAttrName, isA<UnitAttr>, "a unit attribute"},
    {independentAttrName, isA<UnitAttr>, "a unit attribute"},
    {scatterAddAttrName, isA<DenseI64ArrayAttr>, "an array of numbers"},
    {mockKernelAttrName, isA<MockKernelAttr>, "a #pp.mock_kernel"},
    {targetAttrName, isTarget, "cpu, mock or cuda:sm_NN"},
    {modelHashAttrName, isA<StringAttr>, "a string"},
    {optimizerLaunchAttrName, isA<StringAttr>, "a descriptor"},
    {stagesAttrName, isCount, countText},
    {partitionAttrName, isA<PartitionAttr>, "a #pp.partition"},
    {checkpointAttrName, isA<CheckpointModeAttr>, "a #pp.checkpoint"},
};

LogicalResult PPDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  return verifyKnown(op, operationAttributes, attribute);
}

LogicalResult PPDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned,
                                                  NamedAttribute attribute) {
  return verifyKnown(op, {}, attribute, " on an argument");
}

LogicalResult PPDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned,
                                                     NamedAttribute attribute) {
  return verifyKnown(op, {}, attribute, " on a result");
}

std::optional<int64_t> pp::pipeline::getStage(Operation *op) {
  if (auto stage = op->getAttrOfType<IntegerAttr>(stageAttrName))
    return stage.getInt();
  return std::nullopt;
}

pp::Target pp::pipeline::getTarget(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>(targetAttrName);
  // The verifier has seen that it is one.
  return name ? Target::parse(name).value_or(Target()) : Target();
}
