//===- ModelHash.h - Which model a program trains ---------------*- C++ -*-===//

#ifndef PP_DRIVER_MODELHASH_H
#define PP_DRIVER_MODELHASH_H

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace pp {

struct CompileOptions;

/// 16 hexadecimal digits of what was imported, its loss and the kind of its
/// optimizer, so that a snapshot of another model can be refused. The same for
/// every partition, schedule, number of replicas, precision and target, and for
/// any values of the weights.
std::string hashModel(mlir::ModuleOp imported, const CompileOptions &options);

} // namespace pp

#endif // PP_DRIVER_MODELHASH_H
