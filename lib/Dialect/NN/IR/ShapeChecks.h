//===- ShapeChecks.h - What shape operations may say ------------*- C++ -*-===//
//
// Checks that verifiers and the inference of result types share. Each reports
// through `fail`, which adds the operation's name and location.
//
//===----------------------------------------------------------------------===//

#ifndef PP_LIB_DIALECT_NN_IR_SHAPECHECKS_H
#define PP_LIB_DIALECT_NN_IR_SHAPECHECKS_H

#include "mlir/IR/Operation.h"

namespace pp::nn {

using Fail = llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)>;

/// Fails with an error of `op`.
inline auto failingAt(mlir::Operation *op) {
  return [op](const llvm::Twine &why) -> mlir::LogicalResult {
    return op->emitOpError(why);
  };
}

/// Fails with an error of an `Op` that does not exist yet; silently without a
/// location.
template <typename Op> auto failingAt(std::optional<mlir::Location> location) {
  return [location](const llvm::Twine &why) -> mlir::LogicalResult {
    return mlir::emitOptionalError(location, "'", Op::getOperationName(),
                                   "' op ", why);
  };
}

/// "4, 8".
std::string joinSizes(llvm::ArrayRef<int64_t> shape);

/// Whether `axis` is one of a tensor of rank `rank`.
mlir::LogicalResult checkAxis(Fail fail, int64_t axis, int64_t rank);

/// Whether `axes` increase and are axes of a tensor of rank `rank`.
mlir::LogicalResult checkAxes(Fail fail, llvm::ArrayRef<int64_t> axes,
                              int64_t rank);

/// Whether the attribute `name` has an entry for each axis.
mlir::LogicalResult checkPerAxis(Fail fail, llvm::StringRef name,
                                 llvm::ArrayRef<int64_t> values, int64_t rank);

/// Whether the first `shared` axes, all before `axis`, are those of the indices
/// too.
mlir::LogicalResult checkShared(Fail fail, llvm::ArrayRef<int64_t> input,
                                llvm::ArrayRef<int64_t> indices, int64_t axis,
                                int64_t shared);

/// The shape of a gather: `axis` of `input` replaced by the axes of `indices`
/// behind the first `shared` ones.
llvm::SmallVector<int64_t> gatherShape(llvm::ArrayRef<int64_t> input,
                                       llvm::ArrayRef<int64_t> indices,
                                       int64_t axis, int64_t shared);

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_IR_SHAPECHECKS_H
