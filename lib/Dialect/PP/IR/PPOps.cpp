//===- PPOps.cpp - Verifiers and assembly of the pp operations ------------===//

#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Interfaces/KernelOpInterface.h"
#include "pp/Interfaces/Step.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

//===----------------------------------------------------------------------===//
// Assembly
//===----------------------------------------------------------------------===//

/// The bare name of an enumerator.
template <typename AttrT, typename Symbolize>
static ParseResult parseName(OpAsmParser &parser, AttrT &attribute,
                             StringRef what, Symbolize symbolize) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  auto value = symbolize(name);
  if (!value)
    return parser.emitError(loc) << "unknown " << what << " '" << name << "'";
  attribute = AttrT::get(parser.getContext(), *value);
  return success();
}

static ParseResult parsePhaseName(OpAsmParser &parser, PhaseAttr &phase) {
  return parseName(parser, phase, "phase", pp::symbolizePhase);
}

static void printPhaseName(OpAsmPrinter &printer, Operation *,
                           PhaseAttr phase) {
  printer << pp::stringifyPhase(phase.getValue());
}

static ParseResult parseCheckpointName(OpAsmParser &parser,
                                       CheckpointModeAttr &mode) {
  return parseName(parser, mode, "checkpoint mode",
                   pp::symbolizeCheckpointMode);
}

static void printCheckpointName(OpAsmPrinter &printer, Operation *,
                                CheckpointModeAttr mode) {
  printer << pp::stringifyCheckpointMode(mode.getValue());
}

static ParseResult parseChannelKindName(OpAsmParser &parser,
                                        ChannelKindAttr &kind) {
  return parseName(parser, kind, "channel kind",
                   [](StringRef name) { return symbolizeChannelKind(name); });
}

static void printChannelKindName(OpAsmPrinter &printer, Operation *,
                                 ChannelKindAttr kind) {
  printer << stringifyChannelKind(kind.getValue());
}

static ParseResult parseActionKindName(OpAsmParser &parser,
                                       ActionKindAttr &kind) {
  return parseName(parser, kind, "action", pp::symbolizeActionKind);
}

static void printActionKindName(OpAsmPrinter &printer, Operation *,
                                ActionKindAttr kind) {
  printer << pp::stringifyActionKind(kind.getValue());
}

/// A list in brackets; `parseElement` gives null after an error.
static ParseResult parseList(AsmParser &parser, ArrayAttr &list,
                             function_ref<Attribute()> parseElement) {
  SmallVector<Attribute> elements;
  if (parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square, [&]() -> ParseResult {
            elements.push_back(parseElement());
            return success(static_cast<bool>(elements.back()));
          }))
    return failure();
  list = ArrayAttr::get(parser.getContext(), elements);
  return success();
}

static void printList(AsmPrinter &printer, ArrayRef<Attribute> list,
                      function_ref<void(Attribute)> printElement) {
  printer << "[";
  llvm::interleaveComma(list, printer, printElement);
  printer << "]";
}

/// Elements without `#pp.` and their mnemonic.
template <typename AttrT>
static ParseResult parseStrippedList(AsmParser &parser, ArrayAttr &list) {
  return parseList(parser, list,
                   [&]() { return AttrT::parse(parser, Type()); });
}

template <typename AttrT>
static void printStrippedList(AsmPrinter &printer, ArrayAttr list) {
  printList(printer, list.getValue(),
            [&](Attribute element) { cast<AttrT>(element).print(printer); });
}

static ParseResult parseAreas(OpAsmParser &parser, ArrayAttr &areas) {
  return parseStrippedList<AreaRangeAttr>(parser, areas);
}
static void printAreas(OpAsmPrinter &printer, Operation *, ArrayAttr areas) {
  printStrippedList<AreaRangeAttr>(printer, areas);
}
static ParseResult parsePlaces(OpAsmParser &parser, ArrayAttr &places) {
  return parseStrippedList<PlaceAttr>(parser, places);
}
static void printPlaces(OpAsmPrinter &printer, Operation *, ArrayAttr places) {
  printStrippedList<PlaceAttr>(printer, places);
}
static ParseResult parseKernels(OpAsmParser &parser, ArrayAttr &kernels) {
  return parseStrippedList<KernelAttr>(parser, kernels);
}
static void printKernels(OpAsmPrinter &printer, Operation *,
                         ArrayAttr kernels) {
  printStrippedList<KernelAttr>(printer, kernels);
}

