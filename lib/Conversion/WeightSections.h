//===- WeightSections.h - Parts of W that have nothing in common *- C++ -*-===//

#ifndef PP_LIB_CONVERSION_WEIGHTSECTIONS_H
#define PP_LIB_CONVERSION_WEIGHTSECTIONS_H

#include "pp/Dialect/PP/IR/PP.h"

namespace pp {

/// The operations of a phase that emit code, in sets that share no value but
/// those that the phase is given, and no state that they change. So each set
/// can run for several micro-batches before the next one begins, in scratch
/// memory that was planned for one, and each state is still changed in the
/// order of the micro-batches:
///
///   %g = kernel(%x)              ┐ one set
///   accumulate %g into @w        ┘
///   matmul(%x, %y), add to @v    - another one
///
/// Sets are in the order of their first operations, and these in theirs.
llvm::SmallVector<llvm::SmallVector<mlir::Operation *>>
findWeightSections(pipeline::StageOp phase);

} // namespace pp

#endif // PP_LIB_CONVERSION_WEIGHTSECTIONS_H
