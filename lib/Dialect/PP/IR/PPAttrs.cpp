//===- PPAttrs.cpp - Assembly and verifiers of the pp attributes ----------===//

#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace pp::pipeline;

#include "pp/Dialect/PP/IR/PPEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "pp/Dialect/PP/IR/PPAttrs.cpp.inc"

void PPDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "pp/Dialect/PP/IR/PPAttrs.cpp.inc"
      >();
}

/// `<bare form>`.
template <typename AttrT> static Attribute parseAngled(AsmParser &parser) {
  if (parser.parseLess())
    return {};
  AttrT attribute = AttrT::parseBare(parser);
  return !attribute || parser.parseGreater() ? AttrT() : attribute;
}

template <typename AttrT>
static void printAngled(AsmPrinter &printer, AttrT attribute) {
  printer << "<";
  attribute.printBare(printer);
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Actions
//===----------------------------------------------------------------------===//

pp::ActionText ActionAttr::getText() {
  return {getKind(), getStage(), getIsForward(), getMicrobatch()};
}

ActionAttr ActionAttr::withSlot(int64_t slot) {
  return get(getContext(), getKind(), getStage(), getIsForward(),
             getMicrobatch(), getChannel(), slot, getLag(), getVersion());
}

ActionAttr ActionAttr::parseBare(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  int64_t stage;
  StringRef word;
  // MLIR's lexer cuts 0F2 into 0 and F2.
  if (parser.parseInteger(stage) || parser.parseKeyword(&word))
    return {};
  std::string text = std::to_string(stage) + word.str();
  std::optional<ActionText> action = parseActionText(text);
  if (!action)
    return parser.emitError(loc)
               << "'" << text
               << "' is no action; expected one such as 0F0, 1B3 or 0SEND_F1",
           ActionAttr();
  FlatSymbolRefAttr channel;
  StringAttr symbol;
  if (succeeded(parser.parseOptionalSymbolName(symbol)))
    channel = FlatSymbolRefAttr::get(symbol);
  std::optional<int64_t> slot;
  if (succeeded(parser.parseOptionalLSquare()))
    if (parser.parseInteger(slot.emplace()) || parser.parseRSquare())
      return {};
  int lag = 0, version = 0;
  if (succeeded(parser.parseOptionalKeyword("lag")) && parser.parseInteger(lag))
    return {};
  if (succeeded(parser.parseOptionalKeyword("version")) &&
      parser.parseInteger(version))
    return {};
  return parser.getChecked<ActionAttr>(
      loc, parser.getContext(), action->kind, action->stage, action->isForward,
      action->microbatch, channel, slot, lag, version);
}

void ActionAttr::printBare(AsmPrinter &printer) {
  printer << toString(getText());
  if (FlatSymbolRefAttr channel = getChannel()) {
    printer << " ";
    printer.printSymbolName(channel.getValue());
  }
  if (std::optional<int64_t> slot = getSlot())
    printer << "[" << *slot << "]";
  if (getLag())
    printer << " lag " << getLag();
  if (getVersion())
    printer << " version " << getVersion();
}

Attribute ActionAttr::parse(AsmParser &parser, Type) {
  return parseAngled<ActionAttr>(parser);
}

void ActionAttr::print(AsmPrinter &printer) const {
  printAngled(printer, *this);
}

LogicalResult ActionAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ActionKind kind, int stage, bool isForward,
                                 int microbatch, FlatSymbolRefAttr channel,
                                 std::optional<int64_t> slot, int lag,
                                 int version) {
  std::string text = toString(ActionText{kind, stage, isForward, microbatch});
  auto refuse = [&](const char *why) {
    return emitError() << "'" << text << "' " << why;
  };
  if (kind == ActionKind::AllReduce || pp::isOfExecutor(kind))
    return refuse("cannot be run: the runtime adds up only the gradients of "
                  "replicas");
  if (pp::isPerStep(kind) != (microbatch < 0))
    return refuse("must name a micro-batch, except for P, U, PUSH, PULL and "
                  "REDUCE_GRAD");
  if (stage < 0 || std::max(stage, microbatch) > largestActionNumber)
    return refuse("has a number that is too large");
  if (isTransfer(kind) != static_cast<bool>(channel))
    return refuse("must name a channel if, and only if, it is a transfer");
  if (slot && (*slot < 0 || pp::isPerStep(kind) || isTransfer(kind)))
    return refuse("cannot have this residual slot");
  if (lag < 0 || lag > largestActionNumber ||
      std::abs(version) > largestActionNumber)
    return refuse("cannot have this lag or version");
  if (version && isTransfer(kind))
    return refuse("uses no weights, so it has no version");
  return success();
}

//===----------------------------------------------------------------------===//
// Ends
//===----------------------------------------------------------------------===//

static bool isNumbered(EndKind kind) {
  return kind == EndKind::Feed || kind == EndKind::Fetch;
}

EndAttr EndAttr::parseBare(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return {};
  std::optional<EndKind> kind = symbolizeEndKind(word);
  if (!kind)
    return parser.emitError(loc)
               << "unknown end '" << word
               << "'; known: residual, prepared, channel @name, feed N, "
                  "fetch N, loss, loss_scale",
           EndAttr();
  int64_t number = 0;
  StringAttr channel;
  if (*kind == EndKind::Channel && parser.parseSymbolName(channel))
    return {};
  if (isNumbered(*kind) && parser.parseInteger(number))
    return {};
  if (channel)
    return get(FlatSymbolRefAttr::get(channel));
  return get(parser.getContext(), *kind, number);
}

void EndAttr::printBare(AsmPrinter &printer) {
  printer << stringifyEndKind(getKind());
  if (isNumbered(getKind()))
    printer << " " << getNumber();
  if (FlatSymbolRefAttr channel = getChannel()) {
    printer << " ";
    printer.printSymbolName(channel.getValue());
  }
}

Attribute EndAttr::parse(AsmParser &parser, Type) {
  return parseAngled<EndAttr>(parser);
}

void EndAttr::print(AsmPrinter &printer) const { printAngled(printer, *this); }
