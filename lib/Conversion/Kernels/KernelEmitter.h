//===- KernelEmitter.h - nn operations as loops over memory -----*- C++ -*-===//
//
// A generated kernel becomes a function on memrefs: the operands, then the
// results, all row-major and disjoint, and before them the states that the
// kernel adds to. Its body is linalg on memrefs, so there
// is nothing to bufferize: temporaries are rows on the stack.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_CONVERSION_KERNELS_KERNELEMITTER_H
#define PP_LIB_CONVERSION_KERNELS_KERNELEMITTER_H

#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/PP/IR/PP.h"

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace pp {

/// The scalar operation that an elementwise nn operation does per element;
/// null if it is not known.
mlir::Value emitScalar(mlir::OpBuilder &builder, mlir::Location loc,
                       mlir::Operation *op, mlir::ValueRange operands);

/// Natural logarithm and power of numbers, right for every argument: denormal
/// ones, negative bases, zeros, infinities.
mlir::Value emitLog(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value x);
mlir::Value emitPower(mlir::OpBuilder &builder, mlir::Location loc,
                      mlir::Value base, mlir::Value exponent);

/// The block of Philox4x32-10 with this counter.
std::array<mlir::Value, 4> emitPhilox(mlir::OpBuilder &builder,
                                      mlir::Location loc,
                                      std::array<mlir::Value, 4> counter,
                                      std::array<mlir::Value, 2> key);
/// The number in [0, 1) that a word stands for.
mlir::Value emitUnit(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value word);
/// What `nn.uniform` draws for `element` of a sample with `elements` of them;
/// `counter` lacks the first word.
mlir::Value emitUniform(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value element, int64_t elements,
                        std::array<mlir::Value, 3> counter,
                        std::array<mlir::Value, 2> key);

/// What computes with elements of a type: integers with and without a sign are
/// the same bits.
mlir::Type getScalarType(mlir::Type element);

/// The memref of a dense tensor.
mlir::MemRefType getMemRefType(mlir::Type tensor);

/// Where tensor values of a kernel lie, while its body is emitted.
class KernelEmitter {
public:
  /// `lanes`: of vectors, which rows are made to fill; 1 for the threads of a
  /// GPU.
  KernelEmitter(mlir::OpBuilder &builder, mlir::Location loc, unsigned lanes)
      : builder(builder), loc(loc), lanes(lanes) {}

  /// Says that `value` is in (or will be written to) `memory`.
  void bind(mlir::Value value, mlir::Value memory) { memories[value] = memory; }
  /// Says that `value` will be added to what is in `memory`.
  void bindSum(mlir::Value value, mlir::Value memory) {
    bind(value, memory);
    summands.insert(value);
  }
  mlir::Value memoryOf(mlir::Value value) const {
    return memories.lookup(value);
  }

  /// Emits the code that writes all `results` of a region (values that its
  /// terminator yields, bound before).
  llvm::LogicalResult emit(mlir::ValueRange results);

private:
  llvm::LogicalResult emitOperation(mlir::Operation *op);

  // Operations on rows, which cast by themselves.
  /// What `value` is cast from, if its reader does that.
  mlir::Value withoutWidening(mlir::Value value) const;
  mlir::Value sourceOf(mlir::Value operand) const {
    return memoryOf(withoutWidening(operand));
  }
  /// Where a result and its short copy go; empty if nothing reads it.
  llvm::SmallVector<mlir::Value> destinationsOf(mlir::Value result) const;

  /// Makes sure that an operand is in memory; small values that the kernel
  /// computes itself go to the stack.
  llvm::LogicalResult materialize(mlir::Value value);
  /// One loop nest for an elementwise result, with a reduction at the end if
  /// `value` is one.
  llvm::LogicalResult emitLoop(mlir::Value value);
  /// One loop nest for elementwise results of one shape, which are written as
  /// they are, or several where numbers are drawn.
  llvm::LogicalResult emitLoops(llvm::ArrayRef<mlir::Value> values);
  /// Whether emitLoops() takes `value` beside `others`.
  bool isWrittenBeside(llvm::ArrayRef<mlir::Value> others,
                       mlir::Value value) const;

  llvm::LogicalResult emitSlice(nn::SliceOp op);
  llvm::LogicalResult emitPad(nn::PadOp op);
  llvm::LogicalResult emitConcat(nn::ConcatOp op);
  llvm::LogicalResult emitGather(nn::GatherOp op);
  llvm::LogicalResult emitScatterAdd(nn::ScatterAddOp op);
  llvm::LogicalResult emitScatter(nn::ScatterOp op);
  llvm::LogicalResult emitCumSum(nn::CumSumOp op);
  llvm::LogicalResult emitTopK(nn::TopKOp op);
  llvm::LogicalResult emitTranspose(nn::TransposeOp op);
  llvm::LogicalResult emitDotGeneral(nn::DotGeneralOp op);
  llvm::LogicalResult emitSoftmax(nn::SoftmaxOp op);
  llvm::LogicalResult emitLogSoftmax(nn::LogSoftmaxOp op);
  llvm::LogicalResult emitLayerNorm(nn::LayerNormOp op);
  llvm::LogicalResult emitLayerNormBackward(nn::LayerNormBackwardOp op);
  llvm::LogicalResult emitChannelMoments(nn::ChannelMomentsOp op);
  llvm::LogicalResult emitChannelSums(nn::ChannelSumsOp op);
  llvm::LogicalResult emitCtcLoss(nn::CtcLossOp op);
  llvm::LogicalResult emitCtcLossBackward(nn::CtcLossBackwardOp op);
  llvm::LogicalResult emitCrossEntropy(nn::SoftmaxCrossEntropyOp op);
  llvm::LogicalResult
  emitCrossEntropyBackward(nn::SoftmaxCrossEntropyBackwardOp op);

  bool isForGpu() const { return lanes == 1; }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  int64_t lanes;
  llvm::DenseMap<mlir::Value, mlir::Value> memories;
  llvm::DenseSet<mlir::Value> summands;
};

} // namespace pp

#endif // PP_LIB_CONVERSION_KERNELS_KERNELEMITTER_H
