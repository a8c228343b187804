//===- NNEpilogues.h - What a library does after a product ------*- C++ -*-===//
//
// The libraries of GPUs add a bias to a matrix product and apply an activation
// before they write it; that of the processor does the same with a convolution.
// An epilogue is the chain of operations that says so.
//
//===----------------------------------------------------------------------===//

#ifndef PP_DIALECT_NN_IR_NNEPILOGUES_H
#define PP_DIALECT_NN_IR_NNEPILOGUES_H

#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

struct Epilogue {
  /// Of a product, the word of the descriptor's key `epilogue`: bias,
  /// bias_relu, bias_gelu or bias_gelu_aux. Of a convolution, the keys of its
  /// activation: empty, "activation=relu" or "activation=clip low=0 high=6".
  std::string name;
  /// After the product, in program order, without the broadcast and constants.
  llvm::SmallVector<mlir::Operation *> operations;
  BroadcastOp broadcast; ///< null without a bias, which only a product demands
  /// One value for each column of the product, or channel of the convolution,
  /// of the type of the result.
  mlir::Value bias;
  /// Of a convolution: what is added to the sum with the bias, of its type.
  mlir::Value residual;
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

/// The same behind a convolution of f32: a bias for each channel, a residual
/// that `mayBeRead` besides, and a ReLU or a maximum and a minimum with
/// constants. None where an elementwise operation reads a sum with the bias
/// alone: that adds the bias for nothing.
std::optional<Epilogue>
findEpilogue(ConvOp conv, llvm::function_ref<bool(mlir::Operation *)> mayJoin,
             llvm::function_ref<bool(mlir::Value)> mayBeRead);

/// The descriptor of a convolution with its epilogue.
std::string describeWithEpilogue(ConvOp conv, const Epilogue &epilogue);

} // namespace pp::nn

#endif // PP_DIALECT_NN_IR_NNEPILOGUES_H
