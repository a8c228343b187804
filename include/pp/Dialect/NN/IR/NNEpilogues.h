//===- NNEpilogues.h - What a library does after a product ------*- C++ -*-===//
//
// The libraries of GPUs add a bias to a matrix product and apply an activation
// before they write it. An epilogue is the chain of operations that says so.
//
//===----------------------------------------------------------------------===//

#ifndef PP_DIALECT_NN_IR_NNEPILOGUES_H
#define PP_DIALECT_NN_IR_NNEPILOGUES_H

#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

struct Epilogue {
  /// The word of the descriptor's key `epilogue`: bias, bias_relu, bias_gelu or
  /// bias_gelu_aux.
  llvm::StringRef name;
  /// After the product, in program order, without the broadcast.
  llvm::SmallVector<mlir::Operation *> operations;
  BroadcastOp broadcast;
  /// One value for each column of the product, of the type of the result.
  mlir::Value bias;
  /// What something besides the activation reads of it: `aux`; else null.
  mlir::Value sum;
  mlir::Value result;
};

/// The longest epilogue behind `product` whose operations `mayJoin`. None where
/// no bias follows, or a library could not do it: a batch of products, several
/// axes of columns, a bias of another type than the result, or a product that
/// something else reads. A GELU is only taken in its tanh form, and where it
/// keeps its operand, with a number of columns that is a multiple of 8: these
/// are the limits of cuBLASLt.
std::optional<Epilogue>
findEpilogue(DotGeneralOp product,
             llvm::function_ref<bool(mlir::Operation *)> mayJoin);

} // namespace pp::nn

#endif // PP_DIALECT_NN_IR_NNEPILOGUES_H
