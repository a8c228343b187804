//===- PPDialect.cpp - The pp dialect -------------------------------------===//

#include "pp/Dialect/PP/IR/PP.h"

using namespace mlir;
using namespace pp::pipeline;

#include "pp/Dialect/PP/IR/PPDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "pp/Dialect/PP/IR/PPAttrs.cpp.inc"

void PPDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "pp/Dialect/PP/IR/PPAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "pp/Dialect/PP/IR/PPOps.cpp.inc"
      >();
}

LogicalResult PPDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  StringRef name = attribute.getName();
  Attribute value = attribute.getValue();
  auto expect = [&](bool holds, StringRef what) -> LogicalResult {
    if (holds)
      return success();
    return op->emitOpError()
           << "has an attribute '" << name << "' that is not " << what;
  };
  if (name == phaseAttrName)
    return expect(isa<PhaseAttr>(value), "a #pp.phase");
  if (name == costAttrName)
    return expect(isa<CostAttr>(value), "a #pp.cost");
  if (name == stageAttrName || name == originAttrName ||
      name == stageHintAttrName) {
    auto number = dyn_cast<IntegerAttr>(value);
    return expect(number && number.getInt() >= 0, "a number from 0 on");
  }
  if (name == buffersAttrName) {
    auto array = dyn_cast<ArrayAttr>(value);
    return expect(array && llvm::all_of(array, llvm::IsaPred<BufferAttr>),
                  "an array of #pp.buffer");
  }
  return success();
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
