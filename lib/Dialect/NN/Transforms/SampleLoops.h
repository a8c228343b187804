//===- SampleLoops.h - Models that take samples one by one ------*- C++ -*-===//
//
// Models go through their samples in a loop, which is unrolled:
// `stack([f(row) for row in x])`, or PyTorch's EmbeddingBag as it is exported.
// Each sample then has operations of its own, from a part of the input to a
// part of the result.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLELOOPS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLELOOPS_H

#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

class SampleLoops {
public:
  explicit SampleLoops(int64_t batch) : batch(batch) {}

  /// Whether `value` is of one sample alone.
  bool isSingle(mlir::Value value) const { return samples.contains(value); }
  bool hasSingle(mlir::Operation *op) const;

  /// Whether `op` takes a part of one sample from its first operand, which has
  /// the samples at `position`. Its result is of that sample from here on.
  bool take(mlir::Operation *op, BatchPosition position);
  /// `op` has an operand of one sample, and none of all samples. Fails where
  /// the operands are of several samples; else so are the results.
  mlir::LogicalResult follow(mlir::Operation *op);
  /// Where the samples of `concat` are, if it joins the parts of all samples in
  /// their order, and all are computed in the same way.
  BatchPosition join(ConcatOp concat);

  /// Leaves the first `newBatch` samples of `block`, of no more than there
  /// were.
  void shrink(mlir::Block &block, int64_t newBatch);

private:
  /// What was taken from all samples: from which elements on, by axis, and the
  /// elements of a sample on the axis of the samples.
  struct Part {
    int64_t axis, inner;
    llvm::SmallVector<int64_t> elements;
  };
  std::optional<Part> readPart(mlir::Operation *op,
                               BatchPosition position) const;
  /// Whether `value`, of sample `sample`, is computed as `first` is of the
  /// first one; `equal` gets what is, if it is.
  bool isSame(mlir::Value value, mlir::Value first, int64_t sample,
              llvm::DenseMap<mlir::Value, mlir::Value> &equal) const;
  /// The same of two operations that take parts of a sample.
  bool isSamePart(mlir::Operation *op, mlir::Operation *first,
                  int64_t sample) const;

  int64_t batch;
  /// By value of one sample.
  llvm::DenseMap<mlir::Value, int64_t> samples;
  llvm::DenseMap<mlir::Operation *, Part> parts;
  llvm::SmallVector<ConcatOp> joined;
};

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLELOOPS_H
