//===- BatchAxisOpInterface.h - Where the samples go ------------*- C++ -*-===//

#ifndef PP_INTERFACES_BATCHAXISOPINTERFACE_H
#define PP_INTERFACES_BATCHAXISOPINTERFACE_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OpDefinition.h"

namespace pp {

/// Where the samples of a mini-batch lie in a tensor: on axis `axis`, whose
/// size is `outer * batch * inner`, in row-major order. Exporters merge the
/// batch with other dimensions (heads x batch, batch x tokens), so an axis
/// alone does not say enough.
struct BatchPosition {
  int64_t axis = -1;
  int64_t outer = 1;
  int64_t inner = 1;

  /// False for a tensor that is the same for all samples.
  explicit operator bool() const { return axis >= 0; }
  bool operator==(const BatchPosition &) const = default;
};

/// The type with the axis of `position` scaled from `oldBatch` samples to
/// `newBatch`.
mlir::RankedTensorType rebatchType(mlir::RankedTensorType type,
                                   BatchPosition position, int64_t oldBatch,
                                   int64_t newBatch);

namespace detail {
llvm::LogicalResult propagateBatchElementwise(
    mlir::Operation *op, llvm::ArrayRef<BatchPosition> operands,
    llvm::SmallVectorImpl<BatchPosition> &results,
    llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
llvm::LogicalResult
demandBatchElementwise(mlir::Operation *op, BatchPosition position,
                       llvm::SmallVectorImpl<BatchPosition> &operands);
} // namespace detail
} // namespace pp

#include "pp/Interfaces/BatchAxisOpInterface.h.inc"

#endif // PP_INTERFACES_BATCHAXISOPINTERFACE_H
