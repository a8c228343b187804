//===- Pieces.h - Sizes of the pieces of a tensor ---------------*- C++ -*-===//

#ifndef PP_LIB_IMPORT_PIECES_H
#define PP_LIB_IMPORT_PIECES_H

#include "NodeImporter.h"

namespace pp {

/// What pieces of these sizes are together; fails with an error where one is no
/// size.
mlir::FailureOr<int64_t> sumOfPieces(NodeImporter &n,
                                     llvm::ArrayRef<int64_t> sizes);

} // namespace pp

#endif // PP_LIB_IMPORT_PIECES_H