template <typename AttrT>
static ParseResult parseBareList(AsmParser &parser, ArrayAttr &list) {
  return parseList(parser, list, [&]() { return AttrT::parseBare(parser); });
}

template <typename AttrT>
static void printBareList(AsmPrinter &printer, Attribute list) {
  printList(printer, cast<ArrayAttr>(list).getValue(), [&](Attribute element) {
    cast<AttrT>(element).printBare(printer);
  });
}

template <typename AttrT>
static ParseResult parseBareLists(AsmParser &parser, ArrayAttr &lists) {
  return parseList(parser, lists, [&]() -> Attribute {
    ArrayAttr list;
    return parseBareList<AttrT>(parser, list) ? ArrayAttr() : list;
  });
}

static ParseResult parseRanks(OpAsmParser &parser, ArrayAttr &ranks) {
  return parseBareLists<ActionAttr>(parser, ranks);
}

/// A line for each rank.
static void printRanks(OpAsmPrinter &printer, Operation *, ArrayAttr ranks) {
  printer << "[";
  printer.increaseIndent();
  llvm::interleave(
      ranks,
      [&](Attribute rank) {
        printer.printNewline();
        printBareList<ActionAttr>(printer, rank);
      },
      [&]() { printer << ","; });
  printer.decreaseIndent();
  printer << "]";
}

#define GET_OP_CLASSES
#include "pp/Dialect/PP/IR/PPOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void StageOp::build(OpBuilder &builder, OperationState &state, TypeRange types,
                    int64_t stage, Phase phase, ValueRange inputs) {
  state.addTypes(types);
  state.addOperands(inputs);
  auto &properties = state.getOrAddProperties<Properties>();
  properties.stage = builder.getI64IntegerAttr(stage);
  properties.phase = PhaseAttr::get(builder.getContext(), phase);
  state.addRegion();
}

ParseResult StageOp::parse(OpAsmParser &parser, OperationState &result) {
  int64_t stage;
  auto &properties = result.getOrAddProperties<Properties>();
  if (parser.parseInteger(stage) || parsePhaseName(parser, properties.phase))
    return failure();
  properties.stage = parser.getBuilder().getI64IntegerAttr(stage);
  return parseBindings(parser, result, [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalKeyword("sources")))
      if (parser.parseLParen() ||
          parseBareList<EndAttr>(parser, properties.sources) ||
          parser.parseRParen())
        return failure();
    if (succeeded(parser.parseOptionalKeyword("targets")))
      if (parser.parseLParen() ||
          parseBareLists<EndAttr>(parser, properties.targets) ||
          parser.parseRParen())
        return failure();
    return success();
  });
}

void StageOp::print(OpAsmPrinter &printer) {
  printer << " " << getStage() << " " << pp::stringifyPhase(getPhase()) << " ";
  StringRef printed[] = {"stage", "phase", "sources", "targets"};
  printBindings(printer, *this, printed, [&]() {
    if (ArrayAttr sources = getSourcesAttr()) {
      printer << " sources(";
      printBareList<EndAttr>(printer, sources);
      printer << ")";
    }
    if (ArrayAttr targets = getTargetsAttr()) {
      printer << " targets(";
      printList(printer, targets.getValue(),
                [&](Attribute list) { printBareList<EndAttr>(printer, list); });
      printer << ")";
    }
  });
}

ReturnOp StageOp::getReturn() {
  return cast<ReturnOp>(getBody().front().getTerminator());
}

ArrayRef<Attribute> StageOp::getTargetsOf(unsigned result) {
  ArrayAttr targets = getTargetsAttr();
  return targets ? cast<ArrayAttr>(targets[result]).getValue()
                 : ArrayRef<Attribute>();
}

/// What `operand` is, as far as the operation alone shows.
static bool isPossible(StageOp stage, Value operand, EndAttr source) {
  auto producer = operand.getDefiningOp<StageOp>();
  if (producer && producer.getStage() == stage.getStage())
    return source.getKind() == (producer.getPhase() == Phase::Prepare
                                    ? EndKind::Prepared
                                    : EndKind::Residual);
  if (auto argument = dyn_cast<BlockArgument>(operand))
    return source.getKind() == EndKind::LossScale ||
           (source.getKind() == EndKind::Feed &&
            source.getNumber() == argument.getArgNumber());
  // Outside of a step that was cut, a value may come from anywhere.
  return source.getKind() == EndKind::Channel;
}

