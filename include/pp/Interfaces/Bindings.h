//===- Bindings.h - Operands under the names of arguments -------*- C++ -*-===//

#ifndef PP_INTERFACES_BINDINGS_H
#define PP_INTERFACES_BINDINGS_H

#include "mlir/IR/OpImplementation.h"

namespace pp {

/// Parses `(%argument = %operand, ...) attributes {...} : (types) -> types` and
/// one region with these arguments.
inline mlir::ParseResult parseBindings(mlir::OpAsmParser &parser,
                                       mlir::OperationState &result) {
  llvm::SmallVector<mlir::OpAsmParser::Argument> arguments;
  llvm::SmallVector<mlir::OpAsmParser::UnresolvedOperand> operands;
  mlir::FunctionType type;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseAssignmentList(arguments, operands) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return mlir::failure();
  for (auto [argument, input] : llvm::zip(arguments, type.getInputs()))
    argument.type = input;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

/// Prints what parseBindings parses, without the attributes `elided`.
inline void printBindings(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                          llvm::ArrayRef<llvm::StringRef> elided = {}) {
  mlir::Region &body = op->getRegion(0);
  printer << "(";
  llvm::interleaveComma(llvm::zip(body.getArguments(), op->getOperands()),
                        printer, [&](auto pair) {
                          printer << std::get<0>(pair) << " = "
                                  << std::get<1>(pair);
                        });
  printer << ")";
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(), elided);
  printer << " : ";
  printer.printFunctionalType(op);
  printer << " ";
  printer.printRegion(body, /*printEntryBlockArgs=*/false);
}

} // namespace pp

#endif // PP_INTERFACES_BINDINGS_H
