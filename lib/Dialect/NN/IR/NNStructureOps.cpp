//===- NNStructureOps.cpp - Leaves, state and kernels ---------------------===//

#include "DerivativeEmitter.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/NNEpilogues.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/OpImplementation.h"
#include "pp/Interfaces/Bindings.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

#define GET_OP_CLASSES
#include "pp/Dialect/NN/IR/NNOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Leaves and state
//===----------------------------------------------------------------------===//

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getOutput().getType() ? getInput()
                                                       : OpFoldResult();
}

LogicalResult BitcastOp::verify() {
  Type from = getInput().getType().getElementType();
  Type to = getOutput().getType().getElementType();
  if (from.getIntOrFloatBitWidth() == to.getIntOrFloatBitWidth())
    return success();
  return emitOpError() << "reads " << from << " as " << to
                       << ", which has another number of bits";
}

/// Checks that `symbol` is a global of type `type` (any type when null);
/// `isMutable` asks for a mutable one.
static LogicalResult verifyGlobal(Operation *op, SymbolTableCollection &symbols,
                                  FlatSymbolRefAttr symbol, Type type,
                                  bool isMutable) {
  auto global =
      symbols.lookupNearestSymbolFrom<ml_program::GlobalOp>(op, symbol);
  if (!global)
    return op->emitOpError()
           << "names " << symbol << ", which is not an ml_program.global";
  if (type && global.getType() != type)
    return op->emitOpError() << "has type " << type << ", but " << symbol
                             << " has " << global.getType();
  if (isMutable && !global.getIsMutable())
    return op->emitOpError()
           << "changes " << symbol << ", which is not mutable";
  return success();
}

LogicalResult ParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyGlobal(*this, symbols, getSymbolAttr(), getOutput().getType(),
                      false);
}

LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyGlobal(*this, symbols, getSymbolAttr(), getValue().getType(),
                      true);
}

LogicalResult
CommitStatisticsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyGlobal(*this, symbols, getMeanAttr(), Type(), true)) ||
      failed(verifyGlobal(*this, symbols, getVarianceAttr(), Type(), true)))
    return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseBindings(parser, result);
}

void KernelOp::print(OpAsmPrinter &printer) { printBindings(printer, *this); }

YieldOp KernelOp::getYield() {
  return cast<YieldOp>(getBody().front().getTerminator());
}

/// What is added to a gradient where it is made exists nowhere else.
LogicalResult CommitStatisticsOp::setMicrobatchesOfUpdate(int64_t count) {
  if (getEach() && count != static_cast<int64_t>(getMicrobatches()))
    return emitOpError()
           << "has statistics that each of " << getMicrobatches()
           << " micro-batches moves, but an update has " << count
           << "; use --batch-norm=micro with replicas of stages that have no "
              "flush";
  setMicrobatches(count);
  return success();
}