LogicalResult StageOp::verifyRegions() {
  if (getBody().getArgumentTypes() != getInputs().getTypes())
    return emitOpError("has block arguments of other types than its operands");
  if (getReturn().getValues().getTypes() != getOutputs().getTypes())
    return emitOpError("returns values of other types than its results");
  return success();
}

LogicalResult StageOp::verify() {
  if (getPhase() == Phase::Prepare && !getInputs().empty())
    return emitOpError() << "reads " << getInputs().size()
                         << " values, but prepare runs before there are any";
  if (getSources().has_value() != getTargets().has_value())
    return emitOpError("needs both sources and targets, or none of them");
  if (!getSources())
    return success();
  if (getSources()->size() != getInputs().size())
    return emitOpError() << "has " << getSources()->size() << " sources for "
                         << getInputs().size() << " operands";
  for (auto [number, operand, source] :
       llvm::enumerate(getInputs(), getSourcesAttr().getAsRange<EndAttr>()))
    if (!isPossible(*this, operand, source))
      return emitOpError() << "says that operand " << number << " comes from "
                           << source << ", but it does not";
  if (getTargets()->size() != getOutputs().size())
    return emitOpError() << "has targets for " << getTargets()->size()
                         << " results, but " << getOutputs().size();
  unsigned results = (*this)->getParentOfType<func::FuncOp>().getNumResults();
  for (unsigned result = 0; result < getOutputs().size(); ++result)
    for (Attribute target : getTargetsOf(result)) {
      auto end = cast<EndAttr>(target);
      bool isFetch = end.getKind() == EndKind::Fetch && end.getNumber() >= 0 &&
                     end.getNumber() < results;
      if (!isFetch && end.getKind() != EndKind::Channel &&
          end.getKind() != EndKind::Loss)
        return emitOpError() << "sends result " << result << " to " << end
                             << ", where no result can go";
    }
  // Places go with what they are for.
  if (getArgumentBuffers() &&
      getArgumentBuffers()->size() != getInputs().size())
    return emitOpError() << "has argument buffers for "
                         << getArgumentBuffers()->size() << " operands, but "
                         << getInputs().size();
  if (getCopies())
    for (auto copy : getCopiesAttr().getAsRange<CopyAttr>())
      if (copy.getResult() < 0 ||
          copy.getResult() >= static_cast<int64_t>(getOutputs().size()))
        return emitOpError() << "copies result " << copy.getResult()
                             << ", but has " << getOutputs().size();
  return success();
}

/// That `channel` moves the value of `type` between this end and another.
static LogicalResult verifyChannelEnd(StageOp stage, ChannelOp channel,
                                      FlatSymbolRefAttr name, Type type,
                                      bool isSource) {
  if (!channel)
    return stage.emitOpError()
           << "names " << name << ", which is not a channel";
  bool fits = isSource ? channel.getTo() == stage.getStage() &&
                             stage.getPhase() >= channel.getToPhase() &&
                             stage.getPhase() <= channel.getLastReader()
                       : channel.getFrom() == stage.getStage() &&
                             channel.getFromPhase() == stage.getPhase();
  if (!fits)
    return stage.emitOpError() << (isSource ? "reads from " : "writes to ")
                               << name << ", which does not end in this phase";
  if (channel.getType() != type)
    return stage.emitOpError() << "moves a " << type << " through " << name
                               << ", which is for " << channel.getType();
  return success();
}

LogicalResult StageOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto check = [&](EndAttr end, Type type, bool isSource) -> LogicalResult {
    if (end.getKind() != EndKind::Channel)
      return success();
    return verifyChannelEnd(
        *this,
        symbols.lookupNearestSymbolFrom<ChannelOp>(*this, end.getChannel()),
        end.getChannel(), type, isSource);
  };
  if (!getSources())
    return success();
  for (auto [operand, source] :
       llvm::zip(getInputs(), getSourcesAttr().getAsRange<EndAttr>()))
    if (failed(check(source, operand.getType(), /*isSource=*/true)))
      return failure();
  for (auto [number, result] : llvm::enumerate(getOutputs()))
    for (Attribute target : getTargetsOf(number))
      if (failed(check(cast<EndAttr>(target), result.getType(),
                       /*isSource=*/false)))
        return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Portals
