//===- SampleCounts.h - Tensors made for a number of samples ----*- C++ -*-===//
//
// Models pick from each sample by the number of the sample: what PyTorch writes
// as `logits[arange(batch), last]` is exported as a gather from the flattened
// tensor, by `sample * length + last`. Such whole numbers grow from each sample
// to the next, by what is called their count here; 0 if all samples have the
// same or their own.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLECOUNTS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLECOUNTS_H

#include "ConstantElements.h"
#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

/// The count of the results of `op`, whose operands have `counts`. Fails where
/// an operand counts samples, and `op` does not just move or add or scale.
mlir::FailureOr<int64_t> countOfResults(mlir::Operation *op,
                                        llvm::ArrayRef<int64_t> counts);

/// `constant` as a sum of what all `batch` samples at `position` have and of
/// what counts them, an nn.iota; null if it is none. The operations are made
/// before it.
mlir::Value countWithIota(ConstantOp constant, BatchPosition position,
                          int64_t batch);

/// A parameter that has the same for all `batch` samples at `position`, as one
/// sample that is repeated; null if it is none. What exporters compute of the
/// batch's size and constants, they write as such a tensor.
mlir::Value repeatOne(ParameterOp parameter, ConstantElements &elements,
                      BatchPosition position, int64_t batch);

/// Where a gather along the axis of the samples picks by indices that count
/// them: the same pick within each sample.
struct OwnSampleGather {
  /// With the samples, from which `positions` leads, in each.
  llvm::SmallVector<std::pair<mlir::Value, BatchPosition>> values;
  /// Has the shape of the gather's result.
  mlir::Value result;
};

/// Splits `gather`, whose samples, `batch` of them, are at `input` and
/// `indices`, so that each sample picks from itself. `indices` have the size of
/// a sample along the axis as their count. An index that leads out of its
/// sample is outside of the axis then. The operations are made before `gather`,
/// which stays.
OwnSampleGather pickFromOwnSample(GatherOp gather, BatchPosition input,
                                  BatchPosition indices, int64_t batch);

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLECOUNTS_H