static LogicalResult verifyAccumulation(AccumulateOp op) {
  if (op.getState() != State::gradient)
    return op.emitOpError("adds to statistics, which no kernel does");
  Operation *maker = op.getValue().getDefiningOp();
  auto reduce = dyn_cast_or_null<ReduceOp>(maker);
  bool isAdded =
      reduce ? reduce.getReduction() == Reduction::sum
             : maker && (maker->hasTrait<OpTrait::Elementwise>() ||
                         isa<DotGeneralOp, ConvBackwardWeightOp>(maker));
  // Only a library touches no rows but those that it adds to.
  if (auto scatter = dyn_cast_or_null<ScatterAddOp>(maker))
    isAdded = !scatter.describeSum().empty() &&
              cast<KernelOp>(op->getParentOp()).getAccumulation() == op;
  if (!isAdded || !op.getValue().hasOneUse())
    return op.emitOpError(
        "adds what is not a sum, a product or elementwise, or "
        "what something else reads too");
  for (auto other : op->getBlock()->getOps<AccumulateOp>())
    if (other != op && other.getSymbol() == op.getSymbol())
      return op.emitOpError() << "adds to @" << op.getSymbol()
                              << ", as another operation of the kernel does";
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("has block arguments of other types than its operands");
  if (getYield().getValues().getTypes() != getOutputs().getTypes())
    return emitOpError("yields values of other types than its results");
  unsigned libraryOps = 0, otherOps = 0;
  for (Operation &op : body.without_terminator()) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    if (!kernel)
      return emitOpError() << "contains '" << op.getName()
                           << "', which is not known as part of a kernel";
    for (Value operand : op.getOperands())
      if (getPacked(operand.getType()) && !getPackableFactor(&op))
        return op.emitOpError("reads a packed tensor, which only products and "
                              "convolutions do");
    auto accumulate = dyn_cast<AccumulateOp>(op);
    if ((!accumulate && !kernel.getUpdatedStates().empty()) ||
        kernel.getParameter())
      return emitOpError() << "contains '" << op.getName()
                           << "', which touches state";
    if (accumulate && failed(verifyAccumulation(accumulate)))
      return failure();
    if (kernel.getKernelClass() == KernelClass::Library)
      ++libraryOps;
    else
      ++otherOps;
  }
  if (libraryOps > 1 || (libraryOps == 1 && otherOps != 0 && !getEpilogue() &&
                         !getAccumulation()))
    return emitOpError("mixes a library operation with other operations");
  return success();
}

std::optional<Epilogue> KernelOp::getEpilogue() {
  Block &body = getBody().front();
  Operation *first = &body.front();
  YieldOp yield = getYield();
  auto mayJoin = [&](Operation *op) { return op != yield.getOperation(); };
  std::optional<Epilogue> epilogue;
  if (auto product = dyn_cast<DotGeneralOp>(first))
    epilogue = findEpilogue(product, mayJoin);
  else if (auto conv = dyn_cast<ConvOp>(first))
    epilogue =
        findEpilogue(conv, mayJoin, /*mayBeRead=*/[](Value) { return true; });
  if (!epilogue)
    return std::nullopt;
  // The operations are these, the first, the broadcast and the yield, besides
  // constants.
  size_t operations = epilogue->operations.size() + 2 +
                      (epilogue->broadcast ? 1 : 0) +
                      llvm::range_size(body.getOps<ConstantOp>());
  if (body.getOperations().size() != operations)
    return std::nullopt;
  // The library takes the tensors in this order.
  SmallVector<Value> inputs(first->getOperands());
  if (epilogue->bias)
    inputs.push_back(epilogue->bias);
  if (epilogue->residual)
    inputs.push_back(epilogue->residual);
  SmallVector<Value> outputs;
  if (epilogue->sum)
    outputs.push_back(epilogue->sum);
  outputs.push_back(epilogue->result);
  if (!llvm::equal(body.getArguments(), inputs) ||
      !llvm::equal(yield.getValues(), outputs))
    return std::nullopt;
  return epilogue;
}

AccumulateOp KernelOp::getAccumulation() {
  Block &body = getBody().front();
  Operation &product = body.front();
  auto accumulate = dyn_cast_or_null<AccumulateOp>(product.getNextNode());
  bool isAlone =
      isa<DotGeneralOp, ConvBackwardWeightOp, ScatterAddOp>(product) &&
      accumulate && body.getOperations().size() == 3 &&
      accumulate.getValue() == product.getResult(0) &&
      llvm::equal(body.getArguments(), product.getOperands());
  return isAlone ? accumulate : AccumulateOp();
}

SmallVector<StateReference> KernelOp::getUpdatedStates() {
  SmallVector<StateReference> states;
  for (auto accumulate : getBody().front().getOps<AccumulateOp>())
    llvm::append_range(states, accumulate.getUpdatedStates());
  return states;
}

static uint64_t getStateBytes(KernelOp op) {
  uint64_t bytes = 0;
  for (auto accumulate : op.getBody().front().getOps<AccumulateOp>()) {
    // Rows that are not touched are not read.
    auto scatter = accumulate.getValue().getDefiningOp<ScatterAddOp>();
    bytes += getTensorBytes(scatter ? scatter.getUpdates().getType()
                                    : accumulate.getValue().getType());
  }
  return bytes;
}