//===----------------------------------------------------------------------===//

LogicalResult PortalOp::verify() {
  int64_t from = getFrom(), to = getTo();
  bool backward = getPhase() != Phase::Forward;
  if (!backward && to < from)
    return emitOpError() << "'" << getSymName()
                         << "' leads backward, from stage " << from
                         << " to stage " << to << ", in the forward phase";
  if (backward && to > from)
    return emitOpError() << "'" << getSymName()
                         << "' leads forward, from stage " << from
                         << " to stage " << to << ", in a backward phase";
  if (std::abs(to - from) < 2)
    return emitOpError() << "'" << getSymName() << "' skips no stage: " << from
                         << " and " << to << " are neighbours";
  return success();
}

/// Each portal has one stash and one pop. All portals of a table are matched
/// together, when the first of them is verified.
LogicalResult PortalOp::verifySymbolUses(SymbolTableCollection &) {
  for (Operation *op = (*this)->getPrevNode(); op; op = op->getPrevNode())
    if (isa<PortalOp>(op))
      return success();
  llvm::MapVector<StringRef,
                  std::pair<SmallVector<Operation *>, SmallVector<Operation *>>>
      ends;
  Operation *table = SymbolTable::getNearestSymbolTable(*this);
  table->walk([&](Operation *op) {
    if (auto stash = dyn_cast<StashOp>(op))
      ends[stash.getPortal()].first.push_back(op);
    if (auto pop = dyn_cast<PopOp>(op))
      ends[pop.getPortal()].second.push_back(op);
  });
  for (auto portal : table->getRegion(0).getOps<PortalOp>()) {
    auto &[stashes, pops] = ends[portal.getSymName()];
    for (auto [what, ops] : {std::pair(StringRef("stashed"), ArrayRef(stashes)),
                             std::pair(StringRef("popped"), ArrayRef(pops))}) {
      if (ops.size() == 1)
        continue;
      auto diagnostic = portal.emitOpError()
                        << "'" << portal.getSymName() << "' is " << what << " "
                        << ops.size() << " times, must be once";
      for (Operation *op : ops)
        diagnostic.attachNote(op->getLoc()) << "here";
      return diagnostic;
    }
  }
  return success();
}

/// The portal that `op` names, with the type of the value it moves.
static LogicalResult verifyPortalUse(Operation *op,
                                     SymbolTableCollection &symbols,
                                     FlatSymbolRefAttr name, Type type) {
  auto portal = symbols.lookupNearestSymbolFrom<PortalOp>(op, name);
  if (!portal)
    return op->emitOpError() << "names " << name << ", which is not a portal";
  if (portal.getType() != type)
    return op->emitOpError() << "moves a " << type << " through " << name
                             << ", which is for " << portal.getType();
  return success();
}

LogicalResult StashOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyPortalUse(*this, symbols, getPortalAttr(), getValue().getType());
}

LogicalResult PopOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyPortalUse(*this, symbols, getPortalAttr(), getValue().getType());
}

//===----------------------------------------------------------------------===//
// Channels and schedules
//===----------------------------------------------------------------------===//

LogicalResult ChannelOp::verify() {
  if (getFrom() == getTo())
    return emitOpError() << "'" << getSymName() << "' connects stage "
                         << getFrom() << " with itself";
  if (getToPhase() > getLastReader())
    return emitOpError() << "'" << getSymName() << "' is last read in "
                         << stringifyPhase(getLastReader())
                         << ", before it is first read in "
                         << stringifyPhase(getToPhase());
  bool isReceived = getReceiveOffset() && getReceiveSlots();
  if (isPlaced() != isReceived)
    return emitOpError() << "'" << getSymName()
                         << "' needs a release and receive slots, or none of "
                            "them";
  auto slotsOf = [](std::optional<ArrayRef<int64_t>> slots) {
    return slots ? *slots : ArrayRef<int64_t>();
  };
  ArrayRef<int64_t> send = slotsOf(getSendSlots()),
                    receive = slotsOf(getReceiveSlots());
  if (!send.empty() && send.size() != receive.size())
    return emitOpError() << "'" << getSymName() << "' has send slots for "
                         << send.size()
                         << " micro-batches and receive slots for "
                         << receive.size();
  for (int64_t slot : llvm::concat<const int64_t>(send, receive))
    if (slot < 0 || slot > largestActionNumber)
      return emitOpError() << "'" << getSymName() << "' has a slot " << slot;
  return success();
}

