//===- RunningStatistics.h - Statistics that each micro-batch moves -------===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_RUNNINGSTATISTICS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_RUNNINGSTATISTICS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pp::nn {

/// Gives the summands of running statistics that each micro-batch moves (`each`
/// of nn.commit_statistics) the weights that they have after the last one, so
/// that they may be added in any order. With M = `microbatches` of `batch`
/// samples, micro-batch k has
///
///     momentum (1 - momentum)^(M - 1 - k)
///
/// where k follows from the random counter, which the function gets if it has
/// none. Reports an error if an input has the counter's name.
mlir::LogicalResult weighStatistics(mlir::func::FuncOp function,
                                    int64_t microbatches, int64_t batch);

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_RUNNINGSTATISTICS_H
