//===- PPOps.cpp - Verifiers and assembly of the pp operations ------------===//

#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace pp::pipeline;

/// A bare word for a string attribute.
static ParseResult parseWord(OpAsmParser &parser, StringAttr &word) {
  StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  word = parser.getBuilder().getStringAttr(keyword);
  return success();
}

static void printWord(OpAsmPrinter &printer, Operation *, StringAttr word) {
  printer << word.getValue();
}

/// The bare name of a phase.
static ParseResult parsePhaseName(OpAsmParser &parser, PhaseAttr &phase) {
  StringRef name;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name))
    return failure();
  std::optional<Phase> value = pp::symbolizePhase(name);
  if (!value)
    return parser.emitError(loc) << "unknown phase '" << name << "'";
  phase = PhaseAttr::get(parser.getContext(), *value);
  return success();
}

static void printPhaseName(OpAsmPrinter &printer, Operation *,
                           PhaseAttr phase) {
  printer << pp::stringifyPhase(phase.getValue());
}

#define GET_OP_CLASSES
#include "pp/Dialect/PP/IR/PPOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

ParseResult StageOp::parse(OpAsmParser &parser, OperationState &result) {
  int64_t stage;
  PhaseAttr phase;
  if (parser.parseInteger(stage) || parsePhaseName(parser, phase))
    return failure();
  result.addAttribute("stage", parser.getBuilder().getI64IntegerAttr(stage));
  result.addAttribute("phase", phase);

  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  auto parseBinding = [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back()) ||
                   parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()));
  };
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren,
                                     parseBinding) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  for (auto [argument, input] : llvm::zip(arguments, type.getInputs()))
    argument.type = input;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

void StageOp::print(OpAsmPrinter &printer) {
  printer << " " << getStage() << " " << pp::stringifyPhase(getPhase()) << " (";
  llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()),
                        printer, [&](auto pair) {
                          printer << std::get<0>(pair) << " = "
                                  << std::get<1>(pair);
                        });
  printer << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"stage", "phase"});
  printer << " : ";
  printer.printFunctionalType(*this);
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

ReturnOp StageOp::getReturn() {
  return cast<ReturnOp>(getBody().front().getTerminator());
}