int64_t ScheduleOp::getReplicasOf(int64_t stage) {
  auto numbers = getStageReplicas();
  return numbers ? (*numbers)[stage] : static_cast<int64_t>(getReplicas());
}

int64_t ScheduleOp::getMicrobatchesOf(int64_t stage) {
  auto microbatches = static_cast<int64_t>(getMicrobatches());
  return getStageReplicas()
             ? llvm::divideCeil(microbatches, getReplicasOf(stage))
             : microbatches;
}

/// With copies of stages: each has a rank of its own.
static LogicalResult verifyStageReplicas(ScheduleOp op) {
  auto numbers = op.getStageReplicas();
  if (!numbers)
    return success();
  auto microbatches = static_cast<int64_t>(op.getMicrobatches());
  if (op.getReplicas() != 1 || op.getClockDistance())
    return op.emitOpError("has replicas of stages, so neither replicas of the "
                          "pipeline nor virtual workers");
  if (auto versions = op.getVersions();
      versions && versions->size() != numbers->size())
    return op.emitOpError() << "has numbers of versions for "
                            << versions->size() << " stages, but of replicas "
                            << "for " << numbers->size();
  for (int64_t number : *numbers)
    if (number < 1 || number > microbatches)
      return op.emitOpError() << "has " << number << " replicas of a stage for "
                              << microbatches << " micro-batches";
  SmallVector<int64_t> ranks(numbers->size(), 0);
  for (auto rank : op.getRanks().getAsRange<ArrayAttr>()) {
    std::optional<int64_t> stage;
    for (auto action : rank.getAsRange<ActionAttr>()) {
      if (stage.value_or(action.getStage()) != action.getStage())
        return op.emitOpError() << "has a rank with the stages " << *stage
                                << " and " << action.getStage()
                                << ", but with replicas of stages it has one";
      stage = action.getStage();
    }
    if (!stage || *stage >= static_cast<int64_t>(ranks.size()))
      return op.emitOpError("has a rank without a stage, or with one whose "
                            "number of replicas is not known");
    ++ranks[*stage];
  }
  if (ArrayRef(ranks) != *numbers)
    return op.emitOpError("has other numbers of ranks with a stage than "
                          "replicas of it");
  return success();
}

LogicalResult ScheduleOp::verify() {
  if (getMicrobatches() > largestActionNumber ||
      getReplicas() > largestActionNumber)
    return emitOpError() << "has more micro-batches or replicas than "
                         << largestActionNumber;
  if (failed(verifyStageReplicas(*this)))
    return failure();
  if (std::optional<uint64_t> distance = getClockDistance();
      distance && (!getVersions() || *distance > largestActionNumber))
    return emitOpError() << "has the clock distance "
                         << static_cast<int64_t>(*distance)
                         << ", which must not be negative, and is for a "
                            "schedule with versions";
  for (auto rank : getRanks().getAsRange<ArrayAttr>())
    for (auto action : rank.getAsRange<ActionAttr>()) {
      if (!getVersions() && (action.getLag() || action.getVersion()))
        return emitOpError() << "has the action '" << toString(action.getText())
                             << "' with a lag or a version, but no versions";
      if (pp::isOfWaves(action.getKind()) && !getClockDistance())
        return emitOpError() << "has the action '" << toString(action.getText())
                             << "', but no clock distance";
      if (action.getMicrobatch() >= static_cast<int64_t>(getMicrobatches()))
        return emitOpError()
               << "has the action '" << toString(action.getText())
               << "', but only " << getMicrobatches() << " micro-batches";
      if (action.getKind() == ActionKind::ReduceGradients &&
          getReplicasOf(action.getStage()) == 1)
        return emitOpError() << "has the action '" << toString(action.getText())
                             << "', but no replicas";
    }
  return success();
}

