//===- PPDialect.cpp - The pp dialect -------------------------------------===//

#include "pp/Dialect/PP/IR/PP.h"

using namespace mlir;
using namespace pp::pipeline;

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

namespace {

/// What may stand under a name. PPDialect.td says what each means.
struct KnownAttribute {
  StringRef name;
  bool (*holds)(Attribute value);
  StringRef what;
};

bool isCount(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isSignlessInteger(64) &&
         number.getInt() >= 0;
}

template <typename AttrT> bool isA(Attribute value) {
  return isa<AttrT>(value);
}

template <typename AttrT> bool isListOf(Attribute value) {
  auto array = dyn_cast<ArrayAttr>(value);
  return array && llvm::all_of(array, llvm::IsaPred<AttrT>);
}

bool isRange(Attribute value) {
  auto range = dyn_cast<DenseI64ArrayAttr>(value);
  return range && range.size() == 2;
}

} // namespace

static constexpr StringLiteral count = "a number from 0 on";

static const KnownAttribute operationAttributes[] = {
    {phaseAttrName, isA<PhaseAttr>, "a #pp.phase"},
    {originAttrName, isCount, count},
    {costAttrName, isA<CostAttr>, "a #pp.cost"},
    {stageAttrName, isCount, count},
    {stageHintAttrName, isCount, count},
    {buffersAttrName, isListOf<BufferAttr>, "an array of #pp.buffer"},
    {stateBuffersAttrName, isListOf<BufferAttr>, "an array of #pp.buffer"},
    {scratchpadAttrName, isA<BufferAttr>, "a #pp.buffer"},
    {libraryAttrName, isCount, count},
    {calleeAttrName, isA<FlatSymbolRefAttr>, "a symbol"},
    {launchAttrName, isA<StringAttr>, "a descriptor"},
    {launchScratchpadAttrName, isCount, count},
    {probeAttrName, isCount, count},
    {markAttrName, isCount, count},
    {rowsAttrName, isA<UnitAttr>, "a unit attribute"},
    {scatterAddAttrName, isA<DenseI64ArrayAttr>, "an array of numbers"},
    {emulatedAttrName, isA<EmulatedAttr>, "a #pp.emulated"},
    {optimizerAttrName, isA<OptimizerAttr>, "a #pp.optimizer"},
    {targetAttrName, isA<StringAttr>, "a string"},
    {modelHashAttrName, isA<StringAttr>, "a string"},
    {optimizerLaunchAttrName, isA<StringAttr>, "a descriptor"},
    {stagesAttrName, isCount, count},
    {partitionAttrName, isA<PartitionAttr>, "a #pp.partition"},
    {checkpointAttrName, isA<CheckpointModeAttr>, "a #pp.checkpoint"},
};

static const KnownAttribute argumentAttributes[] = {
    {feedAttrName, isA<StringAttr>, "a string"},
    {roleAttrName, isA<StringAttr>, "a string"},
    {rangeAttrName, isRange, "an array of two numbers"},
    {ignoreIndexAttrName, isA<IntegerAttr>, "a number"},
};

static const KnownAttribute resultAttributes[] = {
    {fetchAttrName, isA<StringAttr>, "a string"},
};

/// Refuses names that no list has, which would be read by nobody.
static LogicalResult check(Operation *op, ArrayRef<KnownAttribute> known,
                           NamedAttribute attribute, StringRef where) {
  StringRef name = attribute.getName();
  const auto *found = llvm::find_if(
      known, [&](const KnownAttribute &entry) { return entry.name == name; });
  if (found == known.end())
    return op->emitOpError()
           << "has an unknown attribute '" << name << "'" << where;
  if (found->holds(attribute.getValue()))
    return success();
  return op->emitOpError() << "has an attribute '" << name << "'" << where
                           << " that is not " << found->what;
}

LogicalResult PPDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  return check(op, operationAttributes, attribute, "");
}

LogicalResult PPDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                  unsigned,
                                                  NamedAttribute attribute) {
  return check(op, argumentAttributes, attribute, " on an argument");
}

LogicalResult PPDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                     unsigned,
                                                     NamedAttribute attribute) {
  return check(op, resultAttributes, attribute, " on a result");
}

Phase pp::pipeline::getPhase(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(phaseAttrName);
  return phase ? phase.getValue() : Phase::Forward;
}

void pp::pipeline::setPhase(Operation *op, Phase phase) {
  op->setAttr(phaseAttrName, PhaseAttr::get(op->getContext(), phase));
}

std::optional<int64_t> pp::pipeline::getStage(Operation *op) {
  if (auto stage = op->getAttrOfType<IntegerAttr>(stageAttrName))
    return stage.getInt();
  return std::nullopt;
}

llvm::StringRef pp::pipeline::getTarget(ModuleOp module) {
  auto target = module->getAttrOfType<StringAttr>(targetAttrName);
  return target ? target.getValue() : "cpu";
}

bool pp::pipeline::isGpuTarget(ModuleOp module) {
  return getTarget(module).starts_with("cuda") || isEmulatedTarget(module);
}

bool pp::pipeline::isEmulatedTarget(ModuleOp module) {
  return getTarget(module) == "mock";
}
