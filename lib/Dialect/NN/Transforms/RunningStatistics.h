//===- RunningStatistics.h - What micro-batches count in statistics -------===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_RUNNINGSTATISTICS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_RUNNINGSTATISTICS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pp::nn {

/// Gives the summands of running statistics weights. Where mini-batches may
/// have fewer samples than `microbatches` of `batch` (`samples` of
/// nn.commit_statistics), a micro-batch counts by the samples that it has.
/// Those that each micro-batch moves (`each`) get the weights that they have
/// after the last one, so that they may be added in any order: of M
/// micro-batches, number k has
///
///     momentum (1 - momentum)^(uses (M - 1 - k))
///
/// where M and k follow from the random counter, which the function gets if it
/// has none. Reports an error if an input has the counter's name.
mlir::LogicalResult weighStatistics(mlir::func::FuncOp function,
                                    int64_t microbatches, int64_t batch);

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_RUNNINGSTATISTICS_H