uint64_t KernelOp::getBytesRead() {
  return pp::detail::getOperandBytes(getOperation()) + getStateBytes(*this);
}

uint64_t KernelOp::getBytesWritten() {
  return pp::detail::getResultBytes(getOperation()) + getStateBytes(*this);
}

Operation *KernelOp::getLibraryOp() {
  Operation &first = getBody().front().front();
  if (isa<ScatterAddOp>(first) && getAccumulation())
    return &first;
  auto kernel = dyn_cast<KernelOpInterface>(first);
  return kernel && kernel.getKernelClass() == KernelClass::Library ? &first
                                                                   : nullptr;
}

KernelClass KernelOp::getKernelClass() {
  return getLibraryOp() ? KernelClass::Library : KernelClass::Generated;
}

static std::string describeLibraryOp(Operation *op) {
  auto scatter = dyn_cast<ScatterAddOp>(op);
  return scatter ? scatter.describeSum()
                 : cast<KernelOpInterface>(op).getLibraryDescriptor();
}

std::string KernelOp::getLibraryDescriptor() {
  Operation *op = getLibraryOp();
  if (!op)
    return "";
  if (auto epilogue = getEpilogue()) {
    if (auto conv = dyn_cast<ConvOp>(op))
      return describeWithEpilogue(conv, *epilogue);
    return cast<DotGeneralOp>(op).describe(epilogue->result.getType(),
                                           epilogue->name);
  }
  std::string text = describeLibraryOp(op);
  return getAccumulation() ? text + " accumulate=1" : text;
}

std::string KernelOp::getFirstDescriptor() {
  if (!getLibraryOp() || !getAccumulation())
    return "";
  return describeLibraryOp(getLibraryOp());
}

std::string KernelOp::getFingerprint() {
  Block &body = getBody().front();
  std::string text;
  llvm::raw_string_ostream os(text);
  DenseMap<Value, unsigned> numbers;
  auto define = [&](Value value) {
    unsigned number = numbers.size();
    numbers[value] = number;
    os << value.getType() << ";";
  };
  for (Value argument : body.getArguments())
    define(argument);
  for (Operation &op : body) {
    os << "\n" << op.getName() << " ";
    for (NamedAttribute attribute : op.getAttrs())
      if (StringRef name = attribute.getName();
          !name.starts_with("pp.") && !name.starts_with("step.") &&
          !isa<FlatSymbolRefAttr>(attribute.getValue()))
        os << attribute.getName().getValue() << "=" << attribute.getValue()
           << " ";
    // Properties print through the attribute dictionary.
    for (Value operand : op.getOperands())
      os << numbers.lookup(operand) << ",";
    for (Value result : op.getResults())
      define(result);
  }
  return text;
}

std::string KernelOp::getCostKey() {
  std::string descriptor = getLibraryDescriptor();
  if (!descriptor.empty())
    return descriptor;
  return "generated " + llvm::utohexstr(llvm::xxh3_64bits(getFingerprint()),
                                        /*LowerCase=*/true, /*Width=*/16);
}

std::string AccumulateOp::getCostKey() {
  std::string key = "accumulate ";
  llvm::raw_string_ostream(key) << getValue().getType();
  return key;
}

/// Over the operations of a kernel.
template <typename Count>
static uint64_t sumOfCosts(KernelOp kernel, const Count &count) {
  uint64_t sum = 0;
  for (Operation &op : kernel.getBody().front().without_terminator())
    if (auto cost = dyn_cast<CostOpInterface>(op))
      sum += count(cost);
  return sum;
}

uint64_t KernelOp::getFlops() {
  return sumOfCosts(*this, [](CostOpInterface op) { return op.getFlops(); });
}

uint64_t KernelOp::getEffectiveFlops() {
  return sumOfCosts(*this,
                    [](CostOpInterface op) { return op.getEffectiveFlops(); });
}