LogicalResult StageOp::verify() {
  if (static_cast<int64_t>(getStage()) < 0)
    return emitOpError() << "has the negative number "
                         << static_cast<int64_t>(getStage());
  Block &body = getBody().front();
  if (body.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("has block arguments of other types than its operands");
  auto ret = dyn_cast<ReturnOp>(body.getTerminator());
  if (!ret || ret.getValues().getTypes() != getOutputs().getTypes())
    return emitOpError("returns values of other types than its results");
  return success();
}

//===----------------------------------------------------------------------===//
// Portals
//===----------------------------------------------------------------------===//

LogicalResult PortalOp::verify() {
  int64_t from = getFrom(), to = getTo();
  bool backward = getPhase() != Phase::Forward;
  if (from < 0 || to < 0)
    return emitOpError() << "'" << getSymName() << "' names a negative stage";
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

/// Portals are matched in their module: each has one stash and one pop.
LogicalResult PortalOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Operation *table = SymbolTable::getNearestSymbolTable(*this);
  SmallVector<StashOp> stashes;
  SmallVector<PopOp> pops;
  table->walk([&](Operation *op) {
    if (auto stash = dyn_cast<StashOp>(op);
        stash && stash.getPortal() == getSymName())
      stashes.push_back(stash);
    if (auto pop = dyn_cast<PopOp>(op); pop && pop.getPortal() == getSymName())
      pops.push_back(pop);
  });
  auto count = [&](StringRef what, size_t number, auto &ops) -> LogicalResult {
    if (number == 1)
      return success();
    auto diagnostic = emitOpError() << "'" << getSymName() << "' is " << what
                                    << " " << number << " times, must be once";
    for (auto op : ops)
      diagnostic.attachNote(op.getLoc()) << "here";
    return diagnostic;
  };
  if (failed(count("stashed", stashes.size(), stashes)) ||
      failed(count("popped", pops.size(), pops)))
    return failure();
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
  if (!getSendSlots().empty() &&
      getSendSlots().size() != getReceiveSlots().size())
    return emitOpError() << "'" << getSymName() << "' has send slots for "
                         << getSendSlots().size()
                         << " micro-batches and receive slots for "
                         << getReceiveSlots().size();
  return success();
}

/// A number of bytes, or an offset, in a dictionary; nothing if it is none.
static std::optional<int64_t> bytesOf(DictionaryAttr entry, StringRef key) {
  auto value = entry ? entry.getAs<IntegerAttr>(key) : nullptr;
  if (!value || value.getInt() < 0)
    return std::nullopt;
  return value.getInt();
}

LogicalResult MemoryOp::verify() {
  for (NamedAttribute area : getAreas()) {
    auto entry = dyn_cast<DictionaryAttr>(area.getValue());
    auto offset = bytesOf(entry, "offset"), bytes = bytesOf(entry, "bytes");
    if (!offset || !bytes)
      return emitOpError() << "area '" << area.getName().getValue()
                           << "' needs an offset and a number of bytes";
    if (*offset + *bytes > static_cast<int64_t>(getTotal()))
      return emitOpError() << "area '" << area.getName().getValue()
                           << "' ends behind the total of " << getTotal()
                           << " bytes";
  }
  for (StringRef area : {"parameters", "buffers", "statistics"}) {
    auto places = dyn_cast_or_null<DictionaryAttr>(getSymbols().get(area));
    if (!places)
      return emitOpError() << "symbols have no dictionary '" << area << "'";
    for (NamedAttribute place : places)
      if (!bytesOf(places, place.getName()))
        return emitOpError() << "'" << place.getName().getValue()
                             << "' has no offset in '" << area << "'";
  }
  // What the plan is written from is there, or is not, as a whole.
  auto library = (*this)->getAttrOfType<ArrayAttr>("library");
  auto discards = (*this)->getAttrOfType<ArrayAttr>("discards");
  auto statistics = (*this)->getAttrOfType<IntegerAttr>("discard_statistics");
  bool isWhole = library && discards && statistics;
  if (!isWhole && (library || discards || statistics))
    return emitOpError("needs 'library', 'discards' and 'discard_statistics'");
  if (!isWhole)
    return success();
  for (Attribute kernel : library) {
    auto entry = dyn_cast<DictionaryAttr>(kernel);
    if (!bytesOf(entry, "scratchpad") || !entry.getAs<StringAttr>("descriptor"))
      return emitOpError("'library' holds what is no kernel with a descriptor "
                         "and a scratchpad: ")
             << kernel;
  }
  for (Attribute offset : discards)
    if (!isa<IntegerAttr>(offset))
      return emitOpError("'discards' holds what is no offset: ") << offset;
  return success();
}

LogicalResult ScheduleOp::verify() {
  auto isListOfLists = [](ArrayAttr lists, auto isElement) {
    return llvm::all_of(lists, [&](Attribute list) {
      auto array = dyn_cast<ArrayAttr>(list);
      return array && llvm::all_of(array, isElement);
    });
  };
  if (!isListOfLists(getRanks(), llvm::IsaPred<StringAttr>))
    return emitOpError("needs a list of action names for each rank");
  if (getSlots() && !isListOfLists(*getSlots(), llvm::IsaPred<IntegerAttr>))
    return emitOpError("needs a list of slot numbers for each rank");
  auto size = [](Attribute list) { return cast<ArrayAttr>(list).size(); };
  if (getSlots() && !llvm::equal(llvm::map_range(getRanks(), size),
                                 llvm::map_range(*getSlots(), size)))
    return emitOpError("needs a slot for each action");
  if (static_cast<int64_t>(getMicrobatches()) < 1)
    return emitOpError("needs one or more micro-batches");
  if (static_cast<int64_t>(getReplicas()) < 1)
    return emitOpError("needs one or more replicas");
  return success();
}