LogicalResult ScheduleOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // Each channel stands in the lists once per micro-batch.
  DenseMap<Attribute, ChannelOp> channels;
  for (auto rank : getRanks().getAsRange<ArrayAttr>())
    for (auto action : rank.getAsRange<ActionAttr>()) {
      FlatSymbolRefAttr name = action.getChannel();
      if (!name)
        continue;
      auto [entry, isNew] = channels.try_emplace(name);
      if (isNew)
        entry->second = symbols.lookupNearestSymbolFrom<ChannelOp>(*this, name);
      ChannelOp channel = entry->second;
      if (!channel)
        return emitOpError() << "names " << name << ", which is not a channel";
      int64_t end = action.getKind() == ActionKind::Send ? channel.getFrom()
                                                         : channel.getTo();
      bool isForward = channel.getFromPhase() == Phase::Forward;
      if (end != action.getStage() || isForward != action.getIsForward())
        return emitOpError()
               << "has the action '" << toString(action.getText()) << "', but "
               << name << " leads from stage " << channel.getFrom()
               << " to stage " << channel.getTo() << " in a "
               << (isForward ? "forward" : "backward") << " phase";
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

AreaRangeAttr MemoryOp::getArea(MemoryArea area) {
  for (auto range : getAreas().getAsRange<AreaRangeAttr>())
    if (range.getArea() == area)
      return range;
  return AreaRangeAttr::get(getContext(), area, 0, 0);
}

LogicalResult MemoryOp::verify() {
  auto total = static_cast<int64_t>(getTotal());
  int64_t end = 0;
  std::optional<MemoryArea> last;
  for (auto range : getAreas().getAsRange<AreaRangeAttr>()) {
    StringRef name = stringifyMemoryArea(range.getArea());
    if (last && range.getArea() <= *last)
      return emitOpError() << "area '" << name << "' stands after '"
                           << stringifyMemoryArea(*last) << "'";
    if (range.getOffset() < end || range.getBytes() < 0)
      return emitOpError() << "area '" << name << "' overlaps the one before";
    if (range.getBytes() > total - range.getOffset())
      return emitOpError() << "area '" << name << "' ends behind the total of "
                           << total << " bytes";
    end = range.getOffset() + range.getBytes();
    last = range.getArea();
  }
  for (auto [area, places] :
       {std::pair(MemoryArea::Parameters, getParameters()),
        std::pair(MemoryArea::Buffers, getBuffers()),
        std::pair(MemoryArea::Statistics, getStatistics())}) {
    int64_t last = 0;
    for (auto place : places.getAsRange<PlaceAttr>()) {
      if (place.getOffset() < last ||
          place.getOffset() > getArea(area).getBytes())
        return emitOpError()
               << place.getSymbol() << " lies at " << place.getOffset()
               << ", which is not in '" << stringifyMemoryArea(area)
               << "', or before the one before";
      last = place.getOffset();
    }
  }
  for (auto kernel : getKernels().getAsRange<KernelAttr>())
    if (kernel.getScratchpad() < 0)
      return emitOpError() << "has a kernel with a scratchpad of "
                           << kernel.getScratchpad() << " bytes";
  for (std::optional<uint64_t> kernel :
       {getOptimizerKernel(), getFiniteKernel(), getFiniteLossKernel(),
        getLossScaleKernel()})
    if (kernel && *kernel >= getKernels().size())
      return emitOpError() << "names kernel " << *kernel << ", but has "
                           << getKernels().size();
  if (llvm::any_of(getDiscards(), [](int64_t offset) { return offset < 0; }))
    return emitOpError("has a negative offset in 'discards'");
  return success();
}

LogicalResult MemoryOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (ArrayAttr places : {getParameters(), getBuffers(), getStatistics()})
    for (auto place : places.getAsRange<PlaceAttr>())
      if (!symbols.lookupNearestSymbolFrom<ml_program::GlobalOp>(
              *this, place.getSymbol()))
        return emitOpError() << "places " << place.getSymbol()
                             << ", which is no global of the program";
  return success();
}

bool pp::pipeline::isPreparedByUpdate(Operation *op) {
  if (!op->hasAttr(step::preparedByUpdateAttrName) ||
      op->getNumOperands() != 1 || op->getNumResults() != 1)
    return false;
  auto parameter = op->getOperand(0).getDefiningOp<KernelOpInterface>();
  auto isIn = [](Operation *maker, Area area) {
    auto buffers = maker->getAttrOfType<ArrayAttr>(buffersAttrName);
    return buffers && buffers.size() == 1 &&
           cast<BufferAttr>(buffers[0]).getArea() == area;
  };
  return parameter && parameter.getParameter() &&
         isIn(parameter, Area::Parameters) && isIn(op, Area::Prepared);
}
