//===- Bindings.cpp - Operations with a region of bound values ------------===//

#include "pp/Interfaces/Bindings.h"

using namespace mlir;

ParseResult pp::parseBindings(OpAsmParser &parser, OperationState &result,
                              function_ref<ParseResult()> parseClauses) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseAssignmentList(arguments, operands) ||
      (parseClauses && parseClauses()) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  for (auto [argument, input] : llvm::zip_equal(arguments, type.getInputs()))
    argument.type = input;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

void pp::printBindings(OpAsmPrinter &printer, Operation *op,
                       ArrayRef<StringRef> printed,
                       function_ref<void()> printClauses) {
  Region &body = op->getRegion(0);
  printer << "(";
  llvm::interleaveComma(llvm::zip(body.getArguments(), op->getOperands()),
                        printer, [&](auto pair) {
                          printer << std::get<0>(pair) << " = "
                                  << std::get<1>(pair);
                        });
  printer << ")";
  if (printClauses)
    printClauses();
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(), printed);
  printer << " : ";
  printer.printFunctionalType(op);
  printer << " ";
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}
