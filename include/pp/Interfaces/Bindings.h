//===- Bindings.h - Operations with a region of bound values ----*- C++ -*-===//
//
// The assembly of operations that are isolated from above:
//
//   op (%a = %x, %b = %y) attributes {...} : (T, T) -> T { ... }
//
//===----------------------------------------------------------------------===//

#ifndef PP_INTERFACES_BINDINGS_H
#define PP_INTERFACES_BINDINGS_H

#include "mlir/IR/OpImplementation.h"

namespace pp {

/// Parses from the bindings on. `parseClauses` parses what stands between them
/// and the attributes.
mlir::ParseResult
parseBindings(mlir::OpAsmParser &parser, mlir::OperationState &result,
              llvm::function_ref<mlir::ParseResult()> parseClauses = {});

/// Prints what parseBindings parses; `printed` are the attributes that stand
/// elsewhere.
void printBindings(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                   llvm::ArrayRef<llvm::StringRef> printed = {},
                   llvm::function_ref<void()> printClauses = {});

} // namespace pp

#endif // PP_INTERFACES_BINDINGS_H
