//===- InitAll.h - Dialects and passes of all tools -------------*- C++ -*-===//

#ifndef PP_DRIVER_INITALL_H
#define PP_DRIVER_INITALL_H

namespace mlir {
class DialectRegistry;
}

namespace pp {

/// The dialects of pp-mlir and those that it lowers to.
void registerAllDialects(mlir::DialectRegistry &registry);

/// The passes of pp-mlir, and those of MLIR that are of use next to them.
void registerAllPasses();

} // namespace pp

#endif // PP_DRIVER_INITALL_H
