//===- Operators.h - Which ONNX operators are imported ----------*- C++ -*-===//

#ifndef PP_IMPORT_OPERATORS_H
#define PP_IMPORT_OPERATORS_H

#include "llvm/Support/raw_ostream.h"

namespace pp {

/// Prints a row for each operator of ai.onnx that is imported, as a table in
/// Markdown: its opsets, the types of its data, whether it has a derivative,
/// and what of it is refused.
void printOperators(llvm::raw_ostream &os);

} // namespace pp

#endif // PP_IMPORT_OPERATORS_H
