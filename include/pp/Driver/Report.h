//===- Report.h - The plan in words -----------------------------*- C++ -*-===//

#ifndef PP_DRIVER_REPORT_H
#define PP_DRIVER_REPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace pp {

/// Prints what --dry-run shows of each program of a lowered module: the stages
/// with their ONNX nodes, times, parameters and memory, and the schedule as a
/// timeline with its bubble.
llvm::Error printReport(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace pp

#endif // PP_DRIVER_REPORT_H
