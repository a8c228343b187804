//===- LayoutRules.h - What a layout asks of operations ---------*- C++ -*-===//

#ifndef PP_LIB_DIALECT_NN_TRANSFORMS_LAYOUTRULES_H
#define PP_LIB_DIALECT_NN_TRANSFORMS_LAYOUTRULES_H

#include "pp/Dialect/NN/IR/Layout.h"

namespace pp::nn {

/// How one operation can work in a layout other than the plain one.
struct LayoutRule {
  /// Whether it can. If not, all its tensors are plain.
  bool isPossible = false;
  /// The operands and results that then lie in the layout; the others are
  /// plain.
  llvm::SmallVector<unsigned> operands, results;
  /// Bytes that it moves because of the layout, beside those that it reads and
  /// writes in any: when it works in the plain layout, and in the other one.
  double plainBytes = 0, otherBytes = 0;
};

/// The axes of a plain tensor with its channels behind all others, or with
/// `isBack` those of such a tensor in the plain order.
llvm::SmallVector<int64_t> getChannelAxes(int64_t rank, bool isBack);

/// The rule for `op`, all of whose tensors are plain.
LayoutRule getLayoutRule(mlir::Operation *op, Layout layout);

/// Whether it is worth to ask for layouts at all: without one of these
/// operations, nothing is gained.
bool hasLayout(mlir::Operation *op);

/// Makes `op` work in `layout`: its operands that follow lie in it already,
/// its results get their types and attributes. Operations that the change adds
/// are handed to `mark`. Returns what stands for each result.
llvm::SmallVector<mlir::Value>
setLayout(mlir::Operation *op, Layout layout, mlir::OpBuilder &builder,
          llvm::function_ref<void(mlir::Operation *)> mark);

} // namespace pp::nn

#endif // PP_LIB_DIALECT_NN_TRANSFORMS_LAYOUTRULES_H
