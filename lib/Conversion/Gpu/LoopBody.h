//===- LoopBody.h - The body of a linalg operation in a thread --*- C++ -*-===//
//
// A thread of a GPU runs the body of a loop nest for some consecutive points of
// its innermost loop ("lanes"), so that it can load and store 16 bytes at once.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_CONVERSION_GPU_LOOPBODY_H
#define PP_LIB_CONVERSION_GPU_LOOPBODY_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"

namespace pp {

/// Splits a linear position into indices of a box, innermost last. Divides in
/// 32 bits where that is enough.
llvm::SmallVector<mlir::Value> delinearize(mlir::OpBuilder &builder,
                                           mlir::Location loc,
                                           mlir::Value position,
                                           llvm::ArrayRef<int64_t> sizes);

/// A linalg.generic on memrefs with static shapes whose maps are projected
/// permutations.
class LoopBody {
public:
  /// `mapping` leads from values outside of the operation to those in the
  /// kernel.
  LoopBody(mlir::linalg::GenericOp op, mlir::IRMapping &mapping)
      : op(op), mapping(mapping) {}

  llvm::ArrayRef<int64_t> getSizes();

  /// 4 where the innermost loop can run 4 points at a time with vector stores
  /// (of a parallel loop) or vector loads (of a reduction), else 1.
  int64_t getLanes();

  /// Parallel loops: computes the lanes from `indices` on and stores them.
  void emitStores(mlir::OpBuilder &builder, mlir::ValueRange indices,
                  int64_t lanes);

  /// Reductions: the operation that combines the old value with a new one.
  mlir::Operation *getCombiner();
  /// What nothing is changed by in the combiner.
  mlir::Value emitIdentity(mlir::OpBuilder &builder);
  /// combiner(x, y).
  mlir::Value emitCombine(mlir::OpBuilder &builder, mlir::Value x,
                          mlir::Value y);
  /// Combines the lanes from `indices` on into `sum`.
  mlir::Value emitReduced(mlir::OpBuilder &builder, mlir::ValueRange indices,
                          int64_t lanes, mlir::Value sum);

  /// Runs the body for one point: `operands` are the values of all operands;
  /// returns those of the results.
  llvm::SmallVector<mlir::Value> emitPoint(mlir::OpBuilder &builder,
                                           mlir::ValueRange indices,
                                           mlir::ValueRange operands);

private:
  mlir::Value memory(mlir::OpOperand &operand) {
    return mapping.lookupOrDefault(operand.get());
  }
  llvm::SmallVector<mlir::Value> subscripts(mlir::OpBuilder &builder,
                                            mlir::OpOperand &operand,
                                            mlir::ValueRange indices,
                                            int64_t lane);
  /// How an operand moves along the innermost loop.
  enum class Access { Invariant, Vector, Scattered };
  Access getAccess(mlir::OpOperand &operand, int64_t lanes);
  llvm::SmallVector<mlir::Value> emitLoads(mlir::OpBuilder &builder,
                                           mlir::OpOperand &operand,
                                           mlir::ValueRange indices,
                                           int64_t lanes);
  /// All operands that the body reads, by lane.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>>
  emitOperands(mlir::OpBuilder &builder, mlir::ValueRange indices,
               int64_t lanes);
  mlir::Value laneIndex(mlir::OpBuilder &builder, mlir::Value index,
                        int64_t lane);

  mlir::linalg::GenericOp op;
  mlir::IRMapping &mapping;
  llvm::SmallVector<int64_t> sizes;
};

} // namespace pp

#endif // PP_LIB_CONVERSION_GPU_LOOPBODY_H
