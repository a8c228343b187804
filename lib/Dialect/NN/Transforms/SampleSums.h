//===- SampleSums.h - Losses that the model adds up itself ------*- C++ -*-===//
//
// A model with a loss of its own adds up terms of its samples. A micro-batch
// has the terms of some, so what follows is followed as far as it is linear:
// then what the micro-batches of a mini-batch have adds up to what the
// mini-batch has.
//
//   %sum = nn.reduce sum %terms [0]     a part in each micro-batch
//   %mean = nn.mul %sum, %reciprocal    of all samples: a part, too
//   %loss = nn.add %mean, %penalty      the penalty is shared: each micro-batch
//                                       takes its share of it
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLESUMS_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLESUMS_H

#include "pp/Dialect/NN/IR/NN.h"

#include "llvm/ADT/SetVector.h"

namespace pp::nn {

class SampleSums {
public:
  /// A quotient of two sums is a mean over samples of which not all count. With
  /// `averagesMeans`, that of a mini-batch is the mean of those of its
  /// micro-batches.
  explicit SampleSums(bool averagesMeans) : averagesMeans(averagesMeans) {}

  bool isSum(mlir::Value value) const { return sums.contains(value); }
  bool hasSum(mlir::Operation *op) const {
    return llvm::any_of(op->getOperands(),
                        [&](mlir::Value value) { return isSum(value); });
  }

  /// Whether `op` adds up what has its samples at `position`; then its result
  /// is a sum.
  bool take(mlir::Operation *op, BatchPosition position);
  /// `op` has an operand that is a sum, and none of samples. Fails with an
  /// error where its results are no sums.
  mlir::LogicalResult follow(mlir::Operation *op);
  /// Gives each micro-batch its `share` of what is not of samples. Once, when
  /// all operations were followed.
  void divide(double share);

private:
  bool averagesMeans;
  llvm::SmallSetVector<mlir::Value, 8> sums;
  /// What is divided where it is used, and what is wherever it is.
  llvm::SmallVector<mlir::OpOperand *> sharedOperands;
  llvm::SmallVector<mlir::Value> means;
};

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_SAMPLESUMS_H
