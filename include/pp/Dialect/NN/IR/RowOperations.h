//===- RowOperations.h - Softmax, layer norm, cross entropy -----*- C++ -*-===//
//
// Generated code computes these operations row by row, in their own element
// type. Their kernels read and write numbers of 16 bits by themselves, where
// casts stand next to them.
//
//===----------------------------------------------------------------------===//

#ifndef PP_DIALECT_NN_IR_ROWOPERATIONS_H
#define PP_DIALECT_NN_IR_ROWOPERATIONS_H

#include "pp/Dialect/NN/IR/NN.h"

namespace pp::nn {

bool isRowOperation(mlir::Operation *op);

/// The operation on rows that can read what `cast` makes f32 of 16 bits; null
/// if there is none, or if another operation reads the cast too.
mlir::Operation *getRowsOfWidening(CastOp cast);

/// The operation on rows that can write `cast`, its rows in 16 bits; null if
/// there is none.
mlir::Operation *getRowsOfNarrowing(CastOp cast);

} // namespace pp::nn

#endif // PP_DIALECT_NN_IR_ROWOPERATIONS_H
