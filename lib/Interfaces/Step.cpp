//===- Step.cpp - The step dialect ----------------------------------------===//

#include "pp/Interfaces/Step.h"
#include "plan/OptimizerStates.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pp::step;

#include "pp/Interfaces/StepDialect.cpp.inc"
#include "pp/Interfaces/StepEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "pp/Interfaces/StepAttrs.cpp.inc"

void StepDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "pp/Interfaces/StepAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Attributes on operations of any dialect
//===----------------------------------------------------------------------===//

bool pp::step::isCount(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isSignlessInteger(64) &&
         number.getInt() >= 0;
}

static bool isRange(Attribute value) {
  auto range = dyn_cast<DenseI64ArrayAttr>(value);
  return range && !range.empty() && range.size() % 2 == 0;
}

static bool isPosition(Attribute value) {
  auto position = dyn_cast<DenseI64ArrayAttr>(value);
  return position && position.size() == 3 && position[0] >= 0 &&
         position[1] >= 1 && position[2] >= 1;
}

static const KnownAttribute operationAttributes[] = {
    {phaseAttrName, isA<PhaseAttr>, "a #step.phase"},
    {originAttrName, isCount, countText},
    {stageHintAttrName, isCount, countText},
    {preparedByUpdateAttrName, isA<UnitAttr>, "a unit attribute"},
    {optimizerAttrName, isA<OptimizerAttr>, "a #step.optimizer"},
    {mixesSamplesAttrName, isA<StringAttr>, "a string"},
    {wholeBatchesAttrName, isA<StringAttr>, "a string"},
};

static const KnownAttribute argumentAttributes[] = {
    {feedAttrName, isA<StringAttr>, "a string"},
    {roleAttrName, isA<RoleAttr>, "a #step.role"},
    {rangeAttrName, isRange, "an array of pairs of numbers"},
    {ignoreIndexAttrName, isA<IntegerAttr>, "a number"},
    {classWeightsAttrName, isA<DenseF64ArrayAttr>, "an array of numbers"},
    {countedAttrName, isA<StringAttr>, "a string"},
    {comparedAttrName, isA<StringAttr>, "a string"},
    {batchedAttrName, isA<UnitAttr>, "a unit attribute"},
};

static const KnownAttribute resultAttributes[] = {
    {fetchAttrName, isA<StringAttr>, "a string"},
    {batchedAttrName, isA<UnitAttr>, "a unit attribute"},
    {samplesAttrName, isPosition, "[axis, outer, inner]"},
    {addedAttrName, isA<UnitAttr>, "a unit attribute"},
};

LogicalResult pp::step::verifyKnown(Operation *op,
                                    ArrayRef<KnownAttribute> known,
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

LogicalResult StepDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  return verifyKnown(op, operationAttributes, attribute);
}

LogicalResult StepDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned,
                                                    NamedAttribute attribute) {
  return verifyKnown(op, argumentAttributes, attribute, " on an argument");
}

LogicalResult
StepDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                         NamedAttribute attribute) {
  return verifyKnown(op, resultAttributes, attribute, " on a result");
}

pp::Phase pp::step::getPhase(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(phaseAttrName);
  return phase ? phase.getValue() : Phase::Forward;
}

void pp::step::setPhase(Operation *op, Phase phase) {
  op->setAttr(phaseAttrName, PhaseAttr::get(op->getContext(), phase));
}

Role pp::step::getRole(func::FuncOp function, unsigned argument) {
  auto role = function.getArgAttrOfType<RoleAttr>(argument, roleAttrName);
  return role ? role.getValue() : Role::Input;
}

FailureOr<BlockArgument> pp::step::getRandomCounter(func::FuncOp function) {
  Builder builder(function.getContext());
  StringAttr name = builder.getStringAttr(stringifyRole(Role::RandomCounter));
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (getRole(function, index) == Role::RandomCounter)
      return argument;
    if (function.getArgAttr(index, feedAttrName) == name)
      return function.emitError()
             << "input '" << name.getValue()
             << "' has the name of an input that random numbers and statistics "
                "take; rename that of the model";
  }
  auto role = RoleAttr::get(builder.getContext(), Role::RandomCounter);
  auto attributes =
      builder.getDictionaryAttr({builder.getNamedAttr(feedAttrName, name),
                                 builder.getNamedAttr(roleAttrName, role)});
  unsigned index = function.getNumArguments();
  // Fails only where types cannot be changed.
  (void)function.insertArgument(
      index, RankedTensorType::get({counterWords}, builder.getI32Type()),
      attributes, NameLoc::get(name));
  return function.getArgument(index);
}

std::optional<int64_t> pp::step::getBatchSize(func::FuncOp function) {
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        tensor && tensor.getRank() > 0 &&
        function.getArgAttr(index, batchedAttrName))
      return tensor.getDimSize(0);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The optimizer
//===----------------------------------------------------------------------===//

FloatType pp::step::getOptimizedType(func::FuncOp optimizer) {
  ArrayRef<Type> inputs = optimizer.getArgumentTypes();
  FloatType type =
      inputs.empty()
          ? FloatType()
          : dyn_cast<FloatType>(getElementTypeOrSelf(inputs.front()));
  return type ? type : FloatType(Float32Type::get(optimizer.getContext()));
}

LogicalResult ScalarAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr name, ScalarKind kind,
                                 Attribute value) {
  bool isNumber = isa_and_nonnull<FloatAttr>(value);
  bool isName = isa_and_nonnull<StringAttr>(value);
  bool needsNumber = kind == ScalarKind::Value ||
                     kind == ScalarKind::LossScale ||
                     kind == ScalarKind::PowerOfStep;
  bool isPower = kind == ScalarKind::OneMinusPowerOf;
  if (needsNumber ? isNumber : isPower ? isNumber || isName : !value)
    return success();
  return emitError() << "scalar " << name << " of kind '"
                     << stringifyScalarKind(kind) << "' needs "
                     << (needsNumber ? "a number"
                         : isPower   ? "a number or the name of a scalar"
                                     : "no value");
}

LogicalResult
OptimizerAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr,
                      ArrayAttr states, ArrayAttr scalars) {
  if (!llvm::all_of(states, llvm::IsaPred<StringAttr>))
    return emitError() << "expects names as states, got " << states;
  if (!llvm::all_of(scalars, llvm::IsaPred<ScalarAttr>))
    return emitError() << "expects #step.scalar as scalars, got " << scalars;
  return success();
}

std::optional<unsigned> OptimizerAttr::findScalar(ScalarKind kind) {
  for (auto [index, scalar] :
       llvm::enumerate(getScalars().getAsRange<ScalarAttr>()))
    if (scalar.getKind() == kind)
      return index;
  return std::nullopt;
}

std::optional<unsigned> OptimizerAttr::findScalar(StringRef name) {
  for (auto [index, scalar] :
       llvm::enumerate(getScalars().getAsRange<ScalarAttr>()))
    if (scalar.getName() == name)
      return index;
  return std::nullopt;
}

std::vector<std::string> OptimizerAttr::getStateNames() {
  std::vector<std::string> names;
  for (auto state : getStates().getAsRange<StringAttr>())
    names.push_back(state.str());
  return names;
}

unsigned OptimizerAttr::countWholeStates() {
  return runtime::countWhole(getStateNames());
}
